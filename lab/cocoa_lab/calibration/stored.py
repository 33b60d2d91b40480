"""Labels as they were kept: what a calibrator is fitted on."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from app.cache.connection import kind_of_fault, tls_options
from app.feedback.protocol import FeedbackConfig, Label, StoreFailed, from_json
from app.feedback.redis import labels_key
from app.lines import complete_lines

_READ_TIMEOUT_S = 10.0


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
        contents = _in_redis(source, config)
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


def _in_redis(url: str, config: FeedbackConfig) -> Iterator[bytes]:
    """The labels in a Redis, in any order; one that is replaced meanwhile may come twice.

    Raises:
        StoreFailed: it does not give them.
    """
    tls = tls_options(url, config.ca_file)
    try:
        with Redis.from_url(url, socket_timeout=_READ_TIMEOUT_S, **tls) as client:
            for _, value in client.hscan_iter(labels_key(config.namespace), count=1000):
                yield value
    except (RedisError, OSError, ValueError) as error:  # of the URL
        raise StoreFailed(f"Redis: {kind_of_fault(error)}") from None
