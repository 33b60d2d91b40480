"""What reads states on the worker's device.

Those are probes, folders that `cocoa probe train` writes, and the prompts of a calibration, a file
that `cocoa calibrate` writes.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Self
from zipfile import BadZipFile

import numpy as np
import torch
from safetensors.torch import load
from torch import Tensor
from torch.nn import functional

from cocoa_vllm.sums import Answers

WEIGHTS, CARD = "probe.safetensors", "card.json"
FORMAT, PROMPTS_FORMAT = 2, 1
CONVENTION = "hidden_states[k] of Hugging Face, 0 = embeddings"
POOLING = "mean over the steps whose input is y_1 ... y_{T-1}; the prefill's last state where T = 1"
# What a reply tells of the prompts' file: the first hexadecimal digits of its SHA-256, exact in
# float32.
_MARK_DIGITS = 6
TOKEN_FEATURES = ("sp", "mte", "log_length")


class ProbeRefused(ValueError):
    """What the deployment names does not fit this model; the message says why."""


@dataclass(frozen=True, slots=True)
class Model:
    """What a probe has to fit: id and revision ("" unknown), hidden size d, number of blocks L."""

    name: str
    revision: str
    dimension: int
    num_layers: int

    def fault_of(self, layer: int) -> str | None:
        """Why no states can be read of this layer; None where they can."""
        if 0 < layer < self.num_layers:
            return None
        return f"it reads layer {layer}, the model has layers 1 to {self.num_layers - 1}"


class DeviceDistance:
    """Percentiles of distances from a Gaussian with a low-rank precision.

    Args:
        tensors: mean (d,), components (k, d), variances (k,), residual_variance () and percentiles
            (101,) of held-out distances.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        # In float64: a residual is the difference of two large numbers.
        self._known = {name: tensor.double() for name, tensor in tensors.items()}
        self._precisions = 1 / self._known["variances"]

    def percentile(self, features: Tensor) -> Tensor:
        """Percentiles (r,) in [0, 100] of features (r, d), float32."""
        known = self._known
        centred = features.double() - known["mean"]
        along = (centred @ known["components"].T).square_()
        residual = torch.linalg.vecdot(centred, centred) - along.sum(1)
        squared = along @ self._precisions
        squared += residual.clamp_(min=0) / known["residual_variance"]
        return interpolated(squared.sqrt(), known["percentiles"]).float()


class DeviceProbe:
    """A network on hidden states and token statistics, and the distance from its training set.

    Attributes:
        layer: k of `hidden_states[k]`.
        sha256: of the weights as they were read.
    """

    def __init__(self, card: dict[str, Any], sha256: str, tensors: dict[str, Tensor]) -> None:
        self.layer: int = card["layer"]
        self.sha256 = sha256
        self._token_features: list[str] = card["token_features"]
        self._mean, self._scale = tensors["network.mean"], tensors["network.scale"]
        self._layers = _layers(tensors)
        # The paper's regression has no sigmoid.
        self._clamps = (card["architecture"], card["target"]) == ("paper", "consistency")
        distance = {}
        for name, tensor in tensors.items():
            if name.startswith("distance."):
                distance[name.removeprefix("distance.")] = tensor
        self._distance = DeviceDistance(distance)

    @classmethod
    def open(cls, folder: Path, model: Model, device: torch.device) -> Self:
        """The probe of a folder.

        Raises:
            ProbeRefused: it is damaged, or made for something else.
        """
        try:
            card = json.loads((folder / CARD).read_text(encoding="utf-8"))
            weights = (folder / WEIGHTS).read_bytes()
        except (OSError, ValueError) as error:
            raise ProbeRefused(f"{folder.name}: {type(error).__name__}") from error
        sha256 = hashlib.sha256(weights).hexdigest()
        if fault := _fault_of_probe(card, sha256, model):
            raise ProbeRefused(f"{folder.name}: {fault}")
        tensors = {name: tensor.to(device).float() for name, tensor in load(weights).items()}
        return cls(card, sha256, tensors)

    def __call__(self, answers: Answers, layer: int) -> Tensor:
        """Value in [0, 1] and distance percentile in [0, 100] of each answer, (r, 2) float32.

        Neither is a number for a request that was lost track of.

        Args:
            answers: r of them.
            layer: index of the probe's layer among those of `answers.means`.
        """
        named = {"sp": answers.sp, "mte": answers.mte, "log_length": answers.length.log()}
        numbers = [named[name][:, None] for name in self._token_features]
        features = torch.cat([answers.means[:, layer], *numbers], dim=1)
        return torch.stack([self._value(features), self._distance.percentile(features)], dim=1)

    def _value(self, features: Tensor) -> Tensor:
        x = (features - self._mean) / self._scale
        for weight, bias in self._layers[:-1]:
            if weight.dim() == 2:
                x = functional.linear(x, weight, bias)
            else:
                x = functional.gelu(functional.layer_norm(x, weight.shape, weight, bias))
        raw = functional.linear(x, *self._layers[-1])[:, 0]
        return raw.clamp(0, 1) if self._clamps else raw.sigmoid()


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
        dimensions = {len(kind["mean"]) for kind in kinds.values()}
        fault = model.fault_of(layer)
        if found != PROMPTS_FORMAT:
            fault = f"its format is {found}, not {PROMPTS_FORMAT}"
        elif not kinds:
            fault = "it has no kinds of prompts"
        elif fault is None and dimensions != {model.dimension}:
            fault = f"its dimension is {max(dimensions)}, this model's {model.dimension}"
        if fault:
            raise ProbeRefused(f"{path.name}: {fault}")
        distances = [DeviceDistance(kind) for kind in kinds.values()]
        return cls(layer, hashlib.sha256(content).hexdigest(), distances)

    def percentile(self, states: Tensor) -> Tensor:
        """Percentiles (r,) of states (r, d) among held-out prompts of the nearest kind."""
        return torch.stack([kind.percentile(states) for kind in self._kinds]).amin(dim=0)


def interpolated(values: Tensor, points: Tensor) -> Tensor:
    """`numpy.interp(values, points, 0 … N-1)` of values (r,) and rising points (N,)."""
    left = torch.searchsorted(points, values, right=True).sub(1).clamp(0, len(points) - 2)
    low, high = points[left], points[left + 1]
    inside = left + (values - low) / (high - low)
    position = torch.where(values < points[0], 0.0, inside)
    return torch.where(values >= points[-1], len(points) - 1.0, position)


def _layers(tensors: dict[str, Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Weights and biases in order: linear (2 dimensions) and LayerNorm (1) by turns."""
    prefix = "network.layers."
    numbers = {name.removeprefix(prefix).split(".")[0] for name in tensors if prefix in name}
    return [
        (tensors[f"{prefix}{number}.weight"], tensors[f"{prefix}{number}.bias"])
        for number in sorted(numbers, key=int)
    ]


def _fault_of_probe(card: Any, sha256: str, model: Model) -> str | None:
    if not isinstance(card, dict) or card.get("format") != FORMAT:
        return f"{CARD} is no card of format {FORMAT}"
    if card["sha256"] != sha256:
        return f"{WEIGHTS} is not the file that its card describes"
    expected = {"convention": CONVENTION, "pooling": POOLING, "dimension": model.dimension}
    if model.revision and card["revision"]:
        # Whoever made the card may have cut the revision short, as may we.
        size = min(len(model.revision), len(card["revision"]))
        expected["revision"] = model.revision[:size]
        card = card | {"revision": card["revision"][:size]}
    for name, value in expected.items():
        if card[name] != value:
            return f"its {name} is {card[name]!r}, this model's {value!r}"
    if unknown := set(card["token_features"]) - set(TOKEN_FEATURES):
        return f"it reads {min(unknown)!r}, which is none of {', '.join(TOKEN_FEATURES)}"
    return model.fault_of(card["layer"])
