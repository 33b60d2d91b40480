"""The states of a run's prompts, and the kinds that are found among them."""

import asyncio
import json

import numpy as np
import pytest

from app.scoring.ask import Ask
from cocoa_lab.calibration.fitting import CannotCalibrate
from cocoa_lab.calibration.prompts import (
    MIN_PROMPTS,
    STATES,
    StatesFile,
    domain_of,
    kinds_of,
    layer_of,
    read_states,
)
from cocoa_lab.overwriting import GENERATIONS
from models.probes.domain import PromptDomain
from models.records import SamplingParams
from tests.fakes.engine import FakeEngine
from workers.generation import GenerationWorker


def asks(count):
    sampling = SamplingParams(max_new_tokens=16)
    return {f"{i}": Ask(prompt=f"Question {i}?", sampling=sampling) for i in range(count)}


def keep(folder, wanted, *, is_killed=False):
    """Keep the states of the asks; how often the engine was asked."""
    engine = FakeEngine()

    async def run():
        worker = GenerationWorker(engine)
        loop = asyncio.create_task(worker.run())
        file = StatesFile(folder / STATES, worker)
        for name, ask in wanted.items():
            await file.keep(name, ask)
        if not is_killed:
            file.write()
        await worker.close()
        await loop

    asyncio.run(run())
    return engine.num_calls


def test_each_prompt_is_read_once_and_what_is_there_not_again(tmp_path):
    assert keep(tmp_path, asks(4)) == 4
    first = read_states(tmp_path / STATES)
    assert keep(tmp_path, asks(6)) == 2
    found = read_states(tmp_path / STATES)

    assert (found.generator, found.layer) == ("fake", 2)
    assert list(found.by_id) == [f"{i}" for i in range(6)]
    for name, state in first.by_id.items():
        np.testing.assert_array_equal(found.by_id[name], state)
    assert found.by_id["0"].shape == (8,)


def test_a_run_that_is_killed_loses_the_last_few(tmp_path):
    keep(tmp_path, asks(50), is_killed=True)
    assert list(read_states(tmp_path / STATES).by_id) == [f"{i}" for i in range(48)]
    assert keep(tmp_path, asks(50)) == 2


def test_a_model_that_shows_no_states_has_no_file(tmp_path, monkeypatch):
    worker = GenerationWorker(FakeEngine())
    monkeypatch.setattr(type(worker.info), "num_layers", 0)
    file = StatesFile(tmp_path / STATES, worker)
    for name, ask in asks(2).items():
        asyncio.run(file.keep(name, ask))
    file.write()
    assert layer_of(worker.info) == 0
    assert not (tmp_path / STATES).exists()


def test_prompts_become_a_domain_that_holds_them(tmp_path):
    keep(tmp_path, asks(MIN_PROMPTS))
    domain = domain_of([tmp_path])
    assert (domain.generator, domain.layer, len(domain.kinds)) == ("fake", 2, 1)
    states = read_states(tmp_path / STATES).by_id.values()
    assert np.mean([domain.is_foreign(state.astype(float)) for state in states]) < 0.05


def test_too_few_prompts_none_at_all_and_labels_of_traffic_are_told(tmp_path):
    with pytest.raises(CannotCalibrate, match="holds no states of its prompts"):
        domain_of([tmp_path])
    keep(tmp_path, asks(10))
    with pytest.raises(CannotCalibrate, match="10 prompts are fewer than 200"):
        domain_of([tmp_path])
    with pytest.raises(CannotCalibrate, match="no states of their prompts"):
        domain_of([])


def test_a_prompt_that_two_runs_had_counts_once(tmp_path):
    for name in ("prompts", "chats"):
        (tmp_path / name).mkdir()
        keep(tmp_path / name, asks(MIN_PROMPTS - 1))
    with pytest.raises(CannotCalibrate, match="199 prompts are fewer than 200"):
        domain_of([tmp_path / "prompts", tmp_path / "chats"])


def test_lines_of_one_prompt_count_once_though_rounding_tells_their_states_apart(tmp_path):
    keep(tmp_path, asks(MIN_PROMPTS))
    prompts = [f"Question {min(i, MIN_PROMPTS - 2)}?" for i in range(MIN_PROMPTS)]
    lines = [json.dumps({"id": f"{i}", "prompt": prompt}) for i, prompt in enumerate(prompts)]
    (tmp_path / GENERATIONS).write_text("\n".join(lines) + "\n")
    with pytest.raises(CannotCalibrate, match="199 prompts are fewer than 200"):
        domain_of([tmp_path])


def of_kind(rng, centre, number):
    return rng.standard_normal((number, 6)) * 0.5 + centre


def test_what_lies_between_two_kinds_is_foreign_and_a_few_strays_do_not_change_that():
    rng = np.random.default_rng(0)
    known = np.concatenate([of_kind(rng, -10, 700), of_kind(rng, 10, 700), of_kind(rng, 0, 5)])
    domain = PromptDomain("", 1, kinds_of(known))

    assert len(domain.kinds) == 2
    assert all(domain.is_foreign(state) for state in of_kind(rng, 0, 50))
    unseen = np.concatenate([of_kind(rng, -10, 1000), of_kind(rng, 10, 1000)])
    assert 0.002 < np.mean([domain.is_foreign(state) for state in unseen]) < 0.03
