"""What a generator said earlier, as an input of scoring."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.scoring.evidence import TrueFalse
from models.records import Generation


@dataclass(frozen=True, slots=True)
class Recorded:
    """One prompt's generation, and what the model said of its answers.

    Attributes:
        statistics: that the generator was asked for.
        true_false: compared text of each distinct answer to what the model said of it; empty where
            it was not asked.
    """

    generation: Generation
    statistics: frozenset[str]
    true_false: Mapping[str, TrueFalse] = field(default_factory=dict)
