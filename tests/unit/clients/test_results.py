"""Many results as a table, and those in a file of `cocoa-batch`."""

import json
import sys
from pathlib import Path

import pytest
from cocoa_client import read_results, to_df

import app.plugins.page

EXAMPLES = Path(app.plugins.page.__file__).parent / "files" / "examples.json"
REFUSED = {"code": "invalid_request", "message": "no", "field": "prompt", "request_id": "r"}
LINES = {
    "answered": {"status_code": 200, "body": json.loads(EXAMPLES.read_text())[0]["response"]},
    "refused": {"status_code": 422, "body": {"error": REFUSED}},
    "not sent": None,
}


def written(path, *lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def line(name, response):
    error = {"code": "invalid_line", "message": "the line should be JSON"} if not response else None
    return {"id": "batch_req_1", "custom_id": name, "response": response, "error": error}


def test_a_file_of_answers_is_a_table_of_answers_and_errors(tmp_path):
    path = written(tmp_path / "out.jsonl", *(line(*one) for one in LINES.items()))
    results = read_results(path)
    assert [one.result is None for one in results] == [False, True, True]
    table = results.to_df()
    assert list(table["custom_id"]) == list(LINES)
    assert table["text"][0] == " Paris"
    assert table["scores.sp"][0] == 0.3163
    assert table["decision.accept"][0]
    assert list(table["error.code"][1:]) == ["invalid_request", "invalid_line"]
    assert list(table["text"].isna()) == [False, True, True]


@pytest.mark.parametrize(
    "content",
    [
        "no JSON",
        "[]",
        "{}",
        json.dumps(line("chat", {"status_code": 200, "body": {"object": "chat.completion"}})),
        json.dumps(line("several", {"status_code": 200, "body": {"results": []}})),
        json.dumps(line("a proxy", {"status_code": 502, "body": "Bad gateway"})),
    ],
)
def test_a_line_that_is_no_such_answer_is_named(tmp_path, content):
    path = written(tmp_path / "out.jsonl", line("answered", LINES["answered"]))
    with path.open("a") as file:
        file.write(content)
    with pytest.raises(ValueError, match=r"^line 2 of out\.jsonl is no answer of /generate-with"):
        read_results(path)


def test_no_results_are_an_empty_table(tmp_path):
    assert to_df(read_results(written(tmp_path / "out.jsonl"))).empty


def test_without_pandas_the_error_says_how_it_is_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        to_df([])
