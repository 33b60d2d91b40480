"""A deployment's capabilities beyond answering, and settings that ask for others in vain."""

from collections.abc import Mapping
from dataclasses import dataclass

from app.scoring.calibrators import ServedCalibrator
from app.scoring.deployment import Models
from models.probes.card import STATISTIC
from workers.config import WorkerConfig, probe_folders, variable

_AUTOMATIC = ("", "auto")  # settings that ask for nothing by name
_ENTROPIES = "answer_token_entropies"


@dataclass(frozen=True, slots=True)
class Capability:
    """One of them.

    Attributes:
        lacks: why it cannot be had; "" where it can.
        setting: the variable that asks for it by name; "" where none does.
    """

    lacks: str
    setting: str = ""


def capabilities(
    config: WorkerConfig, models: Models, calibrator: ServedCalibrator
) -> dict[str, Capability]:
    """All of them, by name; cheap enough to be asked at each scrape."""
    info, no_nli, no_entropies = models.generator, "", ""
    if models.nli is None:
        no_nli = "there is no NLI model"
    if _ENTROPIES not in info.statistics:
        no_entropies = info.absent.get(_ENTROPIES, "the language model does not tell them")
    found = {
        "entropies": Capability(no_entropies),
        "grammar": Capability(info.no_grammar),
        "reasoning_limit": Capability(info.no_reasoning_limit),
        "images": Capability(info.no_images),
        "nli": Capability(no_nli),
        "calibrator": _asked_for("calibrator", config.calibrator, calibrator.lacks(models)),
    }
    for target, setting, folder in probe_folders(config.probes):
        statistic, lacks = STATISTIC[target], ""
        if statistic not in info.probes:
            lacks = info.absent.get(statistic, "no probe is loaded that this model's server reads")
        found[statistic] = _asked_for(setting, folder, lacks)
    return found


def unmet(found: Mapping[str, Capability]) -> dict[str, str]:
    """By variable, why what it asks for cannot be had."""
    return {one.setting: one.lacks for one in found.values() if one.setting and one.lacks}


def _asked_for(setting: str, value: str, lacks: str) -> Capability:
    if value in _AUTOMATIC:
        return Capability(lacks)
    return Capability(lacks, variable(setting))
