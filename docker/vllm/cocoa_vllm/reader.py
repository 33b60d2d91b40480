"""What one model runner keeps for the plugin, and the columns of one of its steps."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cocoa_vllm.columns import entropies, finite, insert
from cocoa_vllm.identity import NO_PROBE, READY, identity_columns, mark_of
from cocoa_vllm.modes import Mode
from cocoa_vllm.probe import DeviceProbe, Model
from cocoa_vllm.sums import Sums, sent

logger = logging.getLogger("vllm.cocoa")


@dataclass(frozen=True, slots=True)
class Row:
    """A request of the step that opted in and draws a token in it.

    Attributes:
        index: of its logits.
        request: its id.
        step: tokens that its answer had before this one.
    """

    index: int
    request: str
    mode: Mode
    step: int


@dataclass(frozen=True, slots=True)
class Step:
    """The rows of one step; `states` (r, L, d) of those of mode `light` where there is Light."""

    rows: Sequence[Row]
    states: Tensor | None = None

    def of(self, mode: Mode) -> list[Row]:
        """The rows of one mode, in their order."""
        return [row for row in self.rows if row.mode == mode]


class Reader:
    """Probes, running sums, and the numbers of `identity`.

    Args:
        model: that is served.
        precision: of its weights, in words that change with it.
        folders: of the probes that the deployment names.
        obstacle: READY, or why this deployment has no Light whatever its probes.
    """

    def __init__(
        self,
        model: Model,
        precision: str,
        folders: Sequence[str],
        obstacle: int,
        device: torch.device,
    ) -> None:
        light = obstacle if folders else NO_PROBE
        self.probes: list[DeviceProbe] = []
        if light == READY:
            self.probes = [DeviceProbe.open(Path(folder), model, device) for folder in folders]
        elif folders:
            logger.error("cocoa: there is no Light here, reason %d (docker/vllm/README.md)", light)
        self.layers = tuple(sorted({probe.layer for probe in self.probes}))
        sha256s = [probe.sha256 for probe in self.probes]
        mark = mark_of(model.revision, precision, light, *sha256s)
        self._mark = float(mark)
        self._identity = identity_columns(mark, light, model.revision, sha256s)
        self._sums = Sums(len(self.layers), model.dimension, device)
        self._device = device
        logger.info(
            "cocoa: model revision %s, probes %s on layers %s",
            model.revision or "unknown",
            [sha256[:12] for sha256 in sha256s],
            list(self.layers),
        )

    def forget(self, requests: Iterable[str]) -> None:
        """Free what ended requests held."""
        self._sums.forget(requests)

    def entropies(self, step: Step, logits: Tensor) -> Tensor:
        """(r,) of the step's rows; before the sampler, which scales the logits in place."""
        return entropies(logits, sent([row.index for row in step.rows], self._device))

    def write(self, step: Step, entropy: Tensor, logprobs_tensors: Any) -> None:
        """Put each row's columns among its top log-probs, in place.

        Args:
            step: with these rows.
            entropy: as `entropies` gave it.
            logprobs_tensors: vLLM's, with the sampled token first.
        """
        place = {row.index: i for i, row in enumerate(step.rows)}
        for mode in dict.fromkeys(row.mode for row in step.rows):
            rows = step.of(mode)
            index, places = sent(
                [[row.index for row in rows], [place[row.index] for row in rows]], self._device
            )
            if mode == "identity":
                columns = torch.tensor(self._identity, device=self._device).expand(len(rows), -1)
            else:
                chosen = entropy.index_select(0, places)
                columns = torch.stack([torch.full_like(chosen, self._mark), chosen], dim=1)
                if mode == "light" and step.states is not None:
                    drawn = logprobs_tensors.logprobs[:, 0].index_select(0, index)
                    readings = self._readings(rows, step.states, drawn, chosen)
                    columns = torch.cat([columns, readings], dim=1)
            insert(logprobs_tensors, index, finite(columns))

    def _readings(
        self, rows: Sequence[Row], states: Tensor, logprobs: Tensor, entropy: Tensor
    ) -> Tensor:
        """(r, 2P): value and percentile of each probe."""
        answers = self._sums.add(
            [row.request for row in rows], [row.step for row in rows], states, logprobs, entropy
        )
        readings = [probe(answers, self.layers.index(probe.layer)) for probe in self.probes]
        return torch.cat(readings, dim=1)
