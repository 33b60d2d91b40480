"""Labels as they were kept: what a calibrator is fitted on."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from app.feedback.protocol import FeedbackConfig
from app.feedback.records import Label, from_json
from app.feedback.redis import label_values
from app.lines import complete_lines


@dataclass(frozen=True, slots=True)
class StoredLabels:
    """What a store holds.

    Attributes:
        labels: one an answer, in the order of the answers' first labels; of Redis in any.
        num_unread: lines or values that are no labels.
    """

    labels: list[Label]
    num_unread: int


def stored_labels(source: str, config: FeedbackConfig) -> StoredLabels:
    """The labels in a file or a Redis; a service may go on writing to it.

    Args:
        source: path, or URL of a Redis.
        config: namespace and authority of a Redis.

    Raises:
        OSError: there is no such file.
        StoreFailed: Redis does not give them.
    """
    contents: Iterable[bytes]
    if source.startswith(("redis://", "rediss://")):
        contents = label_values(source, config)
    else:
        contents = complete_lines(Path(source))
    by_answer: dict[str, Label] = {}
    num_unread = 0
    for content in contents:
        try:
            label = from_json(Label, content)
        except ValueError:
            num_unread += 1
        else:
            by_answer[label.answer.name] = label
    return StoredLabels(list(by_answer.values()), num_unread)
