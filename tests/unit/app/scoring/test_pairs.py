"""The one memory of pairs: nothing is asked twice, and scores of two models are never mixed."""

import asyncio
from dataclasses import replace

import pytest

from app.cache.memory import MemoryCache
from app.cache.protocol import CacheConfig
from app.scoring.ask import Ask, Caller
from app.scoring.entries import digest, pair_name
from app.scoring.memory import Memory
from app.scoring.observer import Observer
from app.scoring.pairs import PairScores
from models.errors import SimilarityUnavailable
from tests.observers import Told
from tests.results import comparer_info
from workers.protocol import PairReply

pytestmark = pytest.mark.anyio

PAIRS = [("a", "b"), ("b", "a")]


class Comparer:
    """Scores every pair 0.5, or what `weights` says, under its identity of the moment."""

    def __init__(self, **info):
        self.info = comparer_info(**info)
        self.asked = []
        self.speaks_as = None
        self.value = 0.5

    async def compare(self, pairs):
        self.asked.append(list(pairs))
        scores = {pair: ((self.value,), pair == ("cut", "cut")) for pair in pairs}
        return PairReply(scores, self.speaks_as or self.info.identity)


class Kept:
    """An empty memory that tells `told`."""

    def __init__(self):
        self.told, self.cache = Told(), MemoryCache(CacheConfig())
        self.memory = Memory(self.cache, self.told)


ASK = Ask(prompt="Where?")


def scores_of(comparer, kept=None):
    """The pairs of one more ask."""
    if kept is None:
        return PairScores(comparer, ASK, None, Observer())
    return PairScores(comparer, ASK, kept.memory, kept.told)


async def test_what_is_read_is_charged_by_its_tokens_as_far_as_they_are_read():
    charged, counted = [], []

    async def token_ends(texts):
        counted.append(list(texts))
        return [list(range(len(text))) for text in texts]

    comparer, kept = Comparer(max_pair_tokens=9), Kept()
    ask = replace(ASK, caller=Caller(charge=charged.append))
    pairs = PairScores(comparer, ask, kept.memory, kept.told, token_ends=token_ends)
    pairs.num_tokens["known"] = 2
    await pairs.table([("abc", "known"), ("abc", "abcdefghij")])
    await pairs.table([("abc", "known"), ("known", "abc")])

    assert counted[0] == ["abc", "abcdefghij"]
    assert charged == [3 + 2 + 9, 2 + 3]


async def test_no_pairs_ask_nobody():
    comparer, kept = Comparer(), Kept()
    pairs = scores_of(comparer, kept)
    assert (await pairs.table([])).scores == {}
    assert comparer.asked == kept.told.pairs == []


async def test_what_an_earlier_request_asked_for_is_looked_up():
    comparer, kept = Comparer(), Kept()
    await scores_of(comparer, kept).table(PAIRS)
    await scores_of(comparer, kept).table([*PAIRS, ("c", "d")])

    assert comparer.asked == [PAIRS, [("c", "d")]]
    assert kept.told.pairs == [(2, 0), (3, 2)]


async def test_a_function_without_weights_is_asked_and_not_looked_up():
    comparer, kept = Comparer(revision=None), Kept()
    await scores_of(comparer, kept).table(PAIRS)
    await scores_of(comparer, kept).table(PAIRS)

    assert comparer.asked == [PAIRS, PAIRS]
    assert kept.told.pairs == []
    assert kept.cache.num_bytes == 0


BAD = {
    "no JSON": b"\xff",
    "another shape": b"[]",
    "null": b"null",
    "an object": b'{"a": 1, "b": 2}',
    "no flag": b"[[0.5]]",
    "a number for the flag": b"[[0.5], 0]",
    "a number for the scores": b"[0.5, false]",
    "too many labels": b"[[0.5, 0.5], false]",
    "no labels": b"[[], false]",
    "words": b'[["a"], false]',
    "a string for the scores": b'["5", false]',
    "null for a score": b"[[null], false]",
    "true for a score": b"[[true], false]",
    "an array for a score": b"[[[0.5]], false]",
    "NaN": b"[[NaN], false]",
    "a score of 5": b"[[5.0], false]",
    "a score of -3": b"[[-3.0], false]",
    "a score beyond floats": b"[[1e999], false]",
}


@pytest.mark.parametrize("entry", BAD.values(), ids=list(BAD))
async def test_an_entry_that_is_none_is_a_miss_and_overwritten(entry):
    comparer, kept = Comparer(), Kept()
    kept.memory.put({pair_name("", comparer.info.identity, *map(digest, PAIRS[0])): entry})
    tables = [await scores_of(comparer, kept).table(PAIRS[:1]) for _ in range(2)]

    assert comparer.asked == [PAIRS[:1]]
    assert kept.told.pairs == [(1, 0), (1, 1)]
    assert kept.told.num_corrupt == 1
    assert [table.scores for table in tables] == 2 * [{PAIRS[0]: (0.5,)}]


async def test_scores_of_other_weights_serve_and_are_not_remembered():
    comparer, kept = Comparer(), Kept()
    comparer.speaks_as = "other weights"
    pairs = scores_of(comparer, kept)
    table = await pairs.table(PAIRS)

    assert table.scores == dict.fromkeys(PAIRS, (0.5,))
    assert not pairs.is_current
    assert kept.cache.num_bytes == 0


@pytest.mark.parametrize("known_by", ["an earlier call", "the cache"])
async def test_scores_of_two_models_are_never_mixed(known_by):
    comparer, kept = Comparer(), Kept()
    pairs = scores_of(comparer, kept)
    await (pairs if known_by == "an earlier call" else scores_of(comparer, kept)).table(PAIRS)
    comparer.speaks_as = "other weights"
    with pytest.raises(SimilarityUnavailable, match="replaced"):
        await pairs.table([*PAIRS, ("c", "d")])


async def test_a_request_that_is_cancelled_leaves_the_memory_as_it_was():
    comparer = Comparer()
    gate = asyncio.Event()
    compare = comparer.compare

    async def held(pairs):
        await gate.wait()
        return await compare(pairs)

    comparer.compare = held
    pairs = scores_of(comparer)
    task = asyncio.create_task(pairs.table(PAIRS))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    gate.set()
    assert len((await pairs.table(PAIRS)).scores) == 2


async def test_a_text_in_many_pairs_is_hashed_once(monkeypatch):
    hashed = []

    def counted(text):
        hashed.append(text)
        return digest(text)

    monkeypatch.setattr("app.scoring.pairs.digest", counted)
    texts = ["Paris", "Rome", "Lyon"]
    pairs = scores_of(Comparer(), Kept())
    await pairs.table([(a, b) for a in texts for b in texts])

    assert sorted(hashed) == sorted(texts)
