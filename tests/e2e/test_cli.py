"""The `cocoa` command: help, refused settings, and one question from prompt to printed scores."""

import json
import os
import socket
import subprocess
import sys
import threading
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import app
from app.http.schemas import GenerateResponse
from app.scoring.defaults import DEFAULT_ESTIMATORS

FAKE = {"COCOA_GENERATION__ENGINE": "fake", "COCOA_SIMILARITY__NAME": "fake"}
# No service is at this port, which `cocoa ask` would ask.
COLUMNS = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "COCOA_PORT": "9"}


@pytest.fixture
def cocoa(monkeypatch):
    """Run `cocoa` with these arguments and exactly these COCOA_ variables."""
    for name in [name for name in os.environ if name.upper().startswith("COCOA_")]:
        monkeypatch.delenv(name)

    def run(*arguments, **environment):
        return CliRunner().invoke(app, arguments, env=COLUMNS | environment)

    return run


def test_the_installed_command_prints_its_help():
    command = [Path(sys.executable).parent / "cocoa", "--help"]
    environment = os.environ | COLUMNS
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert "serve" in result.stdout
    assert "ask" in result.stdout


@pytest.mark.parametrize("command", ["serve", "ask"])
def test_each_command_has_a_help_that_names_its_options(cocoa, command):
    result = cocoa(command, "--help")
    assert result.exit_code == 0
    assert {"serve": "--port", "ask": "--num-samples"}[command] in result.output


def test_the_version_is_that_of_the_package(cocoa):
    result = cocoa("--version")
    assert (result.exit_code, result.output.strip()) == (0, version("cocoa-serve"))


def test_a_taken_port_is_told_before_any_model_is_loaded():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        # A model that nobody has: to load it would be another error.
        environment = os.environ | {"COCOA_GENERATION__MODEL": "no/such-model"}
        command = [Path(sys.executable).parent / "cocoa", "serve", "--port", port]
        result = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
    [line] = result.stderr.splitlines()
    assert result.returncode == 1
    assert json.loads(line)["message"].startswith(f"cannot listen on 127.0.0.1:{port}: ")


def test_without_a_command_the_help_is_shown(cocoa):
    assert "Usage" in cocoa().output


@pytest.mark.parametrize(
    ("variable", "value", "named"),
    [
        ("COCOA_PORT", "http", "COCOA_PORT: "),
        ("COCOA_GENERATION__MAX_ROWS", "0", "COCOA_GENERATION__MAX_ROWS: "),
        ("COCOA_GENERATION__MODELS", "x", "did you mean COCOA_GENERATION__MODEL?"),
        ("COCOA_PROT", "1", "COCOA_PROT is no setting; did you mean COCOA_PORT?"),
    ],
)
@pytest.mark.parametrize("command", [["serve"], ["ask", "a"]], ids=["serve", "ask"])
def test_invalid_settings_end_with_2_and_their_name(cocoa, command, variable, value, named):
    result = cocoa(*command, **FAKE | {variable: value})
    assert result.exit_code == 2
    assert named in result.stderr
    assert "Traceback" not in result.stderr
    assert "pydantic" not in result.stderr


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"GENERATION__URL": "localhost:8001"}, "must begin with http:// or https://"),
        (
            {"GENERATION__URL": "http://a", "GENERATION__DTYPE": "float32"},
            "COCOA_GENERATION__DTYPE is for the process that loads the model",
        ),
        (
            {"GENERATION__URL": "http://a", "PROBES__INCONSISTENCY": "/x"},
            "COCOA_PROBES__INCONSISTENCY is for",
        ),
        ({"SIMILARITY__URL": "http://a", "NLI__MODEL": "org/nli"}, "COCOA_NLI__MODEL is for"),
        (
            {"GENERATION__ENGINE": "fake", "GENERATION__API_KEY": "geheim"},
            "COCOA_GENERATION__API_KEY is heeded with COCOA_GENERATION__URL only",
        ),
        (
            {"GENERATION__URL": "https://a", "GENERATION__TLS_CA_FILE": "/no/where"},
            "COCOA_GENERATION__TLS_CA_FILE",
        ),
    ],
    ids=["no scheme", "dtype", "probe", "nli", "key without url", "no such file"],
)
def test_settings_that_nobody_would_heed_end_a_command_with_2(cocoa, environment, message, caplog):
    named = {f"COCOA_{name}": value for name, value in environment.items()}
    result = cocoa("ask", "a", COCOA_SIMILARITY__NAME="cross_encoder", **named)
    assert (result.exit_code, message in caplog.text) == (2, True)
    assert "geheim" not in result.output + caplog.text


def test_ask_prints_the_answer_its_uncertainty_every_score_and_the_samples(cocoa):
    options = ["--seed", "6", "--num-samples", "10"]
    result = cocoa("ask", "What is the capital of France?", *options, **FAKE)
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[0] == "answer The capital is Paris."
    assert lines[1].endswith(" nats, CoCoA (default) (rb_cocoa_root_sp)")
    for name in DEFAULT_ESTIMATORS:
        assert any(f"│ {name} " in line for line in lines), name
    assert "6 distinct texts" in result.stdout
    assert "(empty)" in result.stdout
    assert "seed 6" in result.stdout


def test_ask_prints_json_that_is_the_http_response(cocoa):
    options = ["--json", "--seed", "2", "--num-samples", "4"]
    result = cocoa("ask", "What is the capital of France?", *options, **FAKE)
    assert result.exit_code == 0, result.output
    response = GenerateResponse.model_validate(json.loads(result.stdout))
    assert response.text == " The capital is Paris."
    assert (response.provenance.seed, response.provenance.num_samples) == (2, 4)
    assert len(response.samples) == 4
    assert response.uncertainty == response.scores["rb_cocoa_root_sp"]


def test_ask_shows_text_as_it_is_and_no_markup_in_it(cocoa, monkeypatch):
    monkeypatch.setattr("tests.fakes.engine._ANSWERS", (" [bold]Paris[/bold]",) * 6)
    result = cocoa("ask", "Where?", **FAKE)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("[bold]Paris[/bold]") == 2


def test_ask_shows_warnings(cocoa):
    result = cocoa("ask", "What is the capital of France?", "--max-new-tokens", "1", **FAKE)
    assert result.exit_code == 0, result.output
    assert "answer_truncated" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["a", "--max-new-tokens", "8192"], "prompt_too_long: ", id="too long"),
        pytest.param(["", "--json"], "invalid_request: ", id="an empty prompt"),
    ],
)
def test_an_error_ends_with_1_and_its_message(cocoa, arguments, message):
    result = cocoa("ask", *arguments, **FAKE)
    assert result.exit_code == 1
    assert result.stderr.startswith(message)
    assert "(field " in result.stderr
    assert result.stdout == ""


def test_a_number_out_of_an_options_range_ends_with_2(cocoa):
    result = cocoa("ask", "a", "--num-samples", "65", **FAKE)
    assert result.exit_code == 2
    assert "--num-samples" in result.stderr


def test_bytes_that_are_no_text_are_refused_in_words(cocoa):
    result = cocoa("ask", "Hi \udcff", **FAKE)
    assert result.exit_code == 1
    assert "invalid_request" in result.stderr


def test_a_service_that_cannot_be_reached_ends_with_1_and_its_message(cocoa):
    result = cocoa("ask", "a", "--url", "http://127.0.0.1:9")
    assert result.exit_code == 1
    assert "http://127.0.0.1:9" in result.stderr
    assert isinstance(result.exception, SystemExit), "a message, no traceback"


def in_a_process(*arguments, **environment):
    command = [sys.executable, "-m", "tests.fakes.cocoa", *arguments]
    known = {name: value for name, value in os.environ.items() if not name.startswith("COCOA_")}
    return subprocess.run(
        command,
        env=known | COLUMNS | environment,
        capture_output=True,
        text=True,
        timeout=80,
        check=False,
    )


@pytest.mark.parametrize(
    "arguments", [("ask", "Hi"), ("evaluate", "testbed")], ids=["ask", "evaluate"]
)
def test_a_model_that_is_not_there_ends_a_command_with_2_and_one_line(arguments, tmp_path):
    out = () if "ask" in arguments else ("--out", str(tmp_path), "--limit", "1")
    result = in_a_process(*arguments, *out, COCOA_GENERATION__MODEL="/no/such-model")

    [*_, line] = result.stderr.splitlines()
    assert (result.returncode, "Traceback" in result.stderr) == (2, False)
    assert line.endswith(
        "COCOA_GENERATION__MODEL=such-model: no such folder: /no/such-model; "
        "name one that holds a checkpoint, or a hub id"
    )


def test_a_hub_that_says_nothing_is_told_in_one_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hub = f"http://127.0.0.1:{silent.getsockname()[1]}"
        result = in_a_process(
            "ask",
            "Hi",
            COCOA_GENERATION__MODEL="org/none",
            HF_ENDPOINT=hub,
            HF_HOME=str(tmp_path),
            HF_HUB_OFFLINE="0",
        )
    [line] = result.stderr.splitlines()
    assert result.returncode == 2
    assert "COCOA_GENERATION__MODEL=org/none: the hub cannot be reached (ReadTimeout)" in line


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n<html>", "(200, text/html)"),
        (b"HTTP/1.0 404 no\r\nContent-Type: application/json\r\n\r\n{}", "(404, application/json)"),
        (b"no HTTP", "Server disconnected"),
        (None, "All connection attempts failed"),
    ],
    ids=["HTML", "other JSON", "no HTTP", "nobody"],
)
def test_another_server_at_the_url_is_one_line(cocoa, content, part):
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        if content is None:
            server.close()
        else:
            threading.Thread(target=answer_once, args=(server, content)).start()
        result = cocoa("ask", "Hi", "--url", url)

    [line] = result.stderr.splitlines()
    assert result.exit_code == 1
    assert line.startswith(f"{url}: ")
    assert part in line


def answer_once(server, content):
    connection, _ = server.accept()
    with connection:
        connection.recv(65_536)
        connection.sendall(content)
        # A socket that is closed with bytes unread resets the connection, and its reply with it.
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65_536):
            pass


def test_a_url_that_is_none_is_said(cocoa):
    result = cocoa("ask", "Hi", "--url", "nonsense")
    assert result.exit_code == 2
    assert "should be a URL" in result.stderr


CHAT = '[{"role": "user", "content": "Hi"}]'


@pytest.mark.parametrize("as_file", [False, True], ids=["JSON", "a file"])
def test_ask_takes_a_chat_and_estimators(cocoa, tmp_path, as_file):
    chat = CHAT
    if as_file:
        chat = str(tmp_path / "chat.json")
        Path(chat).write_text(CHAT)
    options = ["--estimator", "ppl", "--estimator", "sp", "--json"]
    result = cocoa("ask", "--messages", chat, *options, **FAKE)

    response = GenerateResponse.model_validate(json.loads(result.stdout))
    assert (response.estimator, list(response.scores)) == ("ppl", ["ppl", "sp"])


@pytest.mark.parametrize("chat", ["[{", "nosuch.json"])
def test_ask_refuses_messages_that_are_no_json(cocoa, chat):
    result = cocoa("ask", "--messages", chat, **FAKE)
    assert (result.exit_code, "--messages" in result.stderr) == (2, True)


def test_ask_asks_in_light_mode_and_says_where_no_probe_is(cocoa):
    result = cocoa("ask", "Hi", "--mode", "light", **FAKE)
    assert (result.exit_code, result.stderr.partition(":")[0]) == (1, "probe_missing")
