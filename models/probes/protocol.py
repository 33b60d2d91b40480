"""What the generation worker knows of a probe, and what a deployment says about its probes.

No torch here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from models.probes.card import Card
from models.records import Array, ProbeReading


@dataclass(frozen=True, slots=True)
class ProbeConfig:
    """Folders of the probes to load.

    Attributes:
        consistency: predicts `consistency`; "auto" is the one that ships with the embedded model,
            beside it only; "" is none.
        high_semantic_entropy: predicts whether `semantic_entropy` is above its split; likewise.
    """

    consistency: str = "auto"
    high_semantic_entropy: str = "auto"


class Probe(Protocol):
    """A trained network on the mean hidden state of one layer.

    Attributes:
        id: short name, which changes with the weights.
        statistic: name of what it predicts, one of `models.records.PROBE_STATISTICS`.
        layer: k of `hidden_states[k]`.
        sha256: of its weights.
    """

    card: Card
    id: str
    statistic: str
    layer: int
    sha256: str

    def read(self, features: Array) -> Sequence[ProbeReading]:
        """One reading a row.

        features: (N, d) float32.

        Raises:
            InvalidLogits: a feature that is not a finite number.
        """
