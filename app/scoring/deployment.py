"""The deployment as one record: models as they serve now, limits, and calibrator."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated

from annotated_types import Ge

from models.calibration import Calibrator
from workers.protocol import GeneratorInfo, SimilarityInfo, Workers


@dataclass(frozen=True, slots=True)
class AskLimits:
    """Bounds of an ask; its deadline bounds the time, these the memory and what queues hold."""

    # Of a given answer, of each given sample, and of each given claim.
    max_text_characters: Annotated[int, Ge(1)] = 32_768
    # Distinct ordered pairs that one pair model reads for an ask.
    max_pairs: Annotated[int, Ge(1)] = 65_536
    # Parts of one answer that are scored; a given answer with more is refused.
    max_units: Annotated[int, Ge(1)] = 1024
    max_images: Annotated[int, Ge(0)] = 8  # in the messages of an ask
    max_image_bytes: Annotated[int, Ge(1)] = 500_000  # of each of them
    # Images named by https URLs, which the model's server fetches, even from its own network.
    max_image_urls: Annotated[int, Ge(0)] = 0
    # Of an ask's texts without each of their tokens, which token relevance compares: the sum over
    # sequences of their tokens times their characters.
    max_relevance_characters: Annotated[int, Ge(1)] = 100_000_000


# Of asks on a machine of the caller's own.
UNBOUNDED = AskLimits(**{field.name: sys.maxsize for field in fields(AskLimits)})


@dataclass(frozen=True, slots=True)
class Models:
    """The models of a deployment as they serve now."""

    generator: GeneratorInfo
    similarity_scorers: Mapping[str, SimilarityInfo]  # similarity functions by name
    default_similarity: str  # the one that serves where an ask names none
    nli: SimilarityInfo | None = None
    # The one of an ask that names none and brings its samples; "" for the default.
    similarity_of_given: str = ""

    def compares_prompts_of(self, calibrator: Calibrator) -> bool:
        """True where the generator marks prompts that are unlike those of the calibrator."""
        return bool(calibrator.prompts) and self.generator.prompts == calibrator.prompts


@dataclass(frozen=True, slots=True)
class Deployment:
    """All beside an ask that decides whether it is possible, and what its scores mean."""

    models: Models
    limits: AskLimits = UNBOUNDED  # of asks
    calibrator: Calibrator | None = None  # that fits these models; None where none does


def models_of(workers: Workers) -> Models:
    generator = workers.generator.info
    similarity_scorers = {name: one.info for name, one in workers.similarity_scorers.items()}
    nli = None if workers.nli is None else workers.nli.info
    default, of_given = workers.default_similarity, workers.similarity_of_given
    return Models(generator, similarity_scorers, default, nli, of_given)
