"""Which calibrator a deployment serves."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from models.calibration import Calibrator
from models.embedded import CALIBRATOR_PATH, CALIBRATORS
from workers.protocol import ComparerInfo, GeneratorInfo, Workers

logger = logging.getLogger(__name__)


def load_calibrator(setting: str, workers: Workers) -> Calibrator | None:
    """The calibrator that a deployment serves.

    Args:
        setting: a path; "auto" for that of an embedded language model beside the embedded pair
            models; "" for none.
        workers: loaded ones.

    Raises:
        OSError: there is no such file.
        ValueError: it is no calibrator, or another deployment's; names what differs.
    """
    if not setting:
        return None
    path = Path(setting)
    if setting == "auto":
        path = CALIBRATORS.get(workers.generator.info.model_id, CALIBRATOR_PATH)
    calibrator = Calibrator.load(path)
    try:
        check_deployment(calibrator, workers)
    except ValueError as error:
        if setting != "auto":
            raise
        logger.info("the embedded calibrator is not served: %s", error)
        return None
    if not compares_prompts(calibrator, workers) and calibrator.prompts:
        logger.warning(
            "prompts are not compared with the calibrator's: the process of the language model "
            "has another COCOA_CALIBRATOR or none, vLLM's plugin was not given its prompts, or the "
            "model shows no hidden states"
        )
    return calibrator


def compares_prompts(calibrator: Calibrator, workers: Workers) -> bool:
    """Whether the generator says which prompts are unlike those of the calibrator."""
    return bool(calibrator.prompts) and workers.generator.info.prompts == calibrator.prompts


def served_models(
    workers: Workers,
) -> tuple[GeneratorInfo, Mapping[str, ComparerInfo], ComparerInfo | None]:
    """The language model, the similarity functions and the NLI model, as they serve now."""
    comparers = {name: comparer.info for name, comparer in workers.comparers.items()}
    nli: ComparerInfo | None = None
    if workers.nli is not None:
        nli = workers.nli.info
    return workers.generator.info, comparers, nli


def check_deployment(calibrator: Calibrator, workers: Workers) -> None:
    """Refuse a calibrator of other models than these.

    Raises:
        ValueError: names what differs.
    """
    generator, comparers, nli = served_models(workers)
    for part in calibrator.parts:
        binding = part.binding
        comparer = comparers.get(binding.similarity)
        found: dict[str, tuple[Any, Any]] = {
            "the language model": (binding.model_id, generator.model_id),
            "its revision": (binding.revision, generator.revision),
            "its tokenizer, template or precision": (binding.generator, generator.identity),
            f"the similarity function {binding.similarity}": (
                binding.comparer,
                comparer and comparer.identity,
            ),
        }
        if nli is not None:  # without one, nothing that reads it is scored
            found["the NLI model"] = binding.nli, nli.identity
        for statistic in binding.probes.keys() & generator.probes.keys():  # as with NLI
            served = generator.probes[statistic].sha256
            found[f"the probe of {statistic}"] = (binding.probes[statistic], served)
        for what, (bound, served) in found.items():
            if bound != served:
                raise ValueError(
                    f"the calibrator is another deployment's: {what} was {bound}, and is {served}"
                )
