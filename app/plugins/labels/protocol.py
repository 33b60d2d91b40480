"""Labels: their settings, the records of an answer and its label, and the protocol of stores.

tests/contract/test_feedback_stores.py runs on every store. A label is put when it is durable, or
not at all as far as its sender knows.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

from annotated_types import Ge, Le
from pydantic import FiniteFloat

from app.cache.lane import Dropped
from app.cache.protocol import Namespace, RedisServer
from models.calibration import Binding
from models.codec import reader

# Terminals act on these: C0 and C1, and what ends a line or turns the direction of writing.
CONTROL = r"\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069"
# Most parts of an answer that can be labelled.
MAX_PARTS = 256
Quality = Annotated[FiniteFloat, Ge(0), Le(1)]


@dataclass(frozen=True, slots=True)
class FeedbackConfig(RedisServer):
    """The settings of labels; without a path and a url there are none."""

    # Of a file that labels of one gateway are appended to; "" for none. Exclusive with `url`, of
    # a Redis for several gateways.
    path: str = ""
    namespace: Namespace = "cocoa"  # prefix of every key
    ttl_s: Annotated[int, Ge(1)] = 604_800  # how long an answer can be labelled
    # In this process, that can be labelled; beside Redis, that wait for it. The oldest go first.
    max_answers: Annotated[int, Ge(1)] = 10_000
    keep_texts: bool = False  # whether answers are kept with their labels
    timeout_s: Annotated[float, Ge(0.5), Le(30)] = 2.0  # the longest that a label may take
    # Whether a Redis that does not write each label to disk at once is refused.
    require_fsync: bool = True

    def __post_init__(self) -> None:
        RedisServer.__post_init__(self)  # `super()` does not know a class that was given slots
        if self.path and self.whole_url():
            raise ValueError("labels go to a path or to a url, not to both")


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """One part of a served answer."""

    name: str | None  # of a field, the hash of its path (`part_name`), whose keys may be private
    # Its first character in the answer, and the character behind its last.
    span: tuple[int, int] | None
    scores: Mapping[str, FiniteFloat | None]


@dataclass(frozen=True, slots=True)
class Answer:
    """One served answer, as far as a label needs it."""

    id: str
    served_at: FiniteFloat  # Unix seconds
    estimator: str  # the name of that whose value was the uncertainty
    scores: Mapping[str, FiniteFloat | None]  # estimator to its value; None where it had none
    # What the scores came from, `share_cut` among this answer and its samples; None where the
    # client brought samples or log-probs, whose origin is not known.
    binding: Binding | None
    calibrator: str | None = None
    text: str | None = None  # the answer; None unless texts are kept
    namespace: str = ""  # of the key that got the answer; labels of others do not reach it
    format: Literal[1] = 1
    parts: tuple[AnswerPart, ...] = ()  # the first of its parts, where they were requested
    parts_binding: Binding | None = None  # what their scores came from; None as with `binding`

    @property
    def name(self) -> str:
        """The name by which a store keeps it."""
        return name_of(self.id, self.namespace)


@dataclass(frozen=True, slots=True)
class PartLabel:
    """A label of a part of an answer."""

    part: Annotated[int, Ge(0)]
    correct: bool | None = None  # it is right
    grounded: bool | None = None  # the documents say it


@dataclass(frozen=True, slots=True)
class Label:
    """A label of an answer, of parts of it, or of both."""

    answer: Answer
    # In [0, 1]; 1 is right, 0 is wrong; None where parts alone are labelled.
    quality: Quality | None
    task: str | None  # kind of the question, in the application's words
    labelled_at: FiniteFloat  # Unix seconds
    parts: tuple[PartLabel, ...] = ()

    def __post_init__(self) -> None:
        if self.quality is None and not self.parts:
            raise ValueError("a label of nothing")
        for label in self.parts:
            if label.part >= len(self.answer.parts):
                raise ValueError("a label of no part of its answer")
            if label.correct is None and label.grounded is None:
                raise ValueError("a label of nothing")


class StoreFailed(Dropped):
    """A store has no answer, or cannot keep a label; the text says why, and quotes nothing."""


class FeedbackStore(Protocol):
    """Answers that can be labelled, for a while, and labels, for good; one label an answer."""

    async def start(self) -> None:
        """Be ready for calls.

        Raises:
            OSError: it cannot be.
        """

    async def close(self) -> None:
        """Free what is held."""

    def remember(self, answer: Answer) -> None:
        """Store the answer, now or soon; never raises and never blocks."""

    async def find(self, name: str) -> Answer | None:
        """The answer of this name; None where it is unknown or too old.

        Raises:
            Dropped: the store does not answer.
        """

    async def put(self, label: Label) -> None:
        """Keep a label, in place of an earlier one of its answer; durable on return.

        Raises:
            Dropped: it is not durable, or that is unknown; it may be put again.
            InvalidRequest: there are too many of this answer.
        """


answer_from_json, label_from_json = reader(Answer), reader(Label)


def name_of(answer_id: str, namespace: str) -> str:
    """The name of an answer: its namespace and its id. An id has no blank."""
    return f"{namespace} {answer_id}".removeprefix(" ")


def part_name(path: str) -> str:
    """The name of the part at a JSON Pointer: a hash, which does not reveal the pointer."""
    return hashlib.sha256(path.encode()).hexdigest()[:16]
