"""Lines that ask and lines that answer: each bad line by itself, each answer once."""

import io
import json

import pytest
from cocoa_client import batch_files
from cocoa_client.batch_files import Answers, BadFile, BadLine, Line, count_lines, read_lines

BODY = {"prompt": "2 + 2 ="}
GOOD = {"custom_id": "a", "method": "POST", "url": "/generate-with-uncertainty", "body": BODY}


SENT = json.dumps(BODY).encode()


def lines_of(*contents):
    texts = []
    for content in contents:
        texts.append(content if isinstance(content, bytes) else json.dumps(content).encode())
    return list(read_lines(io.BytesIO(b"\n".join(texts))))


@pytest.mark.parametrize("url", ["/generate-with-uncertainty", "/v1/responses"])
def test_a_line_names_its_number_and_what_it_asks(url):
    (line,) = lines_of(b" ", GOOD | {"url": url})
    assert line == Line(2, "a", url, SENT)


@pytest.mark.parametrize(
    ("content", "custom_id", "message"),
    [
        (b"no json", None, "the line should be JSON"),
        (b'{"custom_id": NaN}', None, "the line should be JSON"),
        (b"\xff\xfe", None, "the line should be JSON"),
        (b"[" * 100_000, None, "the line should be JSON"),
        (b"[1]", None, "the line should be a JSON object"),
        (GOOD | {"custom_id": 7}, None, "custom_id should be a text"),
        (GOOD | {"custom_id": ""}, None, "custom_id should be a text"),
        (GOOD | {"url": None}, "a", "url should be a text"),
        (GOOD | {"url": "/feedback"}, "a", "url should be one of /generate-with-uncertainty, "),
        (GOOD | {"method": "GET"}, "a", "method should be POST"),
        (GOOD | {"body": [BODY]}, "a", "body should be an object"),
        (GOOD | {"body": BODY | {"stream": True}}, "a", "body.stream should be left out"),
    ],
)
def test_a_bad_line_says_what_is_wrong_and_harms_no_other(content, custom_id, message):
    bad, good = lines_of(content, GOOD)
    assert (bad.custom_id, bad.fault.code) == (custom_id, "invalid_line")
    assert str(bad.fault).startswith(message)
    assert good == Line(2, "a", "/generate-with-uncertainty", SENT)


def test_a_line_that_is_too_long_is_not_held_and_harms_no_other(monkeypatch, tmp_path):
    longest = len(json.dumps(GOOD).encode()) + 1
    monkeypatch.setattr(batch_files, "_MAX_LINE_BYTES", longest)
    long = json.dumps(GOOD | {"body": {"prompt": "?" * 10 * longest}}).encode()
    bad, good, last = lines_of(long, GOOD, long)
    assert (bad.fault.code, last.fault.code) == ("invalid_line", "invalid_line")
    assert str(bad.fault) == f"the line should have {longest} bytes at most"
    assert good == Line(2, "a", "/generate-with-uncertainty", SENT)
    path = tmp_path / "in.jsonl"
    path.write_bytes(long + b"\n" + long)
    assert count_lines(path) == 2


def test_of_lines_with_one_custom_id_the_first_is_asked():
    first, second, other = lines_of(GOOD, GOOD, GOOD | {"custom_id": "b"})
    assert (first.fault, other.fault) == (None, None)
    assert (second.custom_id, second.fault.code) == ("a", "duplicate_custom_id")


def test_blank_lines_do_not_count(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"a": 1}\n\n  \n{"b": 2}')
    assert count_lines(path) == 2


def answer_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_answers_have_the_ids_of_their_lines_and_are_known_to_the_next_run(tmp_path):
    path, response = tmp_path / "out.jsonl", {"status_code": 200, "body": {"text": "\u00e9"}}
    with Answers(path) as answers:
        answers.write(Line(3, "a"), response=response)
        answers.write(Line(4), error=BadLine("invalid_line", "the line should be JSON"))
    first, second = answer_lines(path)
    assert first == {"id": "batch_req_3", "custom_id": "a", "response": response, "error": None}
    assert second["error"] == {"code": "invalid_line", "message": "the line should be JSON"}

    with Answers(path) as answers:
        assert answers.num_known == 2
        assert [answers.has(line) for line in (Line(3, "a"), Line(4), Line(5, "b"))] == [
            True,
            True,
            False,
        ]
        with pytest.raises(BadFile, match=r"line 3 was another one when out\.jsonl was begun"):
            answers.has(Line(3, "c"))


def test_half_of_a_surrogate_pair_stands_in_a_line_as_an_escape(tmp_path):
    path = tmp_path / "out.jsonl"
    with Answers(path) as answers:
        answers.write(Line(1, "\ud800"), response={"status_code": 200, "body": "é \ud800"})
    assert "é \\ud800".encode() in path.read_bytes()
    [answer] = answer_lines(path)
    assert answer["response"]["body"] == "é \ud800"
    with Answers(path) as answers:
        assert answers.has(Line(1, "\ud800"))


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path):
    mark = b"\xef\xbb\xbf"
    path = tmp_path / "in.jsonl"
    path.write_bytes(mark + json.dumps(GOOD).encode() + b"\n" + mark + b"\n")
    assert count_lines(path) == 2
    with path.open("rb") as file:
        good, bad = read_lines(file)
    assert good == Line(1, "a", "/generate-with-uncertainty", SENT)
    assert str(bad.fault) == "the line should be JSON"
    path.write_bytes(mark)
    assert count_lines(path) == 0


def test_lines_without_an_answer_are_counted_and_found_by_the_next_run(tmp_path):
    path = tmp_path / "out.jsonl"
    with Answers(path) as answers:
        for number, status in enumerate((200, 201, 422, 504), 1):
            answers.write(Line(number, str(number)), response={"status_code": status})
        answers.write(Line(5), error=BadLine("invalid_line", "the line should be JSON"))
        assert answers.num_failed == 3
    with Answers(path) as answers:
        assert (answers.num_known, answers.num_failed) == (5, 3)


def test_a_torn_last_line_is_cut_off_wherever_it_was_torn(tmp_path):
    path = tmp_path / "out.jsonl"
    with Answers(path) as answers:
        answers.write(Line(1, "a"), response={"status_code": 200, "body": "first"})
        answers.write(Line(2, "b"), response={"status_code": 200, "body": "second"})
    whole = path.read_bytes()
    end_of_first = whole.index(b"\n") + 1
    for end in range(end_of_first, len(whole)):
        path.write_bytes(whole[:end])
        with Answers(path) as answers:
            assert answers.num_known == 1
            answers.write(Line(2, "b"), response={"status_code": 200, "body": "second"})
        assert path.read_bytes() == whole


def test_a_file_that_another_run_writes_is_refused(tmp_path):
    with Answers(tmp_path / "out"), pytest.raises(BadFile, match="another run is writing out"):
        Answers(tmp_path / "out")
    with Answers(tmp_path / "out"):
        pass


@pytest.mark.parametrize("content", ["text\n", "[]\n", '{"id": 1}\n', '{"id": "batch_req_x"}\n'])
def test_another_file_is_refused_and_left_as_it_is(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_text(content)
    with pytest.raises(BadFile, match=r"notes\.txt is no output of this command"):
        Answers(path)
    assert path.read_text() == content
