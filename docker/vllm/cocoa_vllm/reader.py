"""What one model runner keeps for the plugin, and the columns of one of its steps."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cocoa_vllm import columns
from cocoa_vllm.columns import Mode
from cocoa_vllm.probe import DeviceProbe, Model, Sums, sent

logger = logging.getLogger("vllm.cocoa")


@dataclass(frozen=True, slots=True)
class Row:
    """A request of the step that opted in and draws a token in it.

    Attributes:
        index: of its logits.
        request: its id.
        step: tokens that its answer had before this one.
        end: place of its last input among those of all requests.
    """

    index: int
    request: str
    mode: Mode
    step: int
    end: int


@dataclass(frozen=True, slots=True)
class Step:
    """The rows of one step that opted in.

    Attributes:
        rows: those of one mode next to each other.
        indices: (r,) of their logits.
        states: (l, L, d) of those whose answer a probe reads; None without any.
    """

    rows: Sequence[Row]
    indices: Tensor
    states: Tensor | None


class Reader:
    """Probes, running sums, and the numbers of `identity`.

    Attributes:
        layers: that are read.
        modes: of requests that opted in, by their ids.
        mark: changes with weights and probes.
        sums: of the answers that probes read.

    Args:
        model: that is served.
        precision: of its weights, in words that change with it.
        folders: of the probes that the deployment names.
        obstacle: READY, or why this deployment shows no states.
        device: of the model.
    """

    def __init__(
        self,
        model: Model,
        precision: str,
        folders: Sequence[str],
        obstacle: int,
        device: torch.device,
    ) -> None:
        light = obstacle if folders else columns.NO_PROBE
        self.probes: list[DeviceProbe] = []
        if light == columns.READY:
            self.probes = [DeviceProbe.open(Path(folder), model, device) for folder in folders]
        elif folders:
            logger.error("cocoa: there is no Light here, reason %d (docker/vllm/README.md)", light)
        self.layers = tuple(sorted({probe.layer for probe in self.probes}))
        self.modes: dict[str, Mode] = {}
        sha256s = [probe.sha256 for probe in self.probes]
        mark = columns.mark_of(model.revision, precision, light, *sha256s)
        identity = columns.identity_columns(mark, light, model.revision, sha256s)
        self.mark = float(mark)
        self._identity = torch.tensor(identity, device=device)
        self.sums = Sums(len(self.layers), model.dimension, device)
        self._device = device
        logger.info(
            "cocoa: model revision %s, probes %s, on layers %s",
            model.revision or "unknown",
            [sha256[:12] for sha256 in sha256s],
            list(self.layers),
        )

    def learn(self, requests: Iterable[Any]) -> None:
        """Remember which of vLLM's new requests opted in; a step asks no other about it."""
        for new in requests:
            params = new.sampling_params
            mode = columns.mode_of(params.extra_args) if params is not None else None
            if mode is not None:
                self.modes[new.req_id] = mode

    def forget(self, requests: Iterable[str]) -> None:
        """Free what ended requests held."""
        for request in requests:
            self.modes.pop(request, None)
        self.sums.forget(requests)

    def step(self, rows: Sequence[Row], layers: Sequence[Tensor]) -> Step | None:
        """The step of these rows, with the states that probes read; None without rows.

        Args:
            rows: in any order.
            layers: (inputs, d) of each layer that is read.
        """
        if not rows:
            return None
        rows = sorted(rows, key=attrgetter("mode"))
        read = [row.end for row in rows if row.mode == "light" and self.probes]
        numbers = sent([row.index for row in rows] + read, self._device)
        indices, ends = numbers[: len(rows)], numbers[len(rows) :]
        if not read:
            return Step(rows, indices, None)
        states = torch.stack([layer.index_select(0, ends) for layer in layers], dim=1)
        return Step(rows, indices, states.float())

    def write(self, step: Step, entropy: Tensor, logprobs_tensors: Any) -> None:
        """Put each row's columns among its top log-probs, in place.

        Args:
            step: with these rows.
            entropy: (r,) of the step's rows, before the sampler, which scales the logits in place.
            logprobs_tensors: vLLM's, with the sampled token first.
        """
        first = 0
        for mode, of_mode in groupby(step.rows, key=attrgetter("mode")):
            rows = list(of_mode)
            part = slice(first, first + len(rows))
            first, index = part.stop, step.indices[part]
            told = self._identity.expand(len(rows), -1)
            if mode != "identity":
                chosen = entropy[part]
                told = torch.stack([torch.full_like(chosen, self.mark), chosen], dim=1)
            if mode == "light" and step.states is not None:
                requests, steps = [row.request for row in rows], [row.step for row in rows]
                drawn = logprobs_tensors.logprobs[:, 0].index_select(0, index)
                answers = self.sums.add(requests, steps, step.states, drawn, entropy[part])
                readings = [probe(answers, self.layers.index(probe.layer)) for probe in self.probes]
                told = torch.cat([told, *readings], dim=1)  # value and percentile, of each probe
            columns.insert(logprobs_tensors, index, told)
