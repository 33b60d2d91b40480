"""Labels that applications sent: those of the deployment that most of them are of, as arrays."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from redis import Redis, RedisCluster
from redis.exceptions import MovedError

from app.cache.connection import FAULTS, kind_of_fault, tls_options
from app.plugins.labels.protocol import FeedbackConfig, Label, StoreFailed, label_from_json
from app.plugins.labels.redis import labels_key
from cocoa_lab.calibration.fitting import CannotCalibrate
from cocoa_lab.calibration.labels import AXES, Labelled, Labels, correct_of
from cocoa_lab.lines import complete_lines
from models.calibration import OTHER_RULES, Binding
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
            label = label_from_json(content)
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
    try:
        try:
            yield from _scanned(Redis, url, config)
        except MovedError:
            yield from _scanned(RedisCluster, url, config)
    except (*FAULTS, ValueError) as error:  # of the URL
        raise StoreFailed(f"Redis: {kind_of_fault(error)}") from None


def _scanned(kind: type[Redis | RedisCluster], url: str, config: FeedbackConfig) -> Iterator[bytes]:
    tls = tls_options(url, config.ca_file)
    with kind.from_url(url, socket_timeout=_READ_TIMEOUT_S, **tls) as client:
        for _, value in client.hscan_iter(labels_key(config.namespace), count=1000):
            yield value


def read_feedback(
    source: str,
    config: FeedbackConfig,
    correct_at: float | None = None,
    namespace: str | None = None,
) -> tuple[list[Labelled], str, list[str]]:
    """The labels for each way of asking, the most frequent first, what they are, and notes.

    Those of other models than most are of are left out: notes count them.

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
    num_brought = num_outdated = 0
    for label in of_namespace:
        bindings = []
        if label.quality is not None:
            bindings.append(label.answer.binding)
        if label.parts:
            bindings.append(label.answer.parts_binding)
        for binding in bindings:
            if binding is None:
                num_brought += 1
            elif binding.outdated:
                num_outdated += 1
            else:
                groups[repr(replace(binding, share_cut=0.0))].append((label, binding))
    if num_brought:
        notes.append(f"{num_brought} labels of samples or log-probs of clients' own are left out")
    if num_outdated:
        notes.append(f"the scores of {num_outdated} labels {OTHER_RULES}: collect these anew")
    if not groups:
        raise CannotCalibrate("; ".join(["no labels", *notes]))
    by_size = sorted(groups.values(), key=len, reverse=True)
    most = by_size[0][0][1]
    kept = [group for group in by_size if not _other_models(group[0][1], most)]
    num_labels = sum(map(len, kept))
    if num_others := sum(map(len, by_size)) - num_labels:
        differing: dict[str, None] = {}
        for group in by_size:
            differing |= dict.fromkeys(_other_models(group[0][1], most))
        names = ", ".join(differing)
        notes.append(f"{num_others} labels of other models are left out, by {names}")
    parts: list[Labelled] = []
    for group in kept:
        parts += _labelled(group, correct_at)
    return parts, f"feedback, {num_labels} labels", notes


def _labelled(group: Sequence[tuple[Label, Binding]], correct_at: float | None) -> list[Labelled]:
    labels, bindings = zip(*group, strict=True)
    if bindings[0].unit != "answer":
        return _labelled_parts(labels, bindings)
    quality = np.array([label.quality for label in labels])
    tasks = [label.task or "" for label in labels]
    rows = [label.answer.scores for label in labels]
    share_cut = float(np.mean([binding.share_cut for binding in bindings]))
    return [
        Labelled(
            Labels(tasks, correct_of(quality, correct_at), _scores(rows)),
            (replace(bindings[0], share_cut=share_cut),),
        )
    ]


def _labelled_parts(labels: Sequence[Label], bindings: Sequence[Binding]) -> list[Labelled]:
    """The parts of answers by what was said of them, those of one answer together."""
    share_cut = float(np.mean([binding.share_cut for binding in bindings]))
    found = []
    for axis in AXES:
        rows: list[Mapping[str, float | None]] = []
        said: list[bool] = []
        answers: list[int] = []
        for number, label in enumerate(labels):
            for one in label.parts:
                if (verdict := getattr(one, axis)) is not None:
                    rows.append(label.answer.parts[one.part].scores)
                    said.append(verdict)
                    answers.append(number)
        if not rows:
            continue
        of_axis = Labels(
            [labels[number].task or "" for number in answers],
            np.array(said, dtype=np.float64),
            _scores(rows),
            answers=np.array(answers, dtype=int),
            axis=axis,
        )
        found.append(Labelled(of_axis, (replace(bindings[0], share_cut=share_cut),)))
    return found


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


def _scores(rows: Sequence[Mapping[str, float | None]]) -> Mapping[str, Array]:
    """Estimator to its uncertainties (n,), NaN where a row has none."""
    scores: dict[str, Array] = {}
    for row, known in enumerate(rows):
        for name, value in known.items():
            values = scores.setdefault(name, np.full(len(rows), np.nan))
            if value is not None:
                values[row] = value
    return scores


def _other_models(one: Binding, other: Binding) -> list[str]:
    """By which models two bindings differ; another similarity function is no other model."""
    names = ["model_id", "revision", "generator", "nli"]
    if one.similarity == other.similarity:
        names.append("comparer")
    found = [name for name in names if getattr(one, name) != getattr(other, name)]
    shared = one.probes.keys() & other.probes.keys()
    if any(one.probes[name] != other.probes[name] for name in shared):
        found.append("probes")
    return found
