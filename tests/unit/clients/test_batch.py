"""A batch against a service that is busy, away, late or strange."""

import errno
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from cocoa_client import batch as command

CLIENT = Path(__file__).parents[3] / "clients" / "python"
NUM_LINES = 20


@dataclass
class Ended:
    exit_code: int
    stderr: str


@pytest.fixture
def batch(monkeypatch, tmp_path, capsys):
    """Run the command over twenty lines, each of them answered by `respond(prompt, attempt)`."""
    given, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    lines = []
    for number in range(NUM_LINES):
        body = {"prompt": str(number)}
        lines.append({"custom_id": f"q{number}", "url": "/score", "body": body})
    given.write_text("\n".join(map(json.dumps, lines)))
    monkeypatch.setattr(command, "_FIRST_WAIT_S", 0.001)
    attempts = Counter()

    def run(respond, *options, whole=True):
        def handle(request):
            assert request.headers["priority"] == "u=7"
            prompt = json.loads(request.content)["prompt"]
            attempts[prompt] += 1
            return respond(prompt, attempts[prompt])

        def client_of(url, key, concurrency):
            return httpx.AsyncClient(transport=httpx.MockTransport(handle), base_url=url)

        monkeypatch.setattr(command, "_client_of", client_of)
        status = command.main(["-i", str(given), "-o", str(out), *options])
        result = Ended(status, capsys.readouterr().err)
        answers = {}
        written = out.read_text().splitlines()
        for line in written if whole else written[:-1]:
            answer = json.loads(line)
            assert answer["custom_id"] not in answers
            answers[answer["custom_id"]] = answer
        return result, answers

    run.attempts = attempts
    return run


def good(prompt, attempt):
    return httpx.Response(200, json={"text": prompt}, headers={"x-request-id": "r"})


def test_each_line_has_its_own_answer(batch):
    result, answers = batch(good)
    assert (result.exit_code, result.stderr) == (0, "20 lines: 20 answered\n")
    for number in range(NUM_LINES):
        response = {"status_code": 200, "request_id": "r", "body": {"text": str(number)}}
        assert answers[f"q{number}"]["response"] == response


@pytest.mark.parametrize("trouble", [429, 502, 503, 504, "away"])
def test_what_is_the_services_trouble_is_asked_again(batch, trouble):
    def respond(prompt, attempt):
        if attempt < 3 and trouble == "away":
            raise httpx.ConnectError("refused")
        if attempt < 3:
            return httpx.Response(trouble, headers={"retry-after": "0"})
        return good(prompt, attempt)

    result, answers = batch(respond)
    assert (result.exit_code, len(answers)) == (0, NUM_LINES)
    assert set(batch.attempts.values()) == {3}


def test_a_line_that_is_always_late_has_that_answer_after_three_attempts(batch):
    def respond(prompt, attempt):
        if prompt == "7":
            return httpx.Response(504, json={"error": {"code": "deadline_exceeded"}})
        return good(prompt, attempt)

    result, answers = batch(respond)
    told = "20 lines: 19 answered, 1 refused\n1 have an error in out.jsonl\n"
    assert (result.exit_code, result.stderr) == (3, told)
    assert answers["q7"]["response"]["status_code"] == 504
    assert batch.attempts["7"] == 3


def test_a_refused_line_is_not_asked_again(batch):
    result, answers = batch(lambda prompt, attempt: httpx.Response(422, json={"error": {}}))
    assert result.exit_code == 3
    assert set(batch.attempts.values()) == {1}
    assert answers["q3"]["response"]["body"] == {"error": {}}

    result, _ = batch(good)
    told = "20 lines: 20 before\n20 have an error in out.jsonl\n"
    assert (result.exit_code, result.stderr) == (3, told)


def test_a_model_that_is_not_served_is_the_lines_own_trouble(batch):
    body = {"error": {"code": "model_not_found"}}
    result, answers = batch(lambda prompt, attempt: httpx.Response(404, json=body))
    assert (result.exit_code, len(answers)) == (3, NUM_LINES)


def test_a_response_that_is_no_json_is_told(batch):
    result, answers = batch(lambda prompt, attempt: httpx.Response(200, text="<html>"))
    told = "20 lines: 20 not understood\n20 have an error in out.jsonl\n"
    assert (result.exit_code, result.stderr) == (3, told)
    assert answers["q0"]["response"] is None
    assert answers["q0"]["error"]["code"] == "unexpected_response"


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (401, "the service does not know this key"),
        (404, "/score is not served at this URL"),
        (503, "no answer for 0 s (status 503)"),
    ],
)
def test_lines_that_nobody_answers_are_left_and_asked_by_the_next_run(batch, trouble, reason):
    def respond(prompt, attempt):
        if attempt == 1 and int(prompt) >= 12:
            return httpx.Response(trouble)
        return good(prompt, attempt)

    options = ("--patience-s", "0", "--concurrency", "1")
    result, answers = batch(respond, *options)
    left = "8 lines are left: run the same command to go on"
    assert (result.exit_code, result.stderr) == (1, f"{reason}; {left}\n")
    assert len(answers) == 12

    result, answers = batch(good, *options)
    assert (result.exit_code, len(answers)) == (0, NUM_LINES)
    assert result.stderr == "20 lines: 8 answered, 12 before\n"
    assert batch.attempts["0"] == 1


def test_a_disk_that_is_full_is_named_with_what_is_left(batch, monkeypatch):
    """Its last write fits in part, as the last one of a full disk does."""
    room, write = [4000], os.write

    def write_what_fits(file, content):
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        num = write(file, content[: room[0]])
        room[0] -= num
        return num

    def long(prompt, attempt):
        return httpx.Response(200, json={"text": prompt * 500})

    monkeypatch.setattr(os, "write", write_what_fits)
    result, answers = batch(long, "--concurrency", "1", whole=False)
    num_left = NUM_LINES - len(answers)
    reason = "out.jsonl cannot be written: No space left on device"
    left = f"{num_left} lines are left: run the same command to go on"
    assert (result.exit_code, result.stderr) == (1, f"{reason}; {left}\n")
    assert 0 < num_left < NUM_LINES

    room[0] = 10**6
    result, answers = batch(long)
    assert (result.exit_code, len(answers)) == (0, NUM_LINES)


def test_another_input_is_not_mixed_in(batch, tmp_path):
    batch(good)
    given = tmp_path / "in.jsonl"
    given.write_text(given.read_text().replace("q4", "z4"))
    result, _ = batch(good)
    assert result.exit_code == 2
    assert result.stderr.startswith("line 5 was another one when out.jsonl was begun")


REFUSED = {
    "a URL without a scheme": (["--url", "localhost:8000"], "url must begin with http://"),
    "no URL": (["--url", "http://[::1"], "--url"),
    "no requests at once": (["--concurrency", "0"], "should be from 1 to 256"),
    "a key of other letters": (["--key", "schlüssel"], "has characters that no key has"),
}


@pytest.mark.parametrize(("options", "reason"), REFUSED.values(), ids=list(REFUSED))
def test_an_option_that_cannot_be_is_refused_before_any_line(batch, capsys, options, reason):
    with pytest.raises(SystemExit) as ended:
        batch(good, *options)
    assert ended.value.code == 2
    assert reason in capsys.readouterr().err
    assert not batch.attempts


def test_the_command_imports_nothing_of_the_service():
    program = (
        "import sys, cocoa_client.batch; print(*{name.partition('.')[0] for name in sys.modules})"
    )
    environment = {"PYTHONPATH": str(CLIENT)}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    own = {"app", "models", "workers", "cocoa_lab", "numpy", "orjson", "torch", "typer"}
    assert "httpx" in ran.stdout
    assert own.isdisjoint(ran.stdout.split())


def test_files_that_are_not_there_are_named(tmp_path, capsys):
    files = ["-i", str(tmp_path / "none.jsonl"), "-o", str(tmp_path / "out.jsonl")]
    assert command.main(files) == 2
    assert "none.jsonl" in capsys.readouterr().err


def test_on_a_terminal_a_line_counts(batch, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    result, _ = batch(good)
    assert "\rin.jsonl: answered 1 of 20\rin.jsonl: answered 2 of 20" in result.stderr
    assert result.stderr.endswith("\rin.jsonl: answered 20 of 20\n20 lines: 20 answered\n")
