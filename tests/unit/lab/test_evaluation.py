"""A dataset through fake models.

The scores are those of the service, nothing is generated twice, and a kill is survived.
"""

import asyncio
from dataclasses import replace

import pytest

from app.settings import Settings
from cocoa_lab import evaluation, outputs
from cocoa_lab.calibration.labels import read_labels
from cocoa_lab.calibration.prompts import STATES, read_states
from cocoa_lab.evaluation import EvaluationSpec
from cocoa_lab.examples import Example
from cocoa_lab.log import AnotherRun
from cocoa_lab.quality import QUALITY, quality_names
from cocoa_lab.recordings import RecordingLog, read
from cocoa_lab.run import numbers_of_samples
from models.errors import InvalidRequest
from models.estimators import needs
from models.probes.protocol import ProbeConfig
from models.similarity import PAIR_MODELS
from models.similarity.protocol import NliConfig
from models.statistics import supplied_by
from tests.aligned import align_scores
from tests.conftest import serving
from tests.contract.profiles import SERVERS
from tests.fakes.engine import FakeEngine
from tests.fakes.estimators import WITHOUT_DOCUMENTS
from tests.fakes.pair_models import FakeNliModel, FakePairModel
from tests.fakes.settings import FAKES
from tests.openai_server import openai_server
from tests.tiny_probes import saved
from workers.config import GeneratorConfig

WITHOUT_PROBE = [name for name in WITHOUT_DOCUMENTS if not needs([name]) & supplied_by("probe")]
WITHOUT_PROBE.append("lexical_similarity")  # which the lab adds
STRATEGIES = ["greedy", "most_probable", "mbr"]
SETTINGS = Settings(**FAKES)


async def no_costs(*_):
    return []


def examples(count):
    made = []
    for task in ("facts", "numbers"):
        for i in range(count // 2):
            prompt = f"Question {i} of {task}?"
            made.append(Example(f"{task}-{i}", task, prompt, ("Paris", "It is Paris.")))
    return made


def spec(path, *, count=12, rescore=False, **changes):
    chosen = examples(count)
    fields = {
        "dataset": "made",
        "examples": chosen,
        "generations": path / "generations.jsonl",
        "draws": [5],
        "seed": 3,
        "estimators": None,
        "strategies": STRATEGIES,
        "similarities": None,
        "measure_names": quality_names(chosen, None),
        "measures": QUALITY,
        "rescore": rescore,
    }
    return EvaluationSpec(**fields | changes)


def evaluate(wanted, on_scored=lambda: None):
    return asyncio.run(evaluation.evaluate(wanted, SETTINGS, on_scored))


def scores(run):
    found = {}
    for prompt in run.prompts:
        for answer in prompt.answers:
            found[answer.id, answer.strategy, answer.similarity] = dict(answer.scores)
    return found


@pytest.fixture
def calls(monkeypatch):
    """Calls of every fake engine but its warm-up, and pairs of every fake pair model."""
    seen = {"generate": 0, "states": 0, "pairs": []}
    prepare, score = FakeEngine.prepare, FakePairModel.score

    def counted(self, request, *, streams=False):
        seen["states" if request.prompt_layer else "generate"] += request.prompt != "Hello"
        return prepare(self, request, streams=streams)

    def noted(self, pairs):
        seen["pairs"] += [(self.labels, pair) for pair in pairs]
        return score(self, pairs)

    monkeypatch.setattr(FakeEngine, "prepare", counted)
    monkeypatch.setattr(FakePairModel, "score", noted)
    return seen


DRAWS = [5, 3, 20]


@pytest.mark.anyio
@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_scores_are_those_of_the_service(tmp_path, strategy, draw):
    wanted = spec(tmp_path, count=2, draws=DRAWS)
    run = await evaluation.evaluate(wanted, SETTINGS, lambda: None)
    one = run.prompts[0]
    body = {
        "prompt": one.example.prompt,
        "seed": one.recording.generation.seed,
        "num_samples": draw,
        "strategy": strategy,
    }
    drawn = [answer for answer in one.answers if answer.draw == str(draw)]
    answer = next(answer for answer in drawn if answer.strategy == strategy)
    async with serving() as service:
        response = (await service.generate(**body, estimators=list(answer.scores))).json()
    assert len(one.recording.generation.samples) == 20
    assert response["provenance"]["num_samples"] == answer.num_samples
    assert response["scores"] == pytest.approx(answer.scores)
    assert response["text"].strip() == answer.text
    assert response["provenance"].get("answer_sample") == answer.sample


def test_every_estimator_is_scored_under_every_strategy_and_each_example_once(tmp_path, calls):
    seen = []
    run = evaluate(spec(tmp_path, estimators=WITHOUT_PROBE), lambda: seen.append(1))
    assert calls["generate"] == calls["states"] == len(seen) == 12
    assert set(scores(run)) == {(e.id, s, "fake") for e in examples(12) for s in STRATEGIES}
    for answer in run.prompts[0].answers:  # whose numbers can be told from what is stored
        told = 1 - sum(answer.similarities["similarity"]) / len(answer.similarities["similarity"])
        assert answer.scores["inconsistency"] == pytest.approx(told, abs=1e-6)
        assert len(answer.similarities["similarity_matrix"]) == 5
    assert all(set(by_name) == set(WITHOUT_PROBE) for by_name in scores(run).values())


def test_a_probe_reads_greedy_answers_and_a_calibrator_is_bound_to_it(tmp_path):
    probes = ProbeConfig(inconsistency=saved(tmp_path))
    settings = Settings(**FAKES | {"probes": probes})
    wanted = spec(tmp_path, count=60, estimators=["cocoa_sp_light", "sp"])
    run = asyncio.run(evaluation.evaluate(wanted, settings, lambda: None))
    for name in STRATEGIES:
        read = [set(found) for (_, strategy, _), found in scores(run).items() if strategy == name]
        assert all(("cocoa_sp_light" in found) == (name == "greedy") for found in read)

    outputs.write(run, tmp_path, "cocoa evaluate made", num_resamples=10)
    parts, _ = read_labels(tmp_path, strategy="greedy")
    sha256 = {"predicted_dissimilarity": run.header.probes["predicted_dissimilarity"]["sha256"]}
    assert parts[0].bindings[0].probes == sha256
    assert "cocoa_sp_light" in parts[0].labels.scores
    again = asyncio.run(evaluation.evaluate(replace(wanted, rescore=True), settings, lambda: None))
    assert scores(again) == scores(run)


def test_the_costs_of_all_estimators_are_measured_by_what_models_are_asked_for(tmp_path):
    run = evaluate(spec(tmp_path, estimators=["sp", "ppl", "cocoa_sp", "sar", "p_true"]))
    groups = {cost.reads: set(cost.estimators) for cost in run.costs}

    assert groups == {
        (): {"sp", "ppl"},
        ("similarity",): {"cocoa_sp"},
        ("sample_token_relevance", "similarity_matrix"): {"sar"},
        ("p_true_logprob",): {"p_true"},
    }
    assert all(cost.ms > 0 for cost in run.costs)
    assert evaluate(spec(tmp_path, estimators=["sp"], rescore=True)).costs == []


def test_chats_are_asked_as_chats(tmp_path, monkeypatch):
    asked, prepare = [], FakeEngine.prepare

    def noted(self, request, *, streams=False):
        asked.append(request.messages or request.prompt)
        return prepare(self, request, streams=streams)

    monkeypatch.setattr(FakeEngine, "prepare", noted)
    prompt, other = examples(2)
    messages = ({"role": "user", "content": "Hi?"},)
    chat = replace(other, prompt="user: Hi?", messages=messages)
    run = evaluate(spec(tmp_path, examples=[prompt, chat], estimators=["sp"]))

    assert prompt.prompt in asked
    assert messages in asked
    with pytest.raises(AnotherRun, match="another prompt's"):
        evaluate(spec(tmp_path, examples=[prompt, other], estimators=["sp"]))
    assert [one.example.input for one in run.prompts] == ["prompt", "messages"]


def test_without_a_number_of_samples_there_are_ten(tmp_path, calls):
    run = evaluate(spec(tmp_path, count=2, draws=None, strategies=["greedy"]))
    assert [variant.draw for variant in run.variants] == ["10"]
    assert calls["generate"] == 2


def test_each_pair_of_a_prompt_is_asked_once_for_all_of_its_answers(tmp_path, calls, monkeypatch):
    monkeypatch.setattr(evaluation, "costs", no_costs)
    evaluate(spec(tmp_path, count=2, examples=examples(2)[:1], estimators=WITHOUT_PROBE))
    asked_pairs = [pair for pair in calls["pairs"] if pair[1] != ("Paris", "Rome")]
    assert len(asked_pairs) == len(set(asked_pairs))


def test_scoring_again_gives_equal_numbers_and_generates_nothing(tmp_path, calls):
    first = evaluate(spec(tmp_path))
    before = (tmp_path / "generations.jsonl").read_bytes()
    calls["generate"] = 0
    again = evaluate(spec(tmp_path, rescore=True))
    assert calls["generate"] == 0
    assert scores(again) == scores(first)
    assert (tmp_path / "generations.jsonl").read_bytes() == before


def test_other_estimators_and_similarity_functions_are_scored_from_the_same_file(tmp_path, calls):
    evaluate(spec(tmp_path, estimators=["sp"], strategies=["greedy"]))
    calls["generate"] = 0
    run = evaluate(
        spec(
            tmp_path,
            rescore=True,
            estimators=["cocoa_ppl", "degmat"],
            similarities=["rouge_l", "nli"],
        )
    )
    assert calls["generate"] == 0
    found = scores(run)
    assert set(found["facts-0", "mbr", "rouge_l"]) == {"cocoa_ppl", "degmat"}
    assert set(found["facts-0", "greedy", "nli"]) == {"cocoa_ppl"}, (
        "a further function: what reads it, first strategy"
    )
    assert ("facts-0", "mbr", "nli") not in found


def test_what_was_not_recorded_is_refused_by_name(tmp_path):
    evaluate(spec(tmp_path, estimators=["sp"]))
    with pytest.raises(InvalidRequest, match="p_true reads p_true_logprob"):
        evaluate(spec(tmp_path, rescore=True, estimators=["p_true"]))
    run = evaluate(spec(tmp_path, rescore=True))
    assert "p_true" not in run.prompts[0].answers[0].scores, "left out where it was not named"


def test_a_similarity_function_that_is_not_loaded_is_refused(tmp_path):
    with pytest.raises(InvalidRequest, match="must be one of added, fake"):
        evaluate(spec(tmp_path, similarities=["nosuch"]))


def test_fewer_samples_are_scored_again_from_the_same_file_and_more_are_refused(tmp_path, calls):
    evaluate(spec(tmp_path))
    calls["generate"] = 0
    run = evaluate(spec(tmp_path, rescore=True, draws=[2, 5]))
    assert calls["generate"] == 0
    assert {answer.num_samples for answer in run.prompts[0].answers} == {2, 5}
    assert evaluate(spec(tmp_path, rescore=True, draws=None)).variants[0].draw == "5"
    with pytest.raises(InvalidRequest, match="5 samples a prompt were recorded"):
        evaluate(spec(tmp_path, rescore=True, draws=[6]))


def test_only_what_reads_samples_is_compared_under_further_draws(tmp_path):
    wanted = spec(tmp_path, estimators=["sp", "cocoa_sp"], draws=[5, 2])
    answers = evaluate(wanted).prompts[0].answers
    assert [(answer.draw, set(answer.scores)) for answer in answers] == [
        *[("5", {"sp", "cocoa_sp"})] * 3,
        *[("2", {"cocoa_sp"})] * 3,
    ]


def test_numbers_of_samples_are_named_once_each():
    assert numbers_of_samples("10, 5,10") == [10, 5]


@pytest.mark.parametrize("name", ["0", "65", "-1", "1.5", "all", "", "²", "10,"])
def test_a_number_of_samples_is_one_from_1_to_64(name):
    with pytest.raises(ValueError, match="1 to 64"):
        numbers_of_samples(name)


@pytest.mark.parametrize("name", ["auto", "10,auto-5"])
def test_numbers_of_samples_that_are_gone_are_refused_with_what_to_name(name):
    with pytest.raises(ValueError, match="is gone: name numbers of samples, such as 5"):
        numbers_of_samples(name)


def test_there_must_be_something_to_score_again(tmp_path):
    with pytest.raises(AnotherRun, match="no generations"):
        evaluate(spec(tmp_path, rescore=True))


def test_a_larger_run_goes_on_where_a_smaller_one_ended_and_its_seeds_are_its_examples(
    tmp_path, calls
):
    small, large = tmp_path / "small", tmp_path / "large"
    for folder in (small, large):
        folder.mkdir()
    evaluate(spec(small, examples=examples(12)[3:6]))
    calls["generate"] = calls["states"] = 0
    first = scores(evaluate(spec(small)))
    assert calls["generate"] == calls["states"] == 9
    assert first == scores(evaluate(spec(large)))


def test_a_slow_prompt_keeps_no_other_from_the_file(tmp_path, monkeypatch):
    wanted, record, append = spec(tmp_path), evaluation.record, RecordingLog.append
    slow, written, others_are_written = wanted.examples[0].id, [], asyncio.Event()

    async def recorded(example, *rest):
        if example.id == slow:
            await asyncio.wait_for(others_are_written.wait(), 20)
        return await record(example, *rest)

    def noted(log, recording):
        append(log, recording)
        written.append(recording.id)
        if len(written) == 11:
            others_are_written.set()

    monkeypatch.setattr(evaluation, "record", recorded)
    monkeypatch.setattr(RecordingLog, "append", noted)
    run = evaluate(wanted)
    assert [one.example for one in run.prompts] == wanted.examples
    assert list(read(wanted.generations)[1]) == written
    assert written[-1] == slow


@pytest.mark.anyio
async def test_greedy_answers_of_a_server_that_gives_none_are_refused_before_any_work(tmp_path):
    takes = SERVERS["openai-reasoning"]["takes"]
    async with openai_server(completes=False, takes=takes, max_logprobs=None) as server:
        generation = GeneratorConfig(url=server.url, api="openai", server="generic", model="tiny")
        settings = Settings(**FAKES | {"generation": generation})
        wanted = spec(tmp_path, strategies=["greedy"], estimators=["inconsistency"])
        with pytest.raises(InvalidRequest, match="are draws: add --answer-temperature 1"):
            await evaluation.evaluate(wanted, settings, lambda: None)
        assert not wanted.generations.exists()
        wanted = replace(wanted, strategies=["sample"], answer_temperature=1.0)
        run = await evaluation.evaluate(wanted, settings, lambda: None)
    assert {variant.strategy for variant in run.variants} == {"sample"}


def test_a_file_whose_prompts_have_changed_is_refused(tmp_path):
    evaluate(spec(tmp_path))
    changed = [replace(example, prompt="Another?") for example in examples(12)]
    with pytest.raises(AnotherRun, match="another prompt"):
        evaluate(spec(tmp_path, examples=changed))


def test_a_prompt_that_the_model_refuses_is_recorded_once_and_left_out(tmp_path, calls):
    long = Example("long", "facts", "word " * 600, ("Paris",))
    run = evaluate(spec(tmp_path, examples=[long, *examples(12)]))
    assert (run.num_failed, list(run.errors), len(run.prompts)) == (1, ["prompt_too_long"], 12)
    calls["generate"] = 0
    assert evaluate(spec(tmp_path, examples=[long, *examples(12)])).num_failed == 1
    assert calls["generate"] == 0


def test_the_quality_that_asks_for_support_gets_it_by_aligns_scheme_over_the_nli_model(tmp_path):
    wanted = spec(tmp_path, count=2, measure_names={"facts": "align", "numbers": "exact_match"})
    run = evaluate(wanted)
    for strategy, quality in zip(STRATEGIES, run.qualities.values(), strict=True):
        prompt = run.prompts[0]
        answer = next(answer for answer in prompt.answers if answer.strategy == strategy)
        pairs = [(reference, answer.text) for reference in prompt.example.references]
        assert quality[0] == max(align_scores(FakeNliModel(), pairs))
    assert run.binary_tasks == {"numbers"}


def test_a_quality_without_the_nli_model_that_it_needs_is_refused_before_anything_is_generated(
    tmp_path, calls
):
    wanted = spec(tmp_path, measure_names={"facts": "align", "numbers": "exact_match"})
    without_nli = SETTINGS.model_copy(update={"nli": NliConfig(model="")})
    with pytest.raises(ValueError, match="needs a pair model"):
        asyncio.run(evaluation.evaluate(wanted, without_nli, lambda: None))
    assert calls["generate"] == 0


def test_a_run_that_ends_half_way_has_the_states_of_all_that_it_generated(tmp_path):
    seen = []

    def stop():
        seen.append(1)
        if len(seen) == 40:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(spec(tmp_path, count=120), stop)
    rescored = evaluate(spec(tmp_path, count=120, rescore=True))
    kept = read_states(tmp_path / STATES).by_id

    assert len(rescored.prompts) >= 40
    assert {one.example.id for one in rescored.prompts} <= set(kept)


@pytest.mark.parametrize("model", ["org/model", "embedded"])
def test_a_pair_model_that_was_made_for_another_language_model_is_told(
    tmp_path, monkeypatch, model
):
    monkeypatch.setitem(PAIR_MODELS, "cross_encoder", PAIR_MODELS["fake"])
    settings = SETTINGS.model_copy(
        update={
            "generation": replace(SETTINGS.generation, model=model),
            "similarity": replace(SETTINGS.similarity, name="cross_encoder", model="embedded"),
        }
    )
    wanted = spec(tmp_path, count=2, strategies=["greedy"], estimators=["inconsistency"])
    run = asyncio.run(evaluation.evaluate(wanted, settings, lambda: None))
    expected = ["similarity cross_encoder"] if model == "org/model" else []
    assert list(run.foreign) == expected
