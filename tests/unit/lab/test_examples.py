"""Files of examples: what a line may hold, and how a bad one is named."""

import asyncio
import json
import math

import pytest

from cocoa_lab.datasets import load
from cocoa_lab.examples import Example, example_of, read_jsonl


def write(path, *rows):
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


def test_any_jsonl_file_is_a_dataset(tmp_path):
    path = write(
        tmp_path / "mine.jsonl",
        {"prompt": "2 + 2?", "reference": "4"},
        "",
        {
            "prompt": "Name a prime.",
            "references": ["2", "3"],
            "reference": "3",
            "task": "primes",
            "id": "p",
            "kind": 1,
        },
        {
            "prompt": "Sum up.",
            "reference": "s",
            "context": "text",
            "max_new_tokens": 9,
            "stop": ["."],
            "fame": 1,
        },
    )

    assert load(str(path), limit=None) == [
        Example("mine-1", "mine", "2 + 2?", ("4",)),
        Example("p", "primes", "Name a prime.", ("3", "2")),
        Example(
            "mine-4",
            "mine",
            "Sum up.",
            ("s",),
            context="text",
            max_new_tokens=9,
            stop=(".",),
            fame=1,
        ),
    ]


def test_a_reference_may_be_a_json_object():
    example = example_of({"id": "1", "task": "t", "prompt": "p", "reference": {"é": 1}}, True)
    assert example.references == ('{"é": 1}',)


def test_a_chat_is_an_example_and_shown_as_its_messages(tmp_path):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}]
    path = write(tmp_path / "mine.jsonl", {"messages": messages, "reference": "4"}, GOOD)

    chat, prompt = load(str(path), limit=None)

    assert (chat.input, prompt.input) == ("messages", "prompt")
    assert chat.messages == tuple(messages)
    assert chat.prompt == "system: Be brief.\nuser: 2 + 2?"


GOOD = {"prompt": "p", "reference": "r"}
SAID = {"role": "user", "content": "p"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "no JSON"),
        ("[1]", "no JSON object"),
        ({"reference": "r"}, "field 'prompt' or 'messages' is missing"),
        ({"prompt": "", "reference": "r"}, "field 'prompt' or 'messages' is missing or empty"),
        ({"prompt": 3, "reference": "r"}, "field 'prompt' is not a string"),
        ({"prompt": "p", "reference": 37}, "field 'reference' is not a string: write \"37\""),
        ({"prompt": "p", "reference": True}, "field 'reference' is not a string"),
        ({"prompt": "p"}, "field 'reference' or 'references' is missing"),
        ({"prompt": "p", "references": []}, "'references' is missing or empty"),
        (
            {"prompt": "p", "references": "r"},
            "field 'references' is no list: write [\"r\"], or call it 'reference'",
        ),
        ({"prompt": "p", "answer": "r"}, "is missing or empty; is 'answer' meant as one?"),
        ({"prompt": "p", "reference": ["r"]}, "field 'reference' is not a string"),
        (GOOD | {"context": 1}, "field 'context' is not a string"),
        (GOOD | {"stop": "\n"}, "field 'stop' is not a list"),
        (GOOD | {"max_new_tokens": "9"}, "field 'max_new_tokens' is not a number"),
        (GOOD | {"max_new_tokens": True}, "field 'max_new_tokens' is not a number"),
        (GOOD | {"max_new_tokens": 0}, "field 'max_new_tokens' is below 1"),
        (GOOD | {"messages": [SAID]}, "'messages' cannot stand beside 'prompt'"),
        ({"messages": [], "reference": "r"}, "field 'messages' is no list of messages"),
        (
            {"messages": [SAID | {"content": ["p"]}], "reference": "r"},
            "another thing than {'role', 'content'}",
        ),
        (GOOD | {"fame": "high"}, "field 'fame' is not a number"),
        (GOOD | {"fame": math.nan}, "no JSON: NaN is no number"),
        (GOOD | {"prompt": "\ud800"}, "no text: half of a surrogate pair"),
        (GOOD | {"stop": [".", ""]}, "field 'stop' has an empty string"),
        (GOOD | {"task": ""}, "field 'task' is empty"),
        (GOOD | {"task": "all"}, "field 'task' is empty, \"all\", which are all together"),
        (GOOD | {"task": "a\nb"}, "field 'task' is empty"),
        (GOOD | {"json_schema": {"type": "text"}}, "field 'json_schema': at #: type 'text'"),
        (GOOD | {"id": "mine-1"}, "field 'id': 'mine-1' occurs twice"),
    ],
    ids=str,
)
def test_a_bad_line_is_named_with_its_file_its_number_and_its_field(tmp_path, line, message):
    path = write(tmp_path / "mine.jsonl", GOOD, "", line)

    with pytest.raises(ValueError, match=r"mine\.jsonl, line 3: ") as caught:
        read_jsonl(path)

    assert message in str(caught.value)


LINES = '{"prompt": "Où?", "reference": "Genève"}\n{"prompt": "p", "reference": "r"}\n'


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte order mark"])
def test_utf_8_is_read_with_and_without_a_mark(tmp_path, mark, newline):
    path = tmp_path / "mine.jsonl"
    path.write_bytes(mark + LINES.replace("\n", newline).encode())

    assert [(one.id, one.references) for one in read_jsonl(path)] == [
        ("mine-1", ("Genève",)),
        ("mine-2", ("r",)),
    ]


def test_another_encoding_is_named_with_file_line_and_byte(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_bytes(b'{"prompt": "p", "reference": "r"}\n' + LINES.encode("latin-1"))

    with pytest.raises(ValueError, match=r"mine\.jsonl, line 2: no UTF-8: byte 0xf9 in column 14"):
        read_jsonl(path)


@pytest.mark.parametrize("text", ["", "\n \n", "\ufeff"], ids=["empty", "blanks", "only a mark"])
@pytest.mark.parametrize("labelled", [True, False])
def test_a_file_without_an_example_is_refused(tmp_path, text, labelled):
    (tmp_path / "mine.jsonl").write_text(text, encoding="utf-8")

    with pytest.raises(ValueError, match=r"mine\.jsonl holds no example"):
        read_jsonl(tmp_path / "mine.jsonl", labelled=labelled)


def test_a_line_with_a_judge_of_its_sentences_needs_no_reference(tmp_path):
    known = {"names": ["Peru"], "facts": [[["capital"], ["Lima"]]]}
    line = {"prompt": "Tell me about Peru.", "judge": "facts", **known}
    path = tmp_path / "judged.jsonl"
    path.write_text(json.dumps(line))
    [example] = read_jsonl(path)
    assert example.references == ()
    [right, wrong, unknown] = asyncio.run(
        example.judge("", ["Its capital is Lima.", "Its capital is Oslo.", "It is nice."])
    )
    assert (right.is_right, wrong.is_right, unknown) == (True, False, None)
    path.write_text(json.dumps(line | {"judge": "somebody"}))
    with pytest.raises(ValueError, match="line 1: field 'judge' is none of facts"):
        read_jsonl(path)
    path.write_text(json.dumps(line | {"facts": 3}))
    with pytest.raises(ValueError, match="'names' and 'facts'"):
        read_jsonl(path)
