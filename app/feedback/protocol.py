"""Labels: what is configured, what is kept of an answer and its label, and where it is kept.

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
# Of one answer, that are remembered for labels.
MAX_PARTS = 256
Quality = Annotated[FiniteFloat, Ge(0), Le(1)]


@dataclass(frozen=True, slots=True)
class FeedbackConfig(RedisServer):
    """What a deployment says about labels; without a path and a url there are none.

    Attributes:
        path: of a file that labels are appended to, one gateway's own; "" for none. Exclusive with
            `url`, of a Redis for several gateways.
        namespace: prefix of every key.
        ttl_s: how long an answer can be labelled.
        max_answers: in this process, that can be labelled; beside Redis, that wait for it. The
            oldest go first.
        keep_texts: whether answers are kept with their labels.
        timeout_s: that a label may take.
        require_fsync: whether a Redis that does not write each label to disk at once is refused.
    """

    path: str = ""
    namespace: Namespace = "cocoa"
    ttl_s: Annotated[int, Ge(1)] = 604_800
    max_answers: Annotated[int, Ge(1)] = 10_000
    keep_texts: bool = False
    timeout_s: Annotated[float, Ge(0.5), Le(30)] = 2.0
    require_fsync: bool = True

    def __post_init__(self) -> None:
        RedisServer.__post_init__(self)  # `super()` does not know a class that was given slots
        if self.path and self.whole_url():
            raise ValueError("labels go to a path or to a url, not to both")


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """One part of a served answer.

    Attributes:
        name: of a field, of its path (`part_name`): keys may tell what nobody wants kept.
        span: its first character in the answer, and the one behind its last.
    """

    name: str | None
    span: tuple[int, int] | None
    scores: Mapping[str, FiniteFloat | None]


@dataclass(frozen=True, slots=True)
class Answer:
    """One served answer, as far as a label needs it.

    Attributes:
        served_at: Unix seconds.
        estimator: the one whose value was the uncertainty.
        scores: estimator to its value; None where it had none.
        binding: what the scores came from, `share_cut` among this answer and its samples; None
            where the client brought samples or log-probs, which nobody knows the origin of.
        text: the answer; None unless texts are kept.
        namespace: whose answer it is; nobody else's label finds it.
        parts: the first of its parts, where they were asked for.
        parts_binding: what their scores came from; None as with `binding`.
    """

    id: str
    served_at: FiniteFloat
    estimator: str
    scores: Mapping[str, FiniteFloat | None]
    binding: Binding | None
    calibrator: str | None = None
    text: str | None = None
    namespace: str = ""
    format: Literal[1] = 1
    parts: tuple[AnswerPart, ...] = ()
    parts_binding: Binding | None = None

    @property
    def name(self) -> str:
        """By which a store keeps it."""
        return name_of(self.id, self.namespace)


@dataclass(frozen=True, slots=True)
class PartLabel:
    """What an application says of a part of an answer."""

    part: Annotated[int, Ge(0)]
    correct: bool


@dataclass(frozen=True, slots=True)
class Label:
    """What an application says of an answer, of parts of it, or of both.

    Attributes:
        quality: in [0, 1]; 1 is right, 0 is wrong; None where nothing is said of the whole.
        task: what kind of question it was, in the application's words.
        labelled_at: Unix seconds.
    """

    answer: Answer
    quality: Quality | None
    task: str | None
    labelled_at: FiniteFloat
    parts: tuple[PartLabel, ...] = ()

    def __post_init__(self) -> None:
        if self.quality is None and not self.parts:
            raise ValueError("a label of nothing")
        if any(one.part >= len(self.answer.parts) for one in self.parts):
            raise ValueError("a label of no part of its answer")


class StoreFailed(Dropped):
    """A store cannot say, or cannot promise; the text says why, and quotes nothing."""


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
        """Have the answer found, now or soon; never raises and never blocks."""

    async def find(self, name: str) -> Answer | None:
        """The answer of this name; None for one that is unknown or too old.

        Raises:
            Dropped: nobody can say.
        """

    async def put(self, label: Label) -> None:
        """Keep a label, in place of an earlier one of its answer; durable on return.

        Raises:
            Dropped: it is not, or nobody can say; it may be put again.
            InvalidRequest: there are too many of this answer.
        """


answer_from_json, label_from_json = reader(Answer), reader(Label)


def name_of(answer_id: str, namespace: str) -> str:
    """The name of an answer: its id, after whose it is. An id has no blank."""
    return f"{namespace} {answer_id}".removeprefix(" ")


def part_name(path: str) -> str:
    """By which the part at a JSON Pointer is found; it does not tell the pointer."""
    return hashlib.sha256(path.encode()).hexdigest()[:16]
