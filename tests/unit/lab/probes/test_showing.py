"""Hidden states beside what is scored: they come with the result, and are never cached."""

import pytest

from app.cache.memory import MemoryCache
from app.cache.protocol import CacheConfig
from app.scoring.ask import Ask
from app.scoring.memory import Memory
from app.scoring.observer import Observer
from app.scoring.scorer import Scorer
from cocoa_lab.loading import running_workers
from cocoa_lab.probes.showing import showing
from models.records import SamplingParams
from workers.admission import Admission
from workers.build import build_workers
from workers.config import GeneratorConfig, SimilaritySettings, WorkerConfig

pytestmark = pytest.mark.anyio

CONFIG = WorkerConfig(
    generation=GeneratorConfig(engine="fake"), similarity=SimilaritySettings(name="fake")
)
ASK = Ask(prompt="Where?", sampling=SamplingParams(4, 16, seed=1), estimators=("sp",))


async def test_hidden_states_come_with_the_result_and_are_never_cached():
    async with running_workers(build_workers(CONFIG)) as workers:
        memory = Memory(MemoryCache(CacheConfig()), Observer())
        scorer = Scorer(workers, Admission(4), memory)
        shown = showing(scorer, (2, 1), by_sentence=False)
        results = [await shown.run(ASK) for _ in range(2)]
        without = [await scorer.run(ASK) for _ in range(2)]

    assert {result.source for result in results} == {"computed"}
    assert results[0].evidence.generation.answer_hidden_mean.shape == (2, 8)
    assert [result.source for result in without] == ["computed", "cache"]
    assert without[0].evidence.generation.answer_hidden_mean is None
    assert without[0].scores == results[0].scores
