"""Logs: one JSON object a line with the request's id, exceptions by type and place only."""

import asyncio
import io
import json
import logging
import sys
import threading
import warnings
from datetime import UTC, datetime

import pytest

from app.http.logs import JsonFormatter, TextFormatter, current_request_id
from tests.log_lines import logged

SECRET = "sesame"


@pytest.fixture
def logger():
    return logging.getLogger("app.test")


@pytest.fixture(params=["json", "text"])
def log_format(request):
    return request.param


@pytest.fixture
def lines(log_format):
    """Lines that the process would write to stderr."""
    with logged("info", log_format) as lines_so_far:
        yield lines_so_far


def record(message="ready", *args, name="app.test", exc_info=None, **extra):
    made = logging.getLogger().makeRecord(
        name, logging.INFO, "f.py", 1, message, args, exc_info, extra=extra
    )
    made.created = 0.25
    return made


def entry(*args, **kwargs):
    return json.loads(JsonFormatter().format(record(*args, **kwargs)))


def failure(depth=0):
    """An exception with a cause, both of which quote what they must not."""
    try:
        try:
            if depth:
                raise failure(depth - 1)
            json.loads(SECRET)
        except ValueError as error:
            raise RuntimeError(SECRET) from error
    except RuntimeError as error:
        return error


def test_a_line_is_one_json_object_with_time_level_logger_and_message():
    assert entry("ready: %s", "embedded") == {
        "time": "1970-01-01T00:00:00.250+00:00",
        "level": "info",
        "logger": "app.test",
        "message": "ready: embedded",
    }


@pytest.mark.parametrize("message", ["two\nlines", 'a "quote"', "\x00\x1b[31m", "日本"])
def test_any_message_stays_one_line(message):
    line = JsonFormatter().format(record(message))
    assert line.isprintable()
    assert json.loads(line)["message"] == message


def test_a_lone_surrogate_is_escaped():
    assert entry("\ud800 alone")["message"] == r"\ud800 alone"


def test_exceptions_stand_outermost_first_each_with_its_innermost_place_last():
    error = failure()
    exceptions = entry(exc_info=(type(error), error, error.__traceback__))["exceptions"]
    assert [exception["type"] for exception in exceptions] == ["RuntimeError", "JSONDecodeError"]
    assert exceptions[1]["at"][-1].startswith("json/decoder.py:")


def test_a_text_line_reads_from_left_to_right():
    line = TextFormatter().format(record("request", route="/score", status=200, seconds=0.5))
    assert (
        line
        == "1970-01-01T00:00:00.250+00:00 info app.test request route=/score status=200 seconds=0.5"
    )


@pytest.mark.parametrize("log_format", ["json"], indirect=True)
def test_the_request_id_goes_with_tasks_and_threads_of_its_request_only(lines, logger):
    async def request(request_id):
        current_request_id.set(request_id)
        await asyncio.create_task(asyncio.sleep(0))
        await asyncio.to_thread(logger.info, "deep")

    async def two_requests():
        await asyncio.gather(asyncio.create_task(request("a")), asyncio.create_task(request("b")))
        logger.info("outside")

    asyncio.run(two_requests())
    told = [json.loads(line) for line in lines()]
    assert sorted(line["request_id"] for line in told if line["message"] == "deep") == ["a", "b"]
    assert "request_id" not in told[-1]


def test_what_nobody_retrieved_from_a_task_is_not_quoted(lines):
    async def forgotten():
        raise RuntimeError(SECRET)

    async def main():
        task = asyncio.create_task(forgotten())
        await asyncio.wait([task])
        del task

    asyncio.run(main())
    written = "\n".join(lines())
    assert "Task exception was never retrieved" in written
    assert "RuntimeError" in written
    assert SECRET not in written


@pytest.mark.filterwarnings("always")
def test_warnings_and_other_libraries_write_the_same_format():
    with logged() as lines:
        warnings.warn("deprecated", stacklevel=1)
        logging.getLogger("uvicorn.error").info("Started")
        logging.getLogger("sentence_transformers").info("chatter")
    told = [json.loads(line) for line in lines()]
    assert [line["logger"] for line in told] == ["py.warnings", "uvicorn.error"]
    assert (datetime.now(UTC) - datetime.fromisoformat(told[0]["time"])).total_seconds() < 600


@pytest.fixture
def library():
    """A library that has its lines printed plainly, as transformers and huggingface_hub have."""
    made = []

    def set_up(name):
        library = logging.getLogger(name)
        library.addHandler(logging.StreamHandler())
        library.propagate = False
        made.append(name)
        return library

    yield set_up
    for name in made:
        del logging.Logger.manager.loggerDict[name]


def test_a_library_with_a_handler_of_its_own_writes_once_and_in_our_format(library, capfd):
    with logged() as lines:
        library("some_library").warning("cannot reach the hub")
    (line,) = map(json.loads, lines())
    assert (line["logger"], line["message"]) == ("some_library", "cannot reach the hub")
    assert capfd.readouterr().err == ""


def fail():
    raise RuntimeError(SECRET)


def in_a_thread():
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()


def in_the_main_thread():
    try:
        fail()
    except RuntimeError as error:
        sys.excepthook(type(error), error, error.__traceback__)


class FailsAtItsEnd:
    def __del__(self):
        fail()


@pytest.mark.parametrize("happens", [in_a_thread, in_the_main_thread, FailsAtItsEnd])
def test_an_exception_that_nobody_caught_is_a_line_with_type_and_place(happens, capfd):
    with logged() as lines:
        happens()
        (line,) = map(json.loads, lines())
    assert line["message"] == "nobody caught an exception"
    assert [error["type"] for error in line["exceptions"]] == ["RuntimeError"]
    assert SECRET not in str(line)
    assert capfd.readouterr().err == ""


def test_what_is_printed_to_stderr_is_a_line_of_json():
    with logged() as lines:
        print("42% done", file=sys.stderr)
        (line,) = map(json.loads, lines())
    assert (line["logger"], line["message"]) == ("stderr", "42% done")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "log_format", "is_json"),
    [
        (Terminal, "auto", False),
        (Terminal, "json", True),
        (io.StringIO, "auto", True),
        (io.StringIO, "text", False),
    ],
)
def test_logs_are_text_on_a_terminal_and_json_elsewhere_unless_one_is_asked_for(
    stream, log_format, is_json
):
    with logged(log_format=log_format, stream=stream()) as lines:
        logging.getLogger("app.test").info("ready")
        (line,) = lines()
    assert line.startswith("{") == is_json


def test_below_its_level_nothing_is_written(lines, logger):
    logger.debug(SECRET)
    assert lines() == []
