"""The contract of every store of labels, which tests/contract/test_feedback_stores.py runs on each.

A label is put when it is durable, or not at all as far as its sender knows.
"""

from dataclasses import dataclass
from typing import Annotated, Protocol

from annotated_types import Ge, Le
from pydantic import FilePath

from app.cache.protocol import Namespace, RedisUrl
from app.feedback.records import Answer, Label


@dataclass(frozen=True, slots=True)
class FeedbackConfig:
    """What a deployment says about labels.

    Attributes:
        path: of a file that labels are appended to, one gateway's own; "" for none.
        url: of a Redis, for several gateways; exclusive with `path`. Without both there are no
            labels.
        ca_file: PEM file of the authority that signed a rediss:// server's certificate; None trusts
            the system's.
        namespace: prefix of every key.
        ttl_s: how long an answer can be labelled.
        max_answers: in this process, that can be labelled; beside Redis, that wait for it. The
            oldest go first.
        keep_texts: whether answers are kept with their labels.
        timeout_s: that a label may take.
        require_fsync: whether a Redis that does not write each label to disk at once is refused.
    """

    path: str = ""
    url: RedisUrl | None = None
    ca_file: FilePath | None = None
    namespace: Namespace = "cocoa"
    ttl_s: Annotated[int, Ge(1)] = 604_800
    max_answers: Annotated[int, Ge(1)] = 10_000
    keep_texts: bool = False
    timeout_s: Annotated[float, Ge(0.5), Le(30)] = 2.0
    require_fsync: bool = True

    def __post_init__(self) -> None:
        if self.path and self.url is not None and self.url.get_secret_value():
            raise ValueError("labels go to a path or to a url, not to both")


class StoreFailed(Exception):
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
            StoreFailed: nobody can say.
        """

    async def put(self, label: Label) -> None:
        """Keep a label, in place of an earlier one of its answer; durable on return.

        Raises:
            StoreFailed: it is not, or nobody can say; it may be put again.
        """
