"""What endpoints know of labels: answers that were served, and labels that come in for them."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from app.cache.lane import Dropped
from app.plugins.labels.file import FileStore
from app.plugins.labels.protocol import (
    MAX_PARTS,
    Answer,
    FeedbackConfig,
    FeedbackStore,
    Label,
    PartLabel,
    name_of,
    part_name,
)
from models.errors import FeedbackUnavailable, InvalidRequest, UnknownAnswer

logger = logging.getLogger(__name__)

AnswerOutcome = Literal["remembered", "lost"]
LabelOutcome = Literal["kept", "unknown", "refused", "failed"]
# Another gateway may store a served answer a moment late.
_SECOND_LOOK_S = 0.1


# A part of an answer, by its path or span, whether it is right, and whether it is grounded.
GivenPart = tuple[str | tuple[int, int], bool | None, bool | None]


@dataclass(slots=True, eq=False)
class Feedback:
    """The labels of one deployment; `count` is called with the outcome of each answer and label."""

    store: FeedbackStore
    config: FeedbackConfig
    count: Callable[[str, AnswerOutcome | LabelOutcome], None]
    _has_failed: bool = False

    def remember(self, make: Callable[[], Answer | None]) -> None:
        """Store the answer that `make` returns, for labels to come; never raises."""
        try:
            if (answer := make()) is not None:
                self.store.remember(answer)
                self.count("feedback_answers", "remembered")
        except Exception as error:  # a defect here must not cost anybody an answer
            self.count("feedback_answers", "lost")
            if not self._has_failed:
                logger.error("an answer cannot be remembered: %s", type(error).__name__)
            self._has_failed = True

    async def label(
        self,
        answer_id: str,
        quality: float | None,
        task: str | None,
        namespace: str = "",
        parts: Sequence[GivenPart] = (),
    ) -> None:
        """Keep the label of an answer, its quality in [0, 1]; durable on return.

        The namespace of the caller must be the answer's.

        Raises:
            UnknownAnswer: no answer of this id can be labelled.
            InvalidRequest: its label has changed too often, or it has no such part.
            FeedbackUnavailable: the label is not durable, or that is unknown; it may be repeated.
        """
        outcome: LabelOutcome = "failed"
        try:
            async with asyncio.timeout(self.config.timeout_s):
                if (answer := await self._find(name_of(answer_id, namespace))) is None:
                    outcome = "unknown"
                    raise UnknownAnswer(
                        "no answer of this id can be labelled: it is unknown, older than "
                        f"{self.config.ttl_s} s, or was not shown",
                        field="id",
                    )
                of_parts = part_labels(answer, parts)
                await self.store.put(Label(answer, quality, task, time.time(), of_parts))
            outcome = "kept"
        except InvalidRequest:
            outcome = "refused"
            raise
        except (Dropped, TimeoutError) as error:
            why = str(error) or f"not kept within {self.config.timeout_s:g} s"
            raise FeedbackUnavailable(why) from None
        finally:
            self.count("feedback_labels", outcome)

    async def _find(self, name: str) -> Answer | None:
        answer = await self.store.find(name)
        if answer is None:
            await asyncio.sleep(_SECOND_LOOK_S)
            answer = await self.store.find(name)
        return answer


def part_labels(answer: Answer, parts: Sequence[GivenPart]) -> tuple[PartLabel, ...]:
    """The labels of parts of an answer, by their places among the answer's.

    Raises:
        InvalidRequest: the answer has no such part, a part is named twice, or a grounded one was
            looked up in no documents.
    """
    place_of: dict[str | tuple[int, int], int] = {}
    for i, part in enumerate(answer.parts):
        if part.name is not None:
            place_of[part.name] = i
        if part.span is not None:
            place_of[part.span] = i
    labels: dict[int, PartLabel] = {}
    for number, (named, correct, grounded) in enumerate(parts):
        field = "span"
        if isinstance(named, str):
            field, named = "path", part_name(named)
        place = place_of.get(named)
        if place is None:
            message = (
                "names no part of this answer that can be labelled: of the parts that its response "
                f"told in `units`, the first {MAX_PARTS} can be"
            )
            raise InvalidRequest(message, field=f"units.{number}.{field}")
        if place in labels:
            raise InvalidRequest("is named twice", field=f"units.{number}.{field}")
        is_looked_up = answer.parts[place].scores.get("ungrounded") is not None
        if grounded is not None and not is_looked_up:
            message = (
                "needs an answer that was served with documents, and with ungrounded among its "
                "estimators, as it is by default"
            )
            raise InvalidRequest(message, field=f"units.{number}.grounded")
        labels[place] = PartLabel(place, correct, grounded)
    return tuple(labels.values())


def make_feedback(
    config: FeedbackConfig, count: Callable[[str, AnswerOutcome | LabelOutcome], None]
) -> Feedback | None:
    """The labels that are configured; None where none are collected. Nothing is opened yet."""
    on_lost = partial(count, "feedback_answers", "lost")
    if config.path:
        return Feedback(FileStore(config, on_lost), config, count)
    if url := config.whole_url():
        # The client of Redis is imported only where a deployment has one.
        from app.plugins.labels.redis import RedisStore

        return Feedback(RedisStore(url, config, on_lost), config, count)
    return None
