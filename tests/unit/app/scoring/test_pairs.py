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
from tests.results import similarity_info
from workers.protocol import PairReply

pytestmark = pytest.mark.anyio

PAIRS = [("a", "b"), ("b", "a")]


class SimilarityScorer:
    """Scores every pair 0.5, or what `weights` says, under its identity of the moment."""

    def __init__(self, **info):
        self.info = similarity_info(**info)
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


def scores_of(similarity_scorer, kept=None):
    """The pairs of one more ask."""
    if kept is None:
        return PairScores(similarity_scorer, ASK, None, Observer())
    return PairScores(similarity_scorer, ASK, kept.memory, kept.told)


async def test_what_is_read_is_charged_by_its_tokens_as_far_as_they_are_read():
    charged, counted = [], []

    async def token_ends(texts):
        counted.append(list(texts))
        return [list(range(len(text))) for text in texts]

    similarity_scorer, kept = SimilarityScorer(max_pair_tokens=9), Kept()
    ask = replace(ASK, caller=Caller(charge=charged.append))
    pairs = PairScores(similarity_scorer, ask, kept.memory, kept.told, token_ends=token_ends)
    pairs.num_tokens["known"] = 2
    await pairs.table([("abc", "known"), ("abc", "abcdefghij")])
    await pairs.table([("abc", "known"), ("known", "abc")])

    assert counted[0] == ["abc", "abcdefghij"]
    assert charged == [3 + 2 + 9, 2 + 3]


async def test_no_pairs_ask_nobody():
    similarity_scorer, kept = SimilarityScorer(), Kept()
    pairs = scores_of(similarity_scorer, kept)
    assert (await pairs.table([])).scores == {}
    assert similarity_scorer.asked == kept.told.pairs == []


async def test_what_an_earlier_request_asked_for_is_looked_up():
    similarity_scorer, kept = SimilarityScorer(), Kept()
    await scores_of(similarity_scorer, kept).table(PAIRS)
    await scores_of(similarity_scorer, kept).table([*PAIRS, ("c", "d")])

    assert similarity_scorer.asked == [PAIRS, [("c", "d")]]
    assert kept.told.pairs == [(2, 0), (3, 2)]


async def test_a_function_without_weights_is_asked_and_not_looked_up():
    similarity_scorer, kept = SimilarityScorer(revision=None), Kept()
    await scores_of(similarity_scorer, kept).table(PAIRS)
    await scores_of(similarity_scorer, kept).table(PAIRS)

    assert similarity_scorer.asked == [PAIRS, PAIRS]
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
    similarity_scorer, kept = SimilarityScorer(), Kept()
    kept.memory.put({pair_name("", similarity_scorer.info.identity, *map(digest, PAIRS[0])): entry})
    tables = [await scores_of(similarity_scorer, kept).table(PAIRS[:1]) for _ in range(2)]

    assert similarity_scorer.asked == [PAIRS[:1]]
    assert kept.told.pairs == [(1, 0), (1, 1)]
    assert kept.told.num_corrupt == 1
    assert [table.scores for table in tables] == 2 * [{PAIRS[0]: (0.5,)}]


async def test_scores_of_other_weights_serve_and_are_not_remembered():
    similarity_scorer, kept = SimilarityScorer(), Kept()
    similarity_scorer.speaks_as = "other weights"
    pairs = scores_of(similarity_scorer, kept)
    table = await pairs.table(PAIRS)

    assert table.scores == dict.fromkeys(PAIRS, (0.5,))
    assert not pairs.is_current
    assert kept.cache.num_bytes == 0


@pytest.mark.parametrize("known_by", ["an earlier call", "the cache"])
async def test_scores_of_two_models_are_never_mixed(known_by):
    similarity_scorer, kept = SimilarityScorer(), Kept()
    pairs = scores_of(similarity_scorer, kept)
    await (pairs if known_by == "an earlier call" else scores_of(similarity_scorer, kept)).table(
        PAIRS
    )
    similarity_scorer.speaks_as = "other weights"
    with pytest.raises(SimilarityUnavailable, match="replaced"):
        await pairs.table([*PAIRS, ("c", "d")])


async def test_a_request_that_is_cancelled_leaves_the_memory_as_it_was():
    similarity_scorer = SimilarityScorer()
    gate = asyncio.Event()
    compare = similarity_scorer.compare

    async def held(pairs):
        await gate.wait()
        return await compare(pairs)

    similarity_scorer.compare = held
    pairs = scores_of(similarity_scorer)
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
    pairs = scores_of(SimilarityScorer(), Kept())
    await pairs.table([(a, b) for a in texts for b in texts])

    assert sorted(hashed) == sorted(texts)
