"""`cocoa evaluate` with the embedded models on twelve prompts: generate, report, score again."""

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner

from app.cli import app
from models.estimators import needs
from models.statistics import supplied_by
from tests.fakes.estimators import WITHOUT_DOCUMENTS

COLUMNS = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}


# Estimators that need a probe are evaluated by `cocoa probe evaluate`.
WITHOUT_PROBE = [name for name in WITHOUT_DOCUMENTS if not needs([name]) & supplied_by("probe")]
WITHOUT_PROBE.append("lexical_similarity")  # which the lab adds


@pytest.fixture(scope="module")
def cocoa():
    """Run `cocoa` without COCOA_ variables of the machine."""
    unset = {name: None for name in os.environ if name.upper().startswith("COCOA_")}

    def run(*arguments, **environment):
        variables = COLUMNS | unset | environment
        return CliRunner().invoke(app, [*map(str, arguments)], env=variables)

    return run


@pytest.fixture(scope="module")
def out(cocoa, tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluation")
    every = ["--estimators", ",".join(WITHOUT_PROBE)]
    options = ["--limit", 12, "--num-resamples", 50]
    result = cocoa("evaluate", "testbed", "--out", folder, *options, *every)
    assert result.exit_code == 0, result.output
    foretold = "12 prompts, an answer and 10 samples each: the model writes 132 texts"
    assert result.stderr.startswith(foretold)
    assert "p_true costs for each of them: one more prefill" in result.stderr
    assert "by the first 10 prompts about" in result.stderr
    return folder


def test_by_default_nothing_is_scored_that_asks_the_model_once_more(cocoa, tmp_path):
    options = ["--limit", 2, "--num-resamples", 50, "--answers", "greedy"]
    result = cocoa("evaluate", "testbed", "--out", tmp_path, *options)
    assert result.exit_code == 0, result.output
    scores = json.loads((tmp_path / "scores.jsonl").read_text().splitlines()[0])["scores"]
    assert set(WITHOUT_PROBE) - set(scores) == {"p_true", "bsdetector"}


def test_twelve_prompts_are_scored_by_every_estimator_under_every_strategy(out):
    lines = [json.loads(line) for line in (out / "scores.jsonl").read_text().splitlines()]
    assert [line["draw"] for line in lines] == ["10"] * 3 * 12
    for line in lines:
        assert set(line["scores"]) == set(WITHOUT_PROBE)
        assert line["quality"] in (0.0, 1.0)
        assert not [name for name, value in line["scores"].items() if value is None]


def test_the_results_hold_every_metric_and_claim(out):
    results = json.loads((out / "results.json").read_text())
    assert set(results["prr"]) == set(results["auroc"]) == {"greedy", "most_probable", "mbr"}
    assert sum(task["num_prompts"] for task in results["tasks"]) == 12
    verdicts = {claim["verdict"] for claim in results["claims"]}
    assert verdicts <= {"supported", "refuted", "undecided"}
    assert results["speed"]["prompts_per_s"] > 0
    measured = [name for cost in results["costs"] for name in cost["estimators"]]
    assert sorted(measured) == sorted(WITHOUT_PROBE)


def test_the_page_and_the_tables_show_them(out):
    page, tables = (out / "report.html").read_text(), (out / "report.md").read_text()
    for name in WITHOUT_PROBE:
        assert f"<code>{name}</code>" in page
        assert f"| `{name}` |" in tables
    assert page.count("<svg") >= 2


def test_scoring_again_gives_equal_numbers(out, cocoa):
    before = (out / "scores.jsonl").read_text().splitlines()
    generations = (out / "generations.jsonl").read_bytes()
    result = cocoa(
        "evaluate", "testbed", "--out", out, "--limit", 12, "--num-resamples", 50, "--rescore"
    )
    assert result.exit_code == 0, result.output
    assert (out / "generations.jsonl").read_bytes() == generations
    after = (out / "scores.jsonl").read_text().splitlines()
    for old_line, new_line in zip(before, after, strict=True):
        old, new = json.loads(old_line), json.loads(new_line)
        assert (old["id"], old["text"], old["sample"]) == (new["id"], new["text"], new["sample"])
        # The padding of a batch changes the last digits of a pair's score.
        again = {name: new["scores"][name] for name in old["scores"]}  # all that can be, are
        assert again == pytest.approx(old["scores"], abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (["nosuch"], 1, "nosuch"),
        (["testbed", "--estimators", "sp,nosuch"], 2, "nosuch"),
        (["testbed", "--answers", "given"], 2, "given"),
        (["testbed", "--quality", "nosuch"], 2, "nosuch"),
        (["testbed", "--quality", "judge"], 2, "--judge-url"),
        (["testbed", "--rescore"], 1, "no generations"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_run_ends_with_its_reason(cocoa, tmp_path, arguments, code, named):
    result = cocoa("evaluate", *arguments, "--out", tmp_path / "out")
    assert result.exit_code == code
    assert named in result.stderr
    assert "Traceback" not in result.stderr


class Judge(BaseHTTPRequestHandler):
    """An OpenAI-compatible server that calls every answer with a vowel right."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = body["messages"][1]["content"].split("Generated: ")[1].split("\n")[0]
        content = "1" if set("aeiou") & set(answer) else "0"
        message = {"role": "assistant", "content": content}
        reply = json.dumps({"choices": [{"message": message}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *arguments):
        pass


def test_a_judge_behind_a_server_is_the_quality(out, cocoa):
    with ThreadingHTTPServer(("127.0.0.1", 0), Judge) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        options = ["--limit", 12, "--num-resamples", 50, "--rescore", "--quality", "judge"]
        judge = ["--judge-url", url, "--judge-model", "m", "--judge-key", "top-secret"]
        result = cocoa("evaluate", "testbed", "--out", out, *options, *judge)
        server.shutdown()

    assert result.exit_code == 0, result.output
    results = json.loads((out / "results.json").read_text())
    assert {task["quality"] for task in results["tasks"]} == {"judge"}
    assert "top-secret" not in (out / "report.md").read_text()
