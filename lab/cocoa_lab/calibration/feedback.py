"""Labels that applications sent: those of the deployment that most of them are of, as arrays."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from redis import Redis
from redis.exceptions import RedisError

from app.cache.connection import kind_of_fault, tls_options
from app.feedback.protocol import FeedbackConfig, Label, StoreFailed, from_json
from app.feedback.redis import labels_key
from app.lines import complete_lines
from cocoa_lab.calibration.fitting import CannotCalibrate
from cocoa_lab.calibration.labels import Labels, correct_of
from models.calibration import Binding
from models.records import Array

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


def read_feedback(
    source: str,
    config: FeedbackConfig,
    correct_at: float | None = None,
    namespace: str | None = None,
) -> tuple[Labels, Binding, str, list[str]]:
    """The labels of what most are of, what they are bound to, what they are, and notes.

    Scores of other models or samplings are not comparable: notes count what is left out.

    Args:
        source: path or URL of what `POST /feedback` kept.
        config: namespace and authority of a Redis.
        correct_at: quality from which an answer counts as right; None where all are 0 or 1.
        namespace: whose labels are taken; None where all are of one.

    Raises:
        OSError: there is no such file.
        StoreFailed: Redis does not give them.
        CannotCalibrate: no labels, those of several namespaces and none is named, or quality of
            degrees without `correct_at`.
    """
    stored = stored_labels(source, config)
    of_namespace, notes = _of_namespace(stored.labels, namespace)
    if stored.num_unread:
        notes.append(f"{stored.num_unread} entries are no labels")
    groups: defaultdict[str, list[tuple[Label, Binding]]] = defaultdict(list)
    num_brought = 0
    for label in of_namespace:
        binding = label.answer.binding
        if binding is None:
            num_brought += 1
        else:
            groups[repr(replace(binding, share_cut=0.0))].append((label, binding))
    if num_brought:
        notes.append(f"{num_brought} labels of samples or log-probs of clients' own are left out")
    if not groups:
        raise CannotCalibrate("; ".join(["no labels", *notes]))
    most = max(groups.values(), key=len)
    labels, bindings = zip(*most, strict=True)
    others = [group[0][1] for group in groups.values() if group is not most]
    if others:
        num_others = sum(map(len, groups.values())) - len(most)
        differing = ", ".join(_differing(bindings[0], others))
        notes.append(f"{num_others} labels of other scores are left out, by {differing}")
    quality = np.array([label.quality for label in labels])
    kept = Labels(
        [label.task or "" for label in labels], correct_of(quality, correct_at), _scores(labels)
    )
    share_cut = float(np.mean([binding.share_cut for binding in bindings]))
    binding = replace(bindings[0], share_cut=share_cut)
    return kept, binding, f"feedback, {len(labels)} labels", notes


def _of_namespace(
    labels: Sequence[Label], namespace: str | None
) -> tuple[Sequence[Label], list[str]]:
    """The labels of one namespace, and a note that names it.

    Raises:
        CannotCalibrate: they are of several, or there are none of the named one.
    """
    by_namespace: defaultdict[str, list[Label]] = defaultdict(list)
    for label in labels:
        by_namespace[label.answer.namespace].append(label)
    found = ", ".join(f"{name!r} ({len(part)})" for name, part in sorted(by_namespace.items()))
    if namespace is None and len(by_namespace) > 1:
        message = f"labels of several namespaces, {found}: choose one with --namespace"
        raise CannotCalibrate(message)
    if namespace is not None and namespace not in by_namespace:
        raise CannotCalibrate(f"no labels of namespace {namespace!r}, but of {found or 'none'}")
    if namespace is None:
        namespace = "".join(by_namespace)  # the only one
    taken = by_namespace[namespace]
    if not namespace and len(by_namespace) == 1:  # a service without keys
        return taken, []
    return taken, [f"{len(taken)} of {len(labels)} labels are of namespace {namespace!r}"]


def _scores(labels: Sequence[Label]) -> Mapping[str, Array]:
    """Estimator to its uncertainties (n,), NaN where an answer has none."""
    scores: dict[str, Array] = {}
    for row, label in enumerate(labels):
        for name, value in label.answer.scores.items():
            values = scores.setdefault(name, np.full(len(labels), np.nan))
            if value is not None:
                values[row] = value
    return scores


def _differing(kept: Binding, others: Sequence[Binding]) -> list[str]:
    """Names of what tells the others from what is kept."""
    found: dict[str, None] = {}
    for other in others:
        for name, value in asdict(other).items():
            if name != "share_cut" and value != getattr(kept, name):
                found[name] = None
    return list(found)
