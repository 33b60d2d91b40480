"""Programs of answers: how they are found, what holds them, and what is told where nothing does."""

import json
import socket
import subprocess
import sys
from dataclasses import replace

import pytest

from cocoa_lab import boxed, programs
from cocoa_lab.atlas.functions import examples
from cocoa_lab.programs import check_held, checks_of, passes, program_of, results

DOUBLE = "def double(n):\n    return 2 * n"


def doubles(**changes):
    tests = {"function": "double", "tests": [[[2], 4], [[0], 0]]} | changes
    return replace(examples()[0], context=json.dumps(tests))


def returned(*lines):
    """What a function of these lines returns."""
    found = results("\n    ".join(["def f():", *lines]), "f", "[[]]")
    return found and found[0]


@pytest.mark.parametrize(
    ("output", "is_right"),
    [
        pytest.param(DOUBLE, True, id="bare"),
        pytest.param(f"Here it is:\n\n{DOUBLE}\n\nIt doubles n.", True, id="bare in prose"),
        pytest.param(f"import math\n\n{DOUBLE}", True, id="import"),
        pytest.param(f"Sure!\n```python\n{DOUBLE}\n```\nIt doubles.", True, id="fenced"),
        pytest.param(f"```\nprint(1)\n```\n```py\n{DOUBLE}\n```", True, id="second block"),
        pytest.param(f"```python\n{DOUBLE}\nprint(double(3))\n", True, id="not closed"),
        pytest.param(
            "- so:\n  ```\n  def double(n):\n    return n * 2\n  ```", True, id="indented"
        ),
        pytest.param(DOUBLE.replace("2", "3"), False, id="wrong"),
        pytest.param(DOUBLE.replace("double", "twice"), False, id="another name"),
        pytest.param("```\nprint(double(1))\n```", False, id="no function"),
        pytest.param("It doubles n.", False, id="no code"),
        pytest.param(f"{DOUBLE} +", False, id="no Python"),
        pytest.param("", False, id="nothing"),
    ],
)
def test_the_function_is_found_in_an_answer_and_run(output, is_right):
    assert passes(output, doubles()) == is_right


@pytest.mark.parametrize("context", [None, "Lima", "[]", '{"function": "f"}'])
def test_an_example_without_tests_has_none(context):
    assert checks_of(replace(examples()[0], context=context)) is None


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(["while True: pass"], id="computes for ever"),
        pytest.param(["return len([0] * 10**9)"], id="takes memory"),
        pytest.param(["return f()"], id="calls itself"),
        pytest.param(["import os", "os.abort()"], id="crashes"),
        pytest.param(["raise SystemExit(0)"], id="exits"),
        pytest.param(["import os", "os._exit(0)"], id="ends"),
        pytest.param(["import os", "os.write(1, b'[[1]]' * 10**6)", "return 1"], id="floods"),
        pytest.param(["return 'x' * 10**7"], id="returns too much"),
        pytest.param(["x = []", "for _ in range(10**5): x = [x]", "return x"], id="nests"),
        pytest.param(["return {1, 2}"], id="returns no JSON"),
        pytest.param(["return input()"], id="reads"),
        pytest.param(["import os", "return os.fork()"], id="forks"),
        pytest.param(["import subprocess", "return 1"], id="imports what is not there"),
        pytest.param(["import os", "os.kill(os.getpid(), 0)", "return 1"], id="signals"),
        pytest.param(["import resource as r", "r.setrlimit(7, (9, 9))", "return 1"], id="limits"),
        pytest.param(["#" * programs._MAX_PROGRAM, "return 1"], id="is too long"),
    ],
)
def test_a_program_that_does_what_it_is_not_to_do_is_wrong(lines):
    assert returned(*lines) is None
    assert returned("return 1") == 1


def test_a_program_that_waits_is_ended_by_the_clock(monkeypatch):
    monkeypatch.setattr(programs, "_SECONDS", 1)
    assert (
        returned("from _thread import allocate_lock as new", "a = new()", *["a.acquire()"] * 2)
        is None
    )


def test_what_a_program_prints_is_not_kept():
    assert returned("for _ in range(1000): print('x' * 1000)", "return 1") == 1


def test_a_program_changes_no_file(tmp_path):
    path = tmp_path / "kept"
    path.write_text("text")
    assert returned(f"open({str(tmp_path / 'new')!r}, 'w').write('x')") is None
    assert returned("import os", f"os.remove({str(path)!r})") is None
    assert [one.name for one in tmp_path.iterdir()] == ["kept"]


def test_a_program_reaches_no_network_and_no_environment(monkeypatch):
    monkeypatch.setenv("A_KEY", "secret")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        line = f"_socket.socket().connect(('127.0.0.1', {port}))"
        assert returned("import _socket", line, "return 1") is None
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert returned("import os", "return 'A_KEY' in os.environ") is False


@pytest.mark.parametrize(
    "line",
    [
        "open(os.devnull)",
        "_socket.socket()",
        "os.fork() or os._exit(0)",
        f"bytearray({boxed.MEMORY})",
        "resource.setrlimit(resource.RLIMIT_NOFILE, (9, 9))",
    ],
)
def test_the_limits_hold_without_the_hook(line):
    before = "import os, resource, _socket; from cocoa_lab import boxed; boxed._audit = print;"
    code = f"{before} boxed._give_up(); os.write(1, b'begins'); {line}; os.write(1, b'goes on')"
    path = f"import sys; sys.path[:0] = {sys.path!r}; "
    ran = subprocess.run([sys.executable, "-c", path + code], capture_output=True, check=False)
    assert b"begins" in ran.stdout
    assert b"goes on" not in ran.stdout


def test_sets_have_one_order_and_an_equal_program_is_run_once(monkeypatch):
    lines = ["return list({'a', 'b', 'c', 'd', 'e', 'f', 'g'})"]
    first = returned(*lines)
    results.cache_clear()
    assert returned(*lines) == first
    monkeypatch.setattr(programs, "_written", None)
    assert returned(*lines) == first


def test_where_programs_cannot_be_held_none_is_run(monkeypatch):
    check_held.cache_clear()
    check_held()
    monkeypatch.setattr(programs, "_TRIALS", {"counts": "1 + 1"})
    with pytest.raises(ValueError, match="not judged here: a child counts, which it is not to do"):
        check_held.__wrapped__()
    results.cache_clear()
    monkeypatch.setattr(programs, "_written", lambda job: b"")
    with pytest.raises(ValueError, match="cannot be judged here: a child process can run none"):
        check_held.__wrapped__()
    results.cache_clear()


def test_the_code_of_a_block_is_taken_without_its_fence():
    assert program_of(f"```python\n{DOUBLE}\n```", "double") == f"{DOUBLE}\n"
