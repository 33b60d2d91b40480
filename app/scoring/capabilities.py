"""A deployment's capabilities beyond answering, and settings that request others in vain."""

from dataclasses import dataclass

from app.scoring.calibrators import ServedCalibrator
from app.scoring.deployment import Models
from workers.config import WorkerConfig, variable

_AUTOMATIC = ("", "auto")  # settings that request nothing by name
_ENTROPIES = "answer_token_entropies"


@dataclass(frozen=True, slots=True)
class Capability:
    """A capability."""

    lacks: str  # the reason why it is not available; "" where it is
    setting: str = ""  # the variable that requests it by name; "" where none does


def capabilities(
    config: WorkerConfig, models: Models, calibrator: ServedCalibrator
) -> dict[str, Capability]:
    """The capabilities of a deployment, by name; cheap enough for each scrape."""
    info, no_nli, no_entropies = models.generator, "", ""
    if models.nli is None:
        no_nli = "there is no NLI model"
    if _ENTROPIES not in info.statistics:
        no_entropies = info.absent.get(_ENTROPIES, "the language model does not tell them")
    by_name = {
        "entropies": Capability(no_entropies),
        "grammar": Capability(info.no_grammar),
        "reasoning_limit": Capability(info.no_reasoning_limit),
        "images": Capability(info.no_images),
        "nli": Capability(no_nli),
        "calibrator": _requested("calibrator", config.calibrator, calibrator.lacks(models)),
    }
    for _, statistic, setting, folder in config.probes.folders():
        lacks = ""
        if statistic not in info.probes:
            lacks = info.absent.get(statistic, "no probe is loaded that this model's server reads")
        by_name[statistic] = _requested(setting, folder, lacks)
    return by_name


def _requested(setting: str, value: str, lacks: str) -> Capability:
    if value in _AUTOMATIC:
        return Capability(lacks)
    return Capability(lacks, variable(setting))
