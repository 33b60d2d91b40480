"""Draws that do not repeat: their law, and what an engine makes of it."""

import math
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from models.embedded import LANGUAGE_MODEL_DIR
from models.engines.distinct import found_by, without_found
from models.engines.jobs import Row
from models.engines.protocol import EngineConfig
from models.engines.sampling import Law, draw
from models.engines.transformers import TransformersEngine
from tests.tiny_models import random_model
from tests.unit.models.engines.tiny_engines import engine_of, generated, request_for, running

pytestmark = pytest.mark.anyio

# q(t | tokens so far) over three tokens, the last of which ends a sequence.
TREE = {
    (): [0.6, 0.3, 0.1],
    (0,): [0.5, 0.2, 0.3],
    (1,): [0.25, 0.25, 0.5],
}
EVERYTHING = [(2,), *((first, then) for first in (0, 1) for then in range(3))]


def chances(sequence):
    return [TREE[sequence[:i]][token] for i, token in enumerate(sequence)]


def row_of(sequence, found=None):
    job = SimpleNamespace(found=found or {})
    return Row(job, 1, frozenset(), token_ids=list(sequence), chances=chances(sequence))


def drawn(uniforms, found):
    """The sequence of these uniforms, by the code that engines run."""
    row = row_of((), found)
    for uniform in uniforms:
        logits = torch.tensor([TREE[tuple(row.token_ids)]]).log()
        law = Law(torch.ones(1), torch.ones(1, dtype=torch.float64), 0, is_distinct=True)
        at = torch.tensor([uniform], dtype=torch.float64)
        token = draw(logits, law, torch.tensor([0]), at, [row])
        row.token_ids.append(int(token))
        if row.token_ids[-1] == 2 or len(row.token_ids) == 2:
            break
    return tuple(row.token_ids), row.chances


@pytest.mark.parametrize(
    "found",
    [[], [(0, 0)], [(0, 0), (2,)], [(0, 0), (0, 1), (0, 2)], [(0, 0), (1, 2), (1, 2)]],
    ids=["nothing", "one", "two", "all that begins with one token", "one of them twice"],
)
def test_draws_follow_the_law_of_what_was_not_found(found):
    grid = (np.arange(40) + 0.5) / 40
    counts, known = Counter(), found_by(map(row_of, found))
    for first in grid:
        for then in grid:
            sequence, along = drawn((first, then), known)
            assert along == pytest.approx(chances(sequence)), "under the law as it was"
            counts[sequence] += 1

    whole = {one: math.prod(chances(one)) for one in EVERYTHING if one not in found}
    for one, mass in whole.items():
        assert counts[one] / counts.total() == pytest.approx(mass / sum(whole.values()), abs=0.03)
    assert not counts.keys() & set(found)


def test_where_everything_was_found_draws_repeat():
    known = found_by(map(row_of, EVERYTHING))
    mass, tokens = torch.tensor([TREE[()]]), torch.tensor([[0, 1, 2]])

    assert without_found(mass, tokens, [row_of((), known)]).tolist() == mass.tolist()


def test_what_shares_no_tokens_with_the_found_is_drawn_as_before():
    known = found_by([row_of((0, 0))])
    mass, tokens = torch.tensor([TREE[(1,)]]), torch.tensor([[0, 1, 2]])

    assert without_found(mass, tokens, [row_of((1,), known)]).tolist() == mass.tolist()


def distinct(request, **sampling):
    return replace(request, sampling=replace(request.sampling, distinct=True, **sampling))


@pytest.fixture(scope="module")
def engine():
    return TransformersEngine.load(EngineConfig(model=str(LANGUAGE_MODEL_DIR), threads=1))


PROMPTS = ["What is the capital of France?", "17 + 25 =", "In Spanish: seven"]


async def test_no_sample_repeats_the_answer_or_an_earlier_wave(engine):
    requests = []
    for i, prompt in enumerate(PROMPTS):
        requests.append(distinct(request_for(prompt, num_samples=10, seed=i)))
    async with running(engine) as worker:
        together = await generated(worker, requests)
        alone = [await worker.generate(request) for request in requests]
        plain = await generated(worker, [replace(r, sampling=SAMPLING) for r in requests])

    for one, other, repeated in zip(together, alone, plain, strict=True):
        samples = [sample.token_ids for sample in one.samples]
        assert samples == [sample.token_ids for sample in other.samples]
        assert one.answer.token_ids == repeated.answer.token_ids
        known = {one.answer.token_ids}
        for start, end in ((0, 2), (2, 5), (5, 10)):
            assert known.isdisjoint(samples[start:end])
            known |= set(samples[start:end])
        # These models repeat themselves where they may.
        assert len({sample.token_ids for sample in repeated.samples}) < 10


SAMPLING = request_for("", num_samples=10).sampling


async def test_fewer_draws_are_the_first_of_more(engine):
    async with running(engine) as worker:
        of = [distinct(request_for(PROMPTS[0], num_samples=m, seed=4)) for m in (2, 7, 10)]
        two, seven, ten = await generated(worker, of)
        waves = await worker.generate(distinct(of[2], stop_mass=0.3))

    texts = [sample.text for sample in ten.samples]
    assert [sample.text for sample in two.samples] == texts[:2]
    assert [sample.text for sample in seven.samples] == texts[:7]
    assert [sample.text for sample in waves.samples] == texts[: len(waves.samples)]
    assert len(waves.samples) < 10


async def test_rows_of_both_kinds_decode_together_as_they_do_alone():
    plain = request_for("Hello", num_samples=4, max_new_tokens=6, seed=1)
    requests = [plain, distinct(plain), distinct(plain, temperature=0.5, top_k=3)]
    async with running(engine_of(random_model("gpt2"))) as worker:
        together = await generated(worker, requests)
        alone = [await worker.generate(request) for request in requests]

    for one, other in zip(together, alone, strict=True):
        assert [s.token_ids for s in one.samples] == [s.token_ids for s in other.samples]
        assert one.answer.token_ids == other.answer.token_ids
