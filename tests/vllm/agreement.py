"""How far answers of vLLM lie from those in process."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from tests.vllm.reference import STATISTICS, Case
from tests.vllm.server import columns

TOLERANCE = 1e-3


class Agreement:
    """The largest differences seen, and texts that differ."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.largest: dict[str, float] = {}

    def __str__(self) -> str:
        differences = ", ".join(f"{name} {value:.1e}" for name, value in self.largest.items())
        return f"{len(self.texts)} other texts; largest differences: {differences}"

    def add(self, choice: dict, case: Case, *, light: bool) -> None:
        """Compare a reply of the plugin with the answer in process."""
        answer = case.expected.answer
        if (choice["text"], tuple(choice["token_ids"])) != (answer.text, answer.token_ids):
            self.texts.append(case.prompt)
            return
        found = columns(choice)
        self._largest("log-prob", choice["logprobs"]["token_logprobs"], answer.token_logprobs)
        self._largest("entropy", [column[1] for column in found], answer.token_entropies)
        if light:
            readings = [case.expected.probe_readings[name] for name in STATISTICS]
            values = [reading.value for reading in readings]
            percentiles = [reading.distance_percentile for reading in readings]
            self._largest("probe value", [found[-1][2], found[-1][4]], values)
            self._largest("distance percentile", [found[-1][3], found[-1][5]], percentiles)

    def check(self) -> None:
        """Same texts; log-probs, entropies and probe values within 1e-3."""
        assert not self.texts
        assert self.largest.keys() >= {"log-prob", "entropy", "probe value"}
        percentile = self.largest.pop("distance percentile")
        assert percentile <= 100 * TOLERANCE
        assert max(self.largest.values()) <= TOLERANCE, str(self)

    def _largest(self, name: str, found: Sequence[float], expected: Sequence[float]) -> None:
        pairs = zip(found, expected, strict=True)
        differences = [abs(one - other) for one, other in pairs]
        self.largest[name] = max([*differences, self.largest.get(name, 0.0)])


async def at_once(count: int, calls: Sequence[Callable[[], Awaitable[object]]]) -> None:
    """Await all calls, `count` of them at a time, in their order."""
    places = asyncio.Semaphore(count)

    async def placed(call: Callable[[], Awaitable[object]]) -> None:
        async with places:
            await call()

    async with asyncio.TaskGroup() as group:
        for call in calls:
            group.create_task(placed(call))
