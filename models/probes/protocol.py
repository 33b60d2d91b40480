"""The protocol of a probe, as the generation worker knows it, and the settings of probes.

No torch here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from models.probes.card import STATISTIC, Card, Target
from models.records import Array, ProbeReading


@dataclass(frozen=True, slots=True)
class ProbeConfig:
    """Folders of the probes to load.

    Attributes:
        inconsistency: predicts `inconsistency`; "auto" is the one that ships with the embedded
            model, beside it only; "" is none.
        high_semantic_entropy: predicts whether `semantic_entropy` is above its split; likewise.
        sentence_inconsistency: predicts `inconsistency` of each sentence; "auto" is the one that
            ships with the embedded model of long answers.
    """

    inconsistency: str = "auto"
    high_semantic_entropy: str = "auto"
    sentence_inconsistency: str = "auto"

    def folders(self) -> Iterator[tuple[Target, str, str, str]]:
        """Of each kind: the target, its statistic, the setting of the folder, and the folder."""
        named: dict[Target, str] = {
            "inconsistency": "inconsistency",
            "semantic_entropy": "high_semantic_entropy",
            "sentence_inconsistency": "sentence_inconsistency",
        }
        for target, name in named.items():
            yield target, STATISTIC[target], f"probes.{name}", getattr(self, name)


class Probe(Protocol):
    """A trained network on the mean hidden state of one layer and what goes with it."""

    @property
    def card(self) -> Card:
        """The description of the probe and of its training."""

    def read(self, features: Array) -> Sequence[ProbeReading]:
        """One reading a row.

        features: (N, d + k) float32, rows of `models.probes.card.joined`.

        Raises:
            InvalidLogits: a feature that is not a finite number.
        """
