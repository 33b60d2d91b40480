"""Lines on their way out: whoever logs does not wait, and what is lost is counted and told."""

import io
import logging
import sys
import threading

import pytest

from app.http.logs import LoggedStream, LogWriter

WITHIN_S = 30


class Stuck(io.StringIO):
    """Takes nothing until somebody reads."""

    def __init__(self):
        super().__init__()
        self.reading = threading.Event()
        self.in_write = threading.Event()

    def write(self, text):
        self.in_write.set()
        assert self.reading.wait(WITHIN_S)
        return super().write(text)


def record(message, *args):
    return logging.LogRecord("app.test", logging.INFO, "f.py", 1, message, args, None)


@pytest.fixture
def losses():
    return []


def writer_to(stream, losses, **options):
    writer = LogWriter(stream, **options)
    writer.on_lost = lambda: losses.append(1)
    return writer


def test_lines_are_written_in_their_order(losses):
    stream = io.StringIO()
    writer = writer_to(stream, losses)
    for number in range(100):
        writer.emit(record("line %d", number))
    writer.flush()
    assert stream.getvalue().splitlines() == [f"line {number}" for number in range(100)]
    assert losses == []


def test_while_nobody_reads_lines_beyond_a_number_are_lost_and_told_later(losses):
    stream = Stuck()
    writer = writer_to(stream, losses, max_lines=10)
    writer.emit(record("first"))
    assert stream.in_write.wait(WITHIN_S)
    for number in range(25):
        writer.emit(record("line %d", number))
    assert len(losses) == 15
    stream.reading.set()
    writer.flush()
    first, told, *rest = stream.getvalue().splitlines()
    assert (first, told) == ("first", "15 lines of the log could not be written")
    assert rest == [f"line {number}" for number in range(10)]


def test_ending_waits_a_moment_only_for_a_reader_that_does_not_read(losses):
    stream = Stuck()
    writer = writer_to(stream, losses)
    writer.emit(record("first"))
    writer.flush()
    writer.close()
    assert stream.getvalue() == ""
    stream.reading.set()


class Closed(io.StringIO):
    def write(self, text):
        raise BrokenPipeError


def closed_here():
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("make", [Closed, closed_here, lambda: None], ids=["there", "here", "none"])
def test_without_a_stream_every_line_is_lost_and_nothing_raised(losses, make):
    writer = writer_to(make(), losses)
    writer.emit(record("first"))
    writer.emit(record("second"))
    writer.flush()
    assert len(losses) == 2


def test_a_record_that_is_no_line_is_lost_and_nothing_of_it_printed(losses, capsys):
    stream = io.StringIO()
    writer = writer_to(stream, losses)
    writer.emit(record("sesame %d", "sesame"))
    writer.emit(record("second"))
    writer.flush()
    assert stream.getvalue() == "second\n1 lines of the log could not be written\n"
    assert "sesame" not in "".join(capsys.readouterr())


def test_what_is_printed_is_logged_by_lines(caplog):
    stream = LoggedStream(logging.getLogger("printed"))
    print("one", file=stream)
    print("two\n\nthr", end="", file=stream)
    print("ee", file=stream)
    assert [entry.getMessage() for entry in caplog.records] == ["one", "two", "three"]


def test_its_file_is_that_of_the_process_if_there_is_one(monkeypatch, tmp_path):
    stream = LoggedStream(logging.getLogger("printed"))
    with (tmp_path / "stderr").open("w") as file:
        monkeypatch.setattr(sys, "__stderr__", file)
        assert stream.fileno() == file.fileno()
    monkeypatch.setattr(sys, "__stderr__", None)
    with pytest.raises(OSError, match="no stderr"):
        stream.fileno()
