"""The prompts of a calibration on the worker's device: the file that `cocoa calibrate` writes."""

import hashlib
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Self
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor

from cocoa_vllm.distance import DeviceDistance
from cocoa_vllm.probe import Model, ProbeRefused

FORMAT = 1
# What a reply tells of the file: the first hexadecimal digits of its SHA-256, exact in float32.
_MARK_DIGITS = 6


class DevicePrompts:
    """Distances from the kinds of prompts that a calibration had.

    Attributes:
        layer: k of `hidden_states[k]`, read at a prompt's last token.
        sha256: of the file as it was read.
        mark: an integer below 2**24 of it.
    """

    def __init__(self, layer: int, sha256: str, kinds: Sequence[DeviceDistance]) -> None:
        self.layer = layer
        self.sha256 = sha256
        self.mark = int(sha256[:_MARK_DIGITS], 16)
        self._kinds = kinds

    @classmethod
    def open(cls, path: Path, model: Model, device: torch.device) -> Self:
        """The prompts of a file.

        Raises:
            ProbeRefused: it is damaged, or does not fit the model.
        """
        try:
            content = path.read_bytes()
            with np.load(BytesIO(content)) as file:
                arrays = dict(file)
            layer, found = int(arrays.pop("layer")), int(arrays.pop("format"))
            del arrays["generator"]  # as another process calls the model
        except (OSError, EOFError, ValueError, LookupError, BadZipFile) as error:
            raise ProbeRefused(f"{path.name}: {type(error).__name__}") from error
        kinds: dict[str, dict[str, Tensor]] = {}
        for name, array in arrays.items():
            number, _, what = name.partition(".")
            kinds.setdefault(number, {})[what] = torch.from_numpy(array).to(device)
        if fault := _fault(layer, found, list(kinds.values()), model):
            raise ProbeRefused(f"{path.name}: {fault}")
        distances = [DeviceDistance(kind) for kind in kinds.values()]
        return cls(layer, hashlib.sha256(content).hexdigest(), distances)

    def percentile(self, states: Tensor) -> Tensor:
        """Percentiles (r,) of states (r, d) among held-out prompts of the nearest kind."""
        return torch.stack([kind.percentile(states) for kind in self._kinds]).amin(dim=0)


def _fault(layer: int, found: int, kinds: Sequence[Any], model: Model) -> str | None:
    if found != FORMAT:
        return f"its format is {found}, not {FORMAT}"
    if not kinds:
        return "it has no kinds of prompts"
    if not 0 < layer < model.num_layers:
        return f"it reads layer {layer}, the model has layers 1 to {model.num_layers - 1}"
    dimensions = {len(kind["mean"]) for kind in kinds}
    if dimensions != {model.dimension}:
        return f"its dimension is {max(dimensions)}, this model's {model.dimension}"
    return None
