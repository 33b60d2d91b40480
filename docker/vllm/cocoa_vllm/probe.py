"""Probes on the worker's device: folders that `cocoa probe train` writes, and what they read."""

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from safetensors.torch import load
from torch import Tensor
from torch.nn import functional

WEIGHTS, CARD, FORMAT = "probe.safetensors", "card.json", 2
CONVENTION = "hidden_states[k] of Hugging Face, 0 = embeddings"
POOLING = "mean over the steps whose input is y_1 ... y_{T-1}; the prefill's last state where T = 1"
TOKEN_FEATURES = ("sp", "mte", "log_length")


class ProbeRefused(ValueError):
    """A probe that the deployment names does not fit this model; the message says why."""


@dataclass(frozen=True, slots=True)
class Model:
    """What a probe has to fit: revision ("" unknown), hidden size d, number of blocks L."""

    revision: str
    dimension: int
    num_layers: int


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of r requests so far; means are no numbers for one that was lost track of.

    Attributes:
        means: (r, L, d) states of L layers, averaged over the steps whose input is y_1 … y_{T-1};
            for T = 1 the prompt's last state.
        sp: (r,) summed negative log-likelihood, nats.
        mte: (r,) mean token entropy, nats.
        length: (r,) T.
    """

    means: Tensor
    sp: Tensor
    mte: Tensor
    length: Tensor


class Sums:
    """Running sums of every request that wants readings.

    They are kept by request id, so that a request that vLLM preempts and computes anew goes on
    where it was. Nothing here waits for the device.

    Attributes:
        kept: of each request its tokens so far, and the sums (L * d + 2,) of their states, of sp
            and of entropies.

    Args:
        num_layers: L.
        dimension: d.
        device: of the model.
    """

    def __init__(self, num_layers: int, dimension: int, device: torch.device) -> None:
        self.kept: dict[str, tuple[int, Tensor]] = {}
        self._zeros = torch.zeros(num_layers * dimension + 2, device=device)

    def forget(self, requests: Iterable[str]) -> None:
        """Free what ended requests held."""
        for request in requests:
            self.kept.pop(request, None)

    def add(
        self,
        requests: Sequence[str],
        steps: Sequence[int],
        states: Tensor,
        logprobs: Tensor,
        entropies: Tensor,
    ) -> Answers:
        """Count one token of each request.

        Args:
            requests: r ids.
            steps: tokens that each answer had before this one.
            states: (r, L, d) float32 at the last position of this step's input.
            logprobs: (r,) of the token drawn.
            entropies: (r,) of what it was drawn from.
        """
        before = torch.stack(list(map(self._before, requests, steps)))
        of_tokens = torch.stack([-logprobs, entropies], dim=1)
        sums = before + torch.cat([states.flatten(1), of_tokens], dim=1)
        for request, step, of_request in zip(requests, steps, sums, strict=True):
            self.kept[request] = step + 1, of_request
        counts = [[step + 1.0 for step in steps], [max(step, 1.0) for step in steps]]
        length, count = sent(counts, states.device)
        means = sums[:, :-2].reshape(states.shape) / count[:, None, None]
        return Answers(means, sums[:, -2], sums[:, -1] / length, length)

    def _before(self, request: str, step: int) -> Tensor:
        """The sums that a token is added to: no numbers from then on where it is not the next."""
        if not step:
            return self._zeros
        num_tokens, sums = self.kept.get(request, (0, self._zeros))
        if num_tokens != step:
            return self._zeros + math.nan
        if step == 1:  # the prompt's last state counts for T = 1 only
            return torch.cat([self._zeros[:-2], sums[-2:]])
        return sums


class DeviceProbe:
    """A network on hidden states and token statistics, and the distance from its training set.

    That is one from a Gaussian with a low-rank precision, as a percentile of held-out distances.

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
        # The paper's regression has no sigmoid. Cards of release 0.2 call its target consistency.
        is_share = card["target"] in ("inconsistency", "consistency")
        self._clamps = is_share and card["architecture"] == "paper"
        # In float64: a residual is the difference of two large numbers.
        self._known = {name: one.double() for name, one in tensors.items() if "distance." in name}
        self._precisions = 1 / self._known["distance.variances"]

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
        if fault := _fault_of(card, sha256, model):
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
        return torch.stack([self._value(features), self._percentile(features)], dim=1)

    def _value(self, features: Tensor) -> Tensor:
        x = (features - self._mean) / self._scale
        for weight, bias in self._layers[:-1]:
            if weight.dim() == 2:
                x = functional.linear(x, weight, bias)
            else:
                x = functional.gelu(functional.layer_norm(x, weight.shape, weight, bias))
        raw = functional.linear(x, *self._layers[-1])[:, 0]
        return raw.clamp(0, 1) if self._clamps else raw.sigmoid()

    def _percentile(self, features: Tensor) -> Tensor:
        centred = features.double() - self._known["distance.mean"]
        along = (centred @ self._known["distance.components"].T).square_()
        residual = torch.linalg.vecdot(centred, centred) - along.sum(1)
        squared = along @ self._precisions
        squared += residual.clamp_(min=0) / self._known["distance.residual_variance"]
        return interpolated(squared.sqrt(), self._known["distance.percentiles"]).float()


def sent(numbers: Sequence[Any], device: torch.device) -> Tensor:
    """A tensor of numbers on its way to the device."""
    return torch.tensor(numbers, pin_memory=device.type == "cuda").to(device, non_blocking=True)


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


def _fault_of(card: Any, sha256: str, model: Model) -> str | None:
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
