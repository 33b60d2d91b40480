"""A trained probe on the worker's device: the folder that `cocoa probe train` writes."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from safetensors.torch import load
from torch import Tensor
from torch.nn import functional

from cocoa_vllm.distance import DeviceDistance
from cocoa_vllm.sums import Answers

WEIGHTS, CARD = "probe.safetensors", "card.json"
FORMAT = 2
CONVENTION = "hidden_states[k] of Hugging Face, 0 = embeddings"
POOLING = "mean over the steps whose input is y_1 ... y_{T-1}; the prefill's last state where T = 1"
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
        if fault := _fault(card, sha256, model):
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


def _layers(tensors: dict[str, Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Weights and biases in order: linear (2 dimensions) and LayerNorm (1) by turns."""
    prefix = "network.layers."
    numbers = {name.removeprefix(prefix).split(".")[0] for name in tensors if prefix in name}
    return [
        (tensors[f"{prefix}{number}.weight"], tensors[f"{prefix}{number}.bias"])
        for number in sorted(numbers, key=int)
    ]


def _fault(card: Any, sha256: str, model: Model) -> str | None:
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
    if not 0 < card["layer"] < model.num_layers:
        return f"it reads layer {card['layer']}, the model has layers 1 to {model.num_layers - 1}"
    return None
