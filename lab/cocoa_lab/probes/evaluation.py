"""One evaluation of a probe: from what is to be measured to what was measured."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cocoa_lab.probes.checkpoint import Epoch
from cocoa_lab.probes.collecting import AnswerQuality
from cocoa_lab.probes.collection import Collection
from cocoa_lab.probes.comparing import SEEN, UNSEEN, Contrast, agreement, contrasts
from cocoa_lab.probes.from_collection import TrainingSpec
from cocoa_lab.probes.notes import notes, num_own_prompts
from cocoa_lab.probes.predicting import Predicted, leave_one_out, predictions
from models.probes.card import Card, check_model
from models.probes.probe import TrainedProbe


@dataclass(frozen=True, slots=True)
class ProbeEvaluationSpec:
    """What is to be measured.

    Attributes:
        measured: answers with features of all layers of `training`.
        quality: of these answers.
        training: the probe's own collection; None leaves no task out.
    """

    probe: TrainedProbe
    measured: Collection
    quality: AnswerQuality
    training: Collection | None
    num_resamples: int
    seed: int


@dataclass(frozen=True, slots=True)
class ProbeEvaluation:
    """What was measured, by probe: the one as it is, and those that never saw the task.

    Attributes:
        num_own: answers to prompts of the probe's own collection; None where that is not at hand.
        notes: what has to be known before the figures are trusted.
    """

    card: Card
    num_answers: int
    by_probe: Mapping[str, Predicted]
    agreements: Mapping[str, Mapping[str, Mapping[str, float | None]]]
    contrasts: Sequence[Contrast]
    num_own: int | None
    notes: Sequence[str]


def evaluate_probe(
    spec: ProbeEvaluationSpec, out: Path, on_epoch: Callable[[Epoch], None]
) -> ProbeEvaluation:
    """Predictions of the probe, measured.

    Where its collection is at hand, those of probes that never saw the task are measured too.

    Raises:
        ProbeMismatch: the probe is another model's than the answers.
    """
    card, measured = spec.probe.card, spec.measured
    check_model(card, measured.header.model, measured.header.revision)
    by_probe = {SEEN: predictions(spec.probe, measured)}
    if spec.training is not None:
        again = TrainingSpec(card.target, card.architecture, seed=card.seed)
        folder = out / "left-out"
        unseen = leave_one_out(spec.training, again, measured, folder, on_epoch)
        if unseen.is_made.any():
            by_probe[UNSEEN] = unseen
    agreements = {}
    for name, predicted in by_probe.items():
        agreements[name] = agreement(measured, card, predicted)
    compared = contrasts(
        measured,
        card.target,
        spec.quality.values,
        spec.quality.is_binary,
        by_probe,
        num_resamples=spec.num_resamples,
        seed=spec.seed,
    )
    num_own = None
    if spec.training is not None:
        num_own = num_own_prompts(measured, spec.training)
    return ProbeEvaluation(
        card=card,
        num_answers=len(measured.answers),
        by_probe=by_probe,
        agreements=agreements,
        contrasts=compared,
        num_own=num_own,
        notes=notes(card, measured, num_own, compared[0].left_out),
    )
