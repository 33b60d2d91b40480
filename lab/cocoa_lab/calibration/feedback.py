"""Labels that applications sent: those of the deployment that most of them are of, as arrays."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

import numpy as np

from app.feedback.protocol import FeedbackConfig, Label
from cocoa_lab.calibration.fitting import CannotCalibrate
from cocoa_lab.calibration.labels import Labels, correct_of
from cocoa_lab.calibration.stored import stored_labels
from models.calibration import Binding
from models.records import Array


def read_feedback(
    source: str, config: FeedbackConfig, correct_at: float | None = None
) -> tuple[Labels, Binding, str, list[str]]:
    """The labels of what most are of, what they are bound to, what they are, and notes.

    Scores of other models or samplings are not comparable: notes count what is left out.

    Args:
        source: path or URL of what `POST /feedback` kept.
        config: namespace and authority of a Redis.
        correct_at: quality from which an answer counts as right; None where all are 0 or 1.

    Raises:
        OSError: there is no such file.
        StoreFailed: Redis does not give them.
        CannotCalibrate: no labels, or quality of degrees without `correct_at`.
    """
    stored = stored_labels(source, config)
    notes: list[str] = []
    if stored.num_unread:
        notes.append(f"{stored.num_unread} entries are no labels")
    groups: defaultdict[str, list[tuple[Label, Binding]]] = defaultdict(list)
    num_brought = 0
    for label in stored.labels:
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
    others = [group[0][1] for group in groups.values() if group is not most]
    if others:
        num_others = sum(map(len, groups.values())) - len(most)
        differing = ", ".join(_differing(most[0][1], others))
        notes.append(f"{num_others} labels of other scores are left out, by {differing}")
    labels = [label for label, _ in most]
    quality = np.array([label.quality for label in labels])
    kept = Labels(
        [label.task or "" for label in labels], correct_of(quality, correct_at), _scores(labels)
    )
    share_cut = float(np.mean([binding.share_cut for _, binding in most]))
    binding = replace(most[0][1], share_cut=share_cut)
    return kept, binding, f"feedback, {len(labels)} labels", notes


def _scores(labels: Sequence[Label]) -> Mapping[str, Array]:
    """Estimator to its uncertainties (n,), NaN where an answer has none."""
    names = dict.fromkeys(name for label in labels for name in label.answer.scores)
    scores: dict[str, Array] = {}
    for name in names:
        values = [label.answer.scores.get(name) for label in labels]
        scores[name] = np.array(values, dtype=np.float64)
    return scores


def _differing(kept: Binding, others: Sequence[Binding]) -> list[str]:
    """Names of what tells the others from what is kept."""
    ours = asdict(kept)
    names = []
    for name in ours:
        if name != "share_cut" and any(asdict(other)[name] != ours[name] for other in others):
            names.append(name)
    return names
