"""One prompt with what its answer is measured against, and files of such prompts."""

import codecs
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from app.http.requests.documents import DocumentsWanted
from cocoa_lab.judges import Judge, judge_of
from models.calibration import ALL
from models.grammar.grammars import grammar_of
from models.units.json_schemas import BadSchema


@dataclass(frozen=True, slots=True)
class Example:
    """One prompt with what its answer is measured against.

    Attributes:
        task: what `cocoa_lab.quality.default_quality` goes by.
        prompt: raw text; of a chat its messages as they are shown, one after another.
        messages: of a chat {"role", "content"}; None of a prompt.
        references: accepted texts, at least one; none of an unlabelled prompt.
        context: the text that the answer is about: article, story, or the sentence to translate.
        json_schema: that the answer is held to; None for any text.
        judge: by rule, of the sentences of its answers; None where there is none.
        documents: each {"doc_id", "title", "text"}, that answers are to stand on; None for none.
        fame: how often the testbed's fact was trained; see docs/embedded-models.md.
    """

    id: str
    task: str
    prompt: str
    references: tuple[str, ...]
    context: str | None = None
    max_new_tokens: int = 64
    stop: tuple[str, ...] = ()
    fame: float | None = None
    messages: tuple[Mapping[str, str], ...] | None = None
    json_schema: Mapping[str, Any] | None = None
    judge: Judge | None = None
    documents: tuple[Mapping[str, str], ...] | None = None

    @property
    def input(self) -> Literal["prompt", "messages"]:
        """How a model is asked."""
        if self.messages is None:
            return "prompt"
        return "messages"


def read_jsonl(path: Path, *, labelled: bool = True) -> list[Example]:
    """One example a line: `prompt` or `messages`, `reference` or `references`, optionally more.

    The optional ones are the other fields of `Example`.

    Without `labelled` the references may be missing, as for prompts that nothing is measured on.

    `id` defaults to the file's name with the line's number, `task` to the file's name. Other fields
    are ignored. The file is UTF-8, with or without a byte order mark.

    Raises:
        ValueError: names file, line and field; the file holds no example.
    """
    examples: dict[str, Example] = {}
    for number, fields in objects_of(path):
        try:
            example = example_of(fields, labelled, id=f"{path.stem}-{number}", task=path.stem)
            if example.id in examples:
                raise ValueError(f"field 'id': {example.id!r} occurs twice")
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        examples[example.id] = example
    if not examples:
        raise ValueError(f"{path} holds no example")
    return list(examples.values())


def in_words(messages: Sequence[Mapping[str, str]]) -> str:
    r"""Messages as they are shown.

    >>> in_words([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}])
    'system: Be brief.\nuser: Hi'
    """
    return "\n".join(f"{one['role']}: {one['content']}" for one in messages)


def objects_of(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON object of each line, with the line's number; without those that are null in it.

    Raises:
        ValueError: names file and line.
    """
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        try:
            yield number, _object(_decoded(line))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None


def distinct(texts: Iterable[str]) -> tuple[str, ...]:
    """The texts in their order, each once."""
    return tuple(dict.fromkeys(texts))


def _lines(path: Path) -> list[bytes]:
    data = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")


def _decoded(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        byte = f"byte 0x{line[error.start]:02x} in column {error.start + 1}"
        raise ValueError(f"no UTF-8: {byte}; save the file as UTF-8") from None


def _object(line: str) -> dict[str, Any]:
    try:
        fields = json.loads(line, parse_constant=_no_number)
        json.dumps(fields, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error}") from None
    except UnicodeEncodeError:
        raise ValueError("no text: half of a surrogate pair, such as \\ud800") from None
    except RecursionError:
        raise ValueError("no JSON: it is nested too deeply") from None
    if not isinstance(fields, dict):
        raise ValueError("no JSON object")
    return {name: value for name, value in fields.items() if value is not None}


def _no_number(name: str) -> None:
    raise ValueError(f"no JSON: {name} is no number")


def example_of(given: Mapping[str, Any], labelled: bool, **defaults: str) -> Example:
    """The example that a line's object is; `defaults` are for what it lacks.

    Raises:
        ValueError: names the field.
    """
    fields = defaults | dict(given)
    if isinstance(fields.get("reference"), dict):
        fields["reference"] = json.dumps(fields["reference"], ensure_ascii=False)
    for name in ("id", "task", "prompt", "context", "reference"):
        if name in fields and not isinstance(fields[name], str):
            raise ValueError(f"field '{name}' is not a string{_as_string(fields[name])}")
    if fields["task"] in ("", ALL) or not fields["task"].isprintable():
        message = (
            f'is empty, "{ALL}", which are all together, or no line (default: the file\'s name)'
        )
        raise ValueError(f"field 'task' {message}")
    messages = _messages(fields)
    if messages is not None:
        fields["prompt"] = in_words(messages)
    if not fields.get("prompt"):
        raise ValueError("field 'prompt' or 'messages' is missing or empty")
    return Example(
        id=fields["id"],
        task=fields["task"],
        prompt=fields["prompt"],
        messages=messages,
        references=_references(fields, labelled and "judge" not in fields),
        stop=_strings(fields, "stop"),
        context=fields.get("context"),
        json_schema=_schema(fields),
        judge=judge_of(fields),
        documents=_documents(fields),
        **_numbers(fields),
    )


# What others call it.
_NEAR_REFERENCE = ("answer", "answers", "expected", "target", "label", "gold", "ground_truth")


def _messages(fields: Mapping[str, Any]) -> tuple[Mapping[str, str], ...] | None:
    if "messages" not in fields:
        return None
    if "prompt" in fields:
        raise ValueError("field 'messages' cannot stand beside 'prompt'")
    messages = fields["messages"]
    if not isinstance(messages, list) or not messages:
        raise ValueError("field 'messages' is no list of messages")
    for message in messages:
        is_one = isinstance(message, dict) and message.keys() == {"role", "content"}
        if not is_one or not all(isinstance(text, str) for text in message.values()):
            raise ValueError("field 'messages' holds another thing than {'role', 'content'}")
    return tuple(messages)


def _references(fields: Mapping[str, Any], labelled: bool) -> tuple[str, ...]:
    if isinstance(given := fields.get("references"), str):
        hint = json.dumps([given], ensure_ascii=False)
        raise ValueError(f"field 'references' is no list: write {hint}, or call it 'reference'")
    references = distinct(_strings(fields, "references"))
    if "reference" in fields:
        references = distinct((fields["reference"], *references))
    if labelled and not references:
        message = "field 'reference' or 'references' is missing or empty"
        if near := next(filter(fields.get, _NEAR_REFERENCE), None):
            message += f"; is '{near}' meant as one?"
        raise ValueError(message)
    return references


def _as_string(value: object) -> str:
    """What to write in place of a number; "" for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    return f': write "{value}"'


def _documents(fields: Mapping[str, Any]) -> tuple[Mapping[str, str], ...] | None:
    if not fields.get("documents"):
        return None
    try:
        given = DocumentsWanted(documents=fields["documents"])
        wanted = given.document_fields(fields, of_tokens=False)
    except (ValidationError, LookupError):
        raise ValueError("field 'documents' is no list of documents") from None
    documents: tuple[Mapping[str, str], ...] = wanted["documents"]
    return documents


def _schema(fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
    schema = fields.get("json_schema")
    if schema is not None and not isinstance(schema, dict):
        raise ValueError("field 'json_schema' is no schema")
    try:
        if schema is not None:
            grammar_of(schema)
    except BadSchema as error:
        raise ValueError(f"field 'json_schema': {error}") from None
    return schema


def _strings(fields: Mapping[str, Any], name: str) -> tuple[str, ...]:
    values = fields.get(name, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"field '{name}' is not a list of strings")
    if name == "stop" and "" in values:
        raise ValueError("field 'stop' has an empty string, which would end every answer")
    return tuple(values)


def _numbers(fields: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {}
    for name, kind in (("max_new_tokens", int), ("fame", int | float)):
        if name in fields:
            numbers[name] = value = fields[name]
            if isinstance(value, bool) or not isinstance(value, kind):
                raise ValueError(f"field '{name}' is not a number")
    if numbers.get("max_new_tokens", 1) < 1:
        raise ValueError("field 'max_new_tokens' is below 1")
    return numbers
