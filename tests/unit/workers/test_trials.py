"""Grammars are tried out where a crash and a loop cost nobody anything."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

import pytest

from models.errors import EngineError, NotReady
from models.grammar import trial
from models.grammar.following import Grammars
from models.grammar.matchers import source_of
from models.grammar.rules import BROKEN, TOO_LARGE, TOO_LONG
from tests.conftest import until
from tests.tiny_models import byte_tokenizer
from workers import trials
from workers.trials import Trials, Verdict

pytestmark = pytest.mark.anyio


@pytest.fixture
def use_uvloop():
    return False


@pytest.fixture
def anyio_backend(use_uvloop):
    return "asyncio", {"use_uvloop": use_uvloop}


def source(schema):
    """Of a schema as a stranger sends it, without what `grammar_of` would refuse of it."""
    return source_of("json_schema", json.dumps(schema))


# A compiler that hangs, crashes or takes a while where it reads so of a constant.
STAND_IN = """
import os, re, signal, socket, sys, time
import models.grammar.trial as trial

own = trial.matcher_of

def matcher_of(tokenizer, source, max_lexer_states):
    if "crash" in source:
        os.kill(os.getpid(), getattr(signal, re.search("SIG[A-Z]+", source)[0]))
    while "hang" in source or ("slow" in source and time.process_time() < 0.15):
        pass
    return own(tokenizer, source, max_lexer_states)

trial.matcher_of = matcher_of
trial.Trials(socket.socket(fileno=int(sys.argv[1]))).run()
"""


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    monkeypatch.setattr(trials, "_COMMAND", (sys.executable, "-c", STAND_IN))


def hanging(number):
    return source({"const": f"hang {number}"})


ENDLESS = hanging(0)


@asynccontextmanager
async def trying(caller=str):
    grammars = Grammars(byte_tokenizer(), frozenset({1}), 259)
    running = Trials(grammars.vocabulary, caller)
    try:
        yield running
    finally:
        running.close()


def processes():
    """Those that try grammars now."""
    found = []
    for pid in children_of(os.getpid()):
        if b"models.grammar.trial" in Path(f"/proc/{pid}/cmdline").read_bytes():
            found.append(pid)
    return found


def children_of(pid):
    with suppress(OSError), open(f"/proc/{pid}/task/{pid}/children") as file:
        return list(map(int, file.read().split()))
    return []


async def test_what_texts_can_follow_passes_and_a_fault_is_named():
    async with trying() as running:
        assert await running.check(source({"type": "integer"})) == Verdict()
        faulty = source({"properties": {"a": {"items": {"pattern": "("}}}})
        verdict = await running.check(faulty)
    told = "no answer can be held to it: a pattern cannot be read"
    assert verdict == Verdict(told)


@pytest.mark.parametrize("fault", ["SIGSEGV", "SIGFPE", "SIGBUS", "SIGILL"])
async def test_what_crashes_the_compiler_is_refused_and_the_process_lives(fault):
    async with trying() as running:
        crashing = source({"const": f"crash by {fault}"})
        assert (await running.check(crashing)).refusal.endswith(f": {BROKEN}")
        before = processes()
        assert await running.check(source({"type": "null"})) == Verdict()
        assert processes() == before


async def test_what_takes_long_is_given_up_and_what_does_not_waits_for_none_of_it():
    async with trying() as running:
        endless = [asyncio.create_task(running.check(hanging(i))) for i in range(3)]
        assert await running.check(source({"type": "integer"})) == Verdict()
        assert not any(one.done() for one in endless)
        for one in endless:
            assert (await one).refusal.endswith(f": {TOO_LONG}")


async def test_what_takes_a_while_passes_and_is_known_to_do_so():
    async with trying() as running:
        verdict = await running.check(source({"const": "slow"}))
        assert verdict == Verdict(is_quick=False)


HUNGRY = """
from models.grammar import trial
trial._limit(1.0)
kept = bytearray(trial._MEMORY // 2)
try:
    kept += bytearray(trial._MEMORY)
except MemoryError:
    print("ends")
"""


def test_a_trial_may_take_so_much_memory_and_what_takes_more_ends():
    told = subprocess.run(
        [sys.executable, "-c", HUNGRY], capture_output=True, text=True, check=True
    )
    assert told.stdout == "ends\n"
    assert trial._ENDED_BY[signal.SIGABRT] == TOO_LARGE  # by which Rust ends without memory


async def test_a_verdict_is_found_once_for_all_who_wait_and_then_remembered():
    async with trying() as running:
        first, second = await asyncio.gather(running.check(ENDLESS), running.check(ENDLESS))
        assert first is second
        os.kill(*processes(), signal.SIGSTOP)  # nobody could find another one
        assert await running.check(ENDLESS) is first


async def test_so_many_verdicts_are_remembered(monkeypatch):
    monkeypatch.setattr(trials, "_MAX_KNOWN", 2)
    async with trying() as running:
        for value in (1, 2, 1, 3):
            await running.check(source({"const": value}))
        os.kill(*processes(), signal.SIGKILL)
        await until(lambda: not processes())
        await running.check(source({"const": 1}))
        assert not processes()
        await running.check(source({"const": 2}))
        assert processes()


@pytest.mark.parametrize("whose", ["process", "child"])
async def test_who_waits_hears_nothing_of_a_process_that_is_killed(whose):
    async with trying() as running:
        await running.check(source({"type": "integer"}))
        [process] = processes()
        waiting = asyncio.create_task(running.check(ENDLESS))
        await until(lambda: children_of(process))
        victim = process if whose == "process" else children_of(process)[0]
        os.kill(victim, signal.SIGKILL)
        assert (await waiting).refusal.endswith(f": {TOO_LONG}")
        assert (processes() == [process]) == (whose == "child")


@pytest.mark.parametrize("use_uvloop", [True, False])
async def test_who_asks_in_the_moment_of_its_end_hears_nothing_of_it(anyio_backend):
    async with trying() as running:
        await running.check(source({"type": "integer"}))
        lost = running._process
        lost._writer.transport.abort()  # before whoever reads from it is told
        assert await running.check(source({"type": "null"})) == Verdict()
        assert lost.popen.returncode in (0, -signal.SIGKILL)  # whichever comes first


async def test_a_process_that_is_killed_time_and_again_is_an_error_that_may_pass():
    async with trying() as running:
        await running.check(source({"type": "integer"}))
        waiting = asyncio.create_task(running.check(ENDLESS))
        while not waiting.done():
            for process in processes():
                for child in children_of(process):
                    with suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)
            await asyncio.sleep(0.001)
        with pytest.raises(EngineError):
            await waiting
        assert (await running.check(ENDLESS)).refusal.endswith(f": {TOO_LONG}")


async def test_a_process_that_hangs_is_replaced(monkeypatch):
    async with trying() as running:
        await running.check(source({"type": "integer"}))
        [hanging] = processes()
        os.kill(hanging, signal.SIGSTOP)
        monkeypatch.setattr(trials, "_HANGS_AFTER_S", 3.0)
        assert await running.check(source({"type": "null"})) == Verdict()
        assert hanging not in processes()


async def test_who_leaves_frees_the_line_for_the_next_ones():
    async with trying() as running:
        leaving = [asyncio.create_task(running.check(hanging(i))) for i in range(9)]
        await asyncio.sleep(0)
        for one in leaving:
            one.cancel()
        assert (await running.check(ENDLESS)).refusal
        assert len(running._known) == 1


async def test_callers_take_turns():
    caller = ContextVar("caller", default="hostile")
    async with trying(caller.get) as running:
        await running.check(source({"type": "integer"}))
        many = [asyncio.create_task(running.check(source({"const": i}))) for i in range(40)]
        await asyncio.sleep(0)
        caller.set("other")
        assert await running.check(source({"type": "null"})) == Verdict()
        assert not all(one.done() for one in many)
        await asyncio.gather(*many)


async def test_closed_it_tries_nothing_and_its_process_is_gone():
    async with trying() as running:
        await running.check(source({"type": "integer"}))
        waiting = asyncio.create_task(running.check(ENDLESS))
        [process] = processes()
        await until(lambda: children_of(process))
        running.close()
        with pytest.raises(NotReady):
            await waiting
        assert not processes()
        with pytest.raises(NotReady):
            await running.check(source({"type": "null"}))


async def test_a_process_that_cannot_begin_is_told(monkeypatch, caplog):
    monkeypatch.setattr(trials, "_COMMAND", ("false",))
    async with trying() as running:
        with pytest.raises(EngineError):
            await running.check(source({"type": "integer"}))
    assert "the process that tries grammars ended with 1" in caplog.text
