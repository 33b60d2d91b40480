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

from cocoa_vllm.columns import entropies, finite, insert
from cocoa_vllm.probe import DeviceProbe, DevicePrompts, Model
from cocoa_vllm.protocol import (
    NO_PROBE,
    READY,
    Mode,
    compares_prompt,
    identity_columns,
    is_light,
    mark_of,
    mode_of,
)
from cocoa_vllm.sums import Sums, sent

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
    """The rows of one step, those of one mode next to each other.

    Attributes:
        rows: that opted in.
        indices: (r,) of their logits.
        shown: those of them whose states are read, in the same order.
        states: (r, L, d) of `shown`; None without any.
    """

    rows: Sequence[Row]
    indices: Tensor
    shown: Sequence[Row]
    states: Tensor | None

    def states_of(self, rows: Sequence[Row]) -> Tensor:
        """(r, L, d) of rows that are next to each other among `shown`."""
        if self.states is None:
            raise ValueError("no state was read in this step")
        first = self.shown.index(rows[0])
        return self.states[first : first + len(rows)]


class Reader:
    """Probes, prompts of a calibration, running sums, and the numbers of `identity`.

    Attributes:
        layers: that are read.
        modes: of requests that opted in, by their ids.

    Args:
        model: that is served.
        precision: of its weights, in words that change with it.
        folders: of the probes that the deployment names.
        prompts: file of the calibration's prompts; "" for none.
        obstacle: READY, or why this deployment shows no states.
    """

    def __init__(
        self,
        model: Model,
        precision: str,
        folders: Sequence[str],
        prompts: str,
        obstacle: int,
        device: torch.device,
    ) -> None:
        light = obstacle if folders else NO_PROBE
        self.probes: list[DeviceProbe] = []
        if light == READY:
            self.probes = [DeviceProbe.open(Path(folder), model, device) for folder in folders]
        elif folders:
            logger.error("cocoa: there is no Light here, reason %d (docker/vllm/README.md)", light)
        self.prompts: DevicePrompts | None = None
        if prompts and obstacle == READY:
            self.prompts = DevicePrompts.open(Path(prompts), model, device)
        elif prompts:
            logger.error(
                "cocoa: no prompt is compared, reason %d (docker/vllm/README.md)", obstacle
            )
        layers, of_prompts = {probe.layer for probe in self.probes}, ""
        if self.prompts is not None:
            layers.add(self.prompts.layer)
            of_prompts = self.prompts.sha256
        self.layers = tuple(sorted(layers))
        sha256s = [probe.sha256 for probe in self.probes]
        # Without the prompts: a calibration is made before there are any, and binds the mark.
        mark = mark_of(model.revision, precision, light, *sha256s)
        self._mark = float(mark)
        identity = identity_columns(mark, light, model.revision, sha256s, of_prompts)
        self._identity = torch.tensor(identity, device=device)
        self._sums = Sums(len(self.layers), model.dimension, device)
        self.modes: dict[str, Mode] = {}
        self._device = device
        logger.info(
            "cocoa: model revision %s, probes %s, prompts %s, on layers %s",
            model.revision or "unknown",
            [sha256[:12] for sha256 in sha256s],
            of_prompts[:12] or "none",
            list(self.layers),
        )

    def learn(self, requests: Iterable[Any]) -> None:
        """Remember which of vLLM's new requests opted in; a step asks no other about it."""
        for new in requests:
            params = new.sampling_params
            mode = mode_of(params.extra_args) if params is not None else None
            if mode is not None:
                self.modes[new.req_id] = mode

    def forget(self, requests: Iterable[str]) -> None:
        """Free what ended requests held."""
        for request in requests:
            self.modes.pop(request, None)
        self._sums.forget(requests)

    def step(self, rows: Sequence[Row], layers: Sequence[Tensor]) -> Step | None:
        """The step of these rows, with the states of answers and of prompts' last tokens.

        Args:
            rows: in any order.
            layers: (inputs, d) of each layer that is read.

        Returns:
            None without rows.
        """
        if not rows:
            return None
        rows = sorted(rows, key=lambda row: (row.mode, row.step > 0))
        shown = [row for row in rows if self._reads(row) or self._compares(row)]
        places = [row.index for row in rows] + [row.end for row in shown]
        numbers = sent(places, self._device)
        indices, ends = numbers[: len(rows)], numbers[len(rows) :]
        if not shown:
            return Step(rows, indices, shown, None)
        states = torch.stack([layer.index_select(0, ends) for layer in layers], dim=1)
        return Step(rows, indices, shown, states.float())

    def entropies(self, step: Step, logits: Tensor) -> Tensor:
        """(r,) of the step's rows; before the sampler, which scales the logits in place."""
        return entropies(logits, step.indices)

    def write(self, step: Step, entropy: Tensor, logprobs_tensors: Any) -> None:
        """Put each row's columns among its top log-probs, in place.

        Args:
            step: with these rows.
            entropy: as `entropies` gave it.
            logprobs_tensors: vLLM's, with the sampled token first.
        """
        first = 0
        for mode, of_mode in groupby(step.rows, key=attrgetter("mode")):
            rows = list(of_mode)
            part = slice(first, first + len(rows))
            first, index = part.stop, step.indices[part]
            if mode == "identity":
                columns = self._identity.expand(len(rows), -1)
            else:
                chosen = entropy[part]
                told = [torch.stack([torch.full_like(chosen, self._mark), chosen], dim=1)]
                if compares_prompt(mode):
                    told.append(self._compared(rows, step))
                if is_light(mode) and self.probes:
                    drawn = logprobs_tensors.logprobs[:, 0].index_select(0, index)
                    told.append(self._readings(rows, step, drawn, chosen))
                columns = torch.cat(told, dim=1)
            insert(logprobs_tensors, index, finite(columns))

    def _reads(self, row: Row) -> bool:
        return is_light(row.mode) and bool(self.probes)

    def _compares(self, row: Row) -> bool:
        """In the one step that ends at the prompt's last token, whatever was computed before."""
        return compares_prompt(row.mode) and row.step == 0 and self.prompts is not None

    def _compared(self, rows: Sequence[Row], step: Step) -> Tensor:
        """(r, 2): mark of the prompts, and this prompt's percentile in its answer's first token."""
        found = torch.full((len(rows), 2), torch.nan, device=self._device)
        if self.prompts is None:
            return found
        found[:, 0] = self.prompts.mark
        if first := [row for row in rows if self._compares(row)]:  # they come first
            states = step.states_of(first)[:, self.layers.index(self.prompts.layer)]
            found[: len(first), 1] = self.prompts.percentile(states)
        return found

    def _readings(
        self, rows: Sequence[Row], step: Step, logprobs: Tensor, entropy: Tensor
    ) -> Tensor:
        """(r, 2P): value and percentile of each probe."""
        answers = self._sums.add(
            [row.request for row in rows],
            [row.step for row in rows],
            step.states_of(rows),
            logprobs,
            entropy,
        )
        readings = [probe(answers, self.layers.index(probe.layer)) for probe in self.probes]
        return torch.cat(readings, dim=1)
