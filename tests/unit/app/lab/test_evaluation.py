"""A dataset through fake models.

The scores are those of the service, nothing is generated twice, and a kill is survived.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from app.lab import evaluation as session
from app.lab import outputs
from app.lab.datasets import Example
from app.lab.evaluation import Asked
from app.lab.recordings import AnotherRun
from app.settings import Settings
from models.engines.fake import FakeEngine
from models.engines.protocol import EngineConfig
from models.errors import InvalidRequest
from models.estimators import ESTIMATORS, needs
from models.records import PROBE_STATISTICS
from models.similarity.fake import FakePairModel
from models.similarity.protocol import NliConfig, SimilarityConfig
from tests.conftest import serving

# An evaluation stores what samples show; `cocoa probe evaluate` compares probes with that.
WITHOUT_PROBE = [name for name in ESTIMATORS if not needs([name]) & PROBE_STATISTICS]
STRATEGIES = ["greedy", "most_probable", "mbr"]
FAKE = {
    "COCOA_GENERATION__ENGINE": "fake",
    "COCOA_SIMILARITY__NAME": "fake",
    "COCOA_NLI__NAME": "fake_nli",
    "COCOA_NLI__MODEL": "fake",
}
SETTINGS = Settings(
    generation=EngineConfig(engine="fake"),
    similarity=SimilarityConfig(name="fake"),
    nli=NliConfig(name="fake_nli", model="fake"),
)


def examples(count):
    return [
        Example(f"{task}-{i}", task, f"Question {i} of {task}?", ("Paris", "It is Paris."))
        for task in ("facts", "numbers")
        for i in range(count // 2)
    ]


def asked(path, *, count=12, rescore=False, **changes):
    chosen = examples(count)
    fields = {
        "dataset": "made",
        "examples": chosen,
        "generations": path / "generations.jsonl",
        "num_samples": 5,
        "seed": 3,
        "estimators": None,
        "strategies": STRATEGIES,
        "similarities": None,
        "qualities": outputs.quality_names(chosen, None),
        "rescore": rescore,
    }
    return Asked(**fields | changes)


def evaluate(wanted, on_scored=lambda: None):
    return asyncio.run(session.evaluate(wanted, SETTINGS, on_scored))


def scores(run):
    return {
        (answer.id, answer.strategy, answer.similarity): dict(answer.scores)
        for one in run.scored
        for answer in one.answers
    }


@pytest.fixture
def calls(monkeypatch):
    """Calls of every fake engine but its warm-up, and pairs of every fake pair model."""
    seen = {"generate": 0, "pairs": []}
    generate, score = FakeEngine.generate, FakePairModel.score

    async def counted(self, request, on_token=None):
        seen["generate"] += request.prompt != "Hello"
        return await generate(self, request, on_token)

    def noted(self, pairs):
        seen["pairs"] += [(self.labels, pair) for pair in pairs]
        return score(self, pairs)

    monkeypatch.setattr(FakeEngine, "generate", counted)
    monkeypatch.setattr(FakePairModel, "score", noted)
    return seen


@pytest.mark.anyio
@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_scores_are_those_of_the_service(tmp_path, strategy):
    wanted = asked(tmp_path, count=2)
    run = await session.evaluate(wanted, SETTINGS, lambda: None)
    one = run.scored[0]
    body = {
        "prompt": one.example.prompt,
        "seed": one.record.generation.seed,
        "num_samples": 5,
        "answer": strategy,
        "estimators": WITHOUT_PROBE,
    }
    async with serving() as service:
        response = (await service.generate(**body)).json()
    answer = next(answer for answer in one.answers if answer.strategy == strategy)
    assert response["scores"] == pytest.approx(answer.scores)
    assert response["text"].strip() == answer.text
    assert response["answer_sample"] == answer.sample


def test_every_estimator_is_scored_under_every_strategy_and_each_example_once(tmp_path, calls):
    seen = []
    run = evaluate(asked(tmp_path), lambda: seen.append(1))
    assert calls["generate"] == len(seen) == 12
    assert set(scores(run)) == {(e.id, s, "fake") for e in examples(12) for s in STRATEGIES}
    assert all(set(by_name) == set(WITHOUT_PROBE) for by_name in scores(run).values())


def test_each_pair_of_a_prompt_is_asked_once_for_all_of_its_answers(tmp_path, calls):
    evaluate(asked(tmp_path, count=2, examples=examples(2)[:1], estimators=WITHOUT_PROBE))
    asked_pairs = [pair for pair in calls["pairs"] if pair[1] != ("Paris", "Rome")]
    assert len(asked_pairs) == len(set(asked_pairs))


def test_scoring_again_gives_equal_numbers_and_generates_nothing(tmp_path, calls):
    first = evaluate(asked(tmp_path))
    before = (tmp_path / "generations.jsonl").read_bytes()
    calls["generate"] = 0
    again = evaluate(asked(tmp_path, rescore=True))
    assert calls["generate"] == 0
    assert scores(again) == scores(first)
    assert (tmp_path / "generations.jsonl").read_bytes() == before


def test_other_estimators_and_similarity_functions_are_scored_from_the_same_file(tmp_path, calls):
    evaluate(asked(tmp_path, estimators=["sp"], strategies=["greedy"]))
    calls["generate"] = 0
    run = evaluate(
        asked(
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
    evaluate(asked(tmp_path, estimators=["sp"]))
    with pytest.raises(InvalidRequest, match="p_true reads p_true_logprob"):
        evaluate(asked(tmp_path, rescore=True, estimators=["p_true"]))
    run = evaluate(asked(tmp_path, rescore=True))
    assert "p_true" not in run.scored[0].answers[0].scores, "left out where it was not named"


def test_a_similarity_function_that_is_not_loaded_is_refused(tmp_path):
    with pytest.raises(InvalidRequest, match="nosuch is none of"):
        evaluate(asked(tmp_path, similarities=["nosuch"]))


def test_there_must_be_something_to_score_again(tmp_path):
    with pytest.raises(AnotherRun, match="no generations"):
        evaluate(asked(tmp_path, rescore=True))


def test_a_larger_run_goes_on_where_a_smaller_one_ended_and_its_seeds_are_its_examples(
    tmp_path, calls
):
    small, large = tmp_path / "small", tmp_path / "large"
    for folder in (small, large):
        folder.mkdir()
    evaluate(asked(small, examples=examples(12)[3:6]))
    calls["generate"] = 0
    first = scores(evaluate(asked(small)))
    assert calls["generate"] == 9
    assert first == scores(evaluate(asked(large)))


def test_a_file_whose_prompts_have_changed_is_refused(tmp_path):
    evaluate(asked(tmp_path))
    changed = [replace(example, prompt="Another?") for example in examples(12)]
    with pytest.raises(AnotherRun, match="another prompt"):
        evaluate(asked(tmp_path, examples=changed))


def test_a_prompt_that_the_model_refuses_is_recorded_once_and_left_out(tmp_path, calls):
    long = Example("long", "facts", "word " * 600, ("Paris",))
    run = evaluate(asked(tmp_path, examples=[long, *examples(12)]))
    assert (run.num_failed, list(run.errors), len(run.scored)) == (1, ["prompt_too_long"], 12)
    calls["generate"] = 0
    assert evaluate(asked(tmp_path, examples=[long, *examples(12)])).num_failed == 1
    assert calls["generate"] == 0


def test_all_files_are_written(tmp_path):
    run = evaluate(asked(tmp_path, similarities=["fake", "jaccard"]))
    outputs.write(run, tmp_path, "cocoa evaluate made", num_resamples=20)
    results = json.loads((tmp_path / "results.json").read_text())
    assert set(results["prr"]) == set(results["auroc"]) == set(STRATEGIES)
    assert set(results["prr"]["greedy"]) == {"facts", "numbers", "mean"}
    assert set(results["similarity"]) == {"fake", "jaccard"}
    lines = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    assert len(lines) == 12 * 4
    assert {line["quality"] for line in lines} <= {0.0, 1.0}
    assert "cocoa evaluate made" in (tmp_path / "report.md").read_text()
    assert (tmp_path / "report.html").stat().st_size > 10_000
    for strategy in STRATEGIES:
        for kind in ("prr", "rejection"):
            assert {path.suffix for path in (tmp_path / "plots").glob(f"{kind}-{strategy}.*")} == {
                ".png",
                ".svg",
            }


def test_the_command_line_needs_no_library_of_the_evaluation_until_it_is_asked_for():
    libraries = ["matplotlib", "jinja2", "torch"]  # nltk imports scikit-learn where it finds it
    code = f"import app.cli, sys; print([name for name in {libraries} if name in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert (result.stdout.strip(), result.returncode) == ("[]", 0), result.stderr


def test_without_the_extra_the_command_says_what_to_install():
    code = "import sys; sys.modules['matplotlib'] = None; from app.cli import main; main()"
    command = [sys.executable, "-c", code, "evaluate", "testbed", "--out", "never"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert "cocoa-serve[models,evaluation]" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_run_killed_in_its_midst_goes_on_to_the_same_file(tmp_path):
    count = 800
    dataset = tmp_path / "made.jsonl"
    rows = [
        {"id": str(i), "task": "facts", "prompt": f"Question {i}?", "reference": "Paris"}
        for i in range(count)
    ]
    dataset.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def command(out):
        # Resamples take no part in what this test is about.
        options = ["--estimators", "cocoa_ppl,p_true", "--num-resamples", "2", "--num-samples", "4"]
        return [Path(sys.executable).parent / "cocoa", "evaluate", dataset, "--out", out, *options]

    kept = {name: value for name, value in os.environ.items() if not name.startswith("COCOA_")}
    run = {"env": kept | FAKE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    killed = tmp_path / "killed"
    process = subprocess.Popen(command(killed), **run)
    generations = killed / "generations.jsonl"
    deadline = time.monotonic() + 60
    while not generations.exists() or generations.read_bytes().count(b"\n") < 30:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
    assert 30 <= generations.read_bytes().count(b"\n") < count
    assert not (killed / "results.json").exists()

    subprocess.run(command(killed), **run, check=True, timeout=120)
    subprocess.run(command(tmp_path / "whole"), **run, check=True, timeout=120)
    assert generations.read_bytes() == (tmp_path / "whole" / "generations.jsonl").read_bytes()
    assert (killed / "scores.jsonl").read_bytes() == (
        tmp_path / "whole" / "scores.jsonl"
    ).read_bytes()
