"""The prompts of a calibration, and another prompt's distance from them, in numpy."""

import hashlib
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Self
from zipfile import BadZipFile

import numpy as np

from models.errors import ModelNotLoaded
from models.probes.distance import DOMAIN_PERCENTILE, Distance
from models.records import Array

FORMAT = 1


@dataclass(frozen=True, slots=True)
class PromptDomain:
    """Distances from the kinds of prompts that a calibration had.

    Attributes:
        generator: identity of the language model whose states they are.
        layer: k of Hugging Face's `hidden_states[k]`, read at a prompt's last token.
        kinds: one a kind of prompts, with percentiles of held-out ones of that kind.
        sha256: of its file.
    """

    generator: str
    layer: int
    kinds: tuple[Distance, ...]
    sha256: str = ""

    def percentile(self, state: Array) -> float:
        """Percentile in [0, 100] of a state (d,) among held-out prompts of the nearest kind.

        A prompt is of the domain where it is like one kind, so at most about 1 % of the
        calibration's own prompts lie beyond the 99th.
        """
        return min(float(kind.percentile(state[None])[0]) for kind in self.kinds)

    def is_foreign(self, state: Array) -> bool:
        """True where a state (d,) lies beyond the 99th percentile of every kind; NaN does."""
        return not 0 <= self.percentile(state) <= DOMAIN_PERCENTILE

    @classmethod
    def load(cls, path: Path, sha256: str) -> Self:
        """The prompts of a calibrator that names this digest of their file.

        Raises:
            ModelNotLoaded: there is no such file, or another one.
        """
        try:
            content = path.read_bytes()
            if hashlib.sha256(content).hexdigest() != sha256:
                raise ModelNotLoaded(f"{path.name} is not the file that the calibrator names")
            with np.load(BytesIO(content)) as file:
                arrays = dict(file)
            generator, layer = str(arrays.pop("generator")), int(arrays.pop("layer"))
            if (version := int(arrays.pop("format"))) != FORMAT:
                raise ValueError(f"format {version}, not {FORMAT}")
            kinds: dict[str, dict[str, Array]] = {}
            for name, array in arrays.items():
                number, _, field = name.partition(".")
                kinds.setdefault(number, {})[field] = array
            if not kinds:
                raise ValueError("no kinds")
            distances = tuple(map(Distance.from_arrays, kinds.values()))
            return cls(generator, layer, distances, sha256)
        except (OSError, EOFError, ValueError, TypeError, LookupError, BadZipFile) as error:
            raise ModelNotLoaded(
                f"{path.name} holds no prompts of a calibration: {error}"
            ) from error


def beside(calibrator: Path) -> Path:
    return calibrator.with_suffix(".prompts.npz")
