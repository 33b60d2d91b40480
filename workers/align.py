"""The similarity function `align`: chunks of one text against sentences of the other.

Its cells are pairs of the NLI worker like any other, batched with those of all requests, in turn
with them, and dropped with their caller.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from models.digests import digest_of
from models.records import Pair
from models.similarity.align import Grid, aligned, cells
from models.similarity.protocol import ContextAndText
from workers.protocol import Comparer, ComparerInfo, PairReply, PairScore


class AlignWorker:
    """A `Comparer` around the one of an NLI model, whose first label is the support of a cell."""

    def __init__(self, nli: Comparer) -> None:
        self._nli = nli
        self._closed = asyncio.Event()
        self._made_of = nli.info
        self._info = _info_over(nli.info)

    @property
    def info(self) -> ComparerInfo:
        if self._nli.info is not self._made_of:  # each request asks, and models seldom change
            self._made_of = self._nli.info
            self._info = _info_over(self._made_of)
        return self._info

    @property
    def busy_since(self) -> float | None:
        """Of the NLI model."""
        return self._nli.busy_since

    async def run(self) -> None:
        """It has no loop of its own."""
        await self._closed.wait()

    async def warm_up(self) -> None:
        """The NLI model has its own."""

    async def compare(self, pairs: Sequence[Pair]) -> PairReply:
        """The first text is the context, the second the claim."""
        grids = cells(pairs)
        rows = chain.from_iterable(grids.values())
        reply = await self._nli.compare(list(chain.from_iterable(rows)))
        scores = {pair: _score(grid, reply.scores) for pair, grid in grids.items()}
        return PairReply(scores, _identity_over(reply.identity))

    async def fit_contexts(self, texts: Sequence[ContextAndText]) -> list[str]:
        return await self._nli.fit_contexts(texts)

    async def close(self) -> None:
        self._closed.set()


def _info_over(info: ComparerInfo) -> ComparerInfo:
    identity = _identity_over(info.identity)
    return replace(info, identity=identity, labels=("similarity",), is_by_sentence=True)


def _identity_over(identity: str) -> str:
    return digest_of("align", identity)


def _score(grid: Grid, scores: Mapping[Pair, PairScore]) -> PairScore:
    values = np.array([[scores[cell][0][0] for cell in row] for row in grid])
    return (aligned(values),), any(scores[cell][1] for row in grid for cell in row)


_: type[Comparer] = AlignWorker  # mypy holds the class to its protocol
