"""Generations as JSON lines: a header, then one line a prompt, in the dataset's order.

Each line is flushed as it is written.

A run that was killed leaves at most one half-written line, which the next run drops.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from app.generations import generation_from_json, generation_to_json
from models.records import Generation

_FORMAT = 1


class AnotherRun(Exception):
    """The file holds generations of another model, or with other settings.

    The message names the first difference.
    """


@dataclass(frozen=True, slots=True)
class Header:
    """What all generations of a file have in common.

    Attributes:
        sampling: num_samples, temperature, top_k, top_p; `max_new_tokens` and `stop` are each
            prompt's own.
        seed: that of each prompt is derived from it and from the prompt's id.
        statistics: what the engine was asked for.
        asks_p_true: whether the model was asked about each of its answers.
    """

    dataset: str
    model: str
    revision: str | None
    seed: int
    sampling: Mapping[str, Any]
    statistics: tuple[str, ...]
    asks_p_true: bool
    format: int = _FORMAT


@dataclass(frozen=True, slots=True)
class Record:
    """One prompt's generation, or the error that the model always gives for it.

    Attributes:
        true_false: compared text of each distinct answer to log p_T and log p_F; None where they
            cannot be asked for.
        error: code of the error; then there is no generation.
    """

    id: str
    prompt: str
    generation: Generation | None
    true_false: Mapping[str, tuple[float | None, float | None] | None] = field(default_factory=dict)
    error: str | None = None


class GenerationLog:
    """The file, open to append; records may come in any order and are written in theirs.

    Attributes:
        header: of the file.
        records: those that the file held when it was opened, by id.

    Args:
        path: of the file; made where it is missing.
        header: what this run's generations have in common.

    Raises:
        AnotherRun: the file's header is another.
    """

    def __init__(self, path: Path, header: Header) -> None:
        found, self.records = read(path) if path.exists() else (None, {})
        self.header = found or header
        if found is not None:
            _check_same(found, header)
        self._file = path.open("ab")
        self._file.truncate(_end_of_last_line(path))
        if found is None:
            self._write(_header_to_json(header))
        self._pending: dict[int, Record] = {}
        self._next = 0

    def put(self, position: int, record: Record) -> None:
        """Write the record of this run's `position`-th new prompt, once all before it are."""
        self._pending[position] = record
        while (record_ := self._pending.pop(self._next, None)) is not None:
            self._write(_record_to_json(record_))
            self._next += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _write(self, value: Mapping[str, Any]) -> None:
        self._file.write(
            json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        )
        self._file.flush()


def read(path: Path) -> tuple[Header | None, dict[str, Record]]:
    """Header and records by id, without a half-written last line.

    There is no header where not even that line was complete.

    Raises:
        AnotherRun: the file is none of this kind.
    """
    with path.open("rb") as file:
        lines = (json.loads(line) for line in file if line.endswith(b"\n"))
        first = next(lines, None)
        if first is None:
            return None, {}
        if first.get("format") != _FORMAT:
            raise AnotherRun(f"{path.name} is no file of generations of format {_FORMAT}")
        records = map(_record_from_json, lines)
        return Header(**first | {"statistics": tuple(first["statistics"])}), {
            record.id: record for record in records
        }


def _check_same(found: Header, wanted: Header) -> None:
    theirs, ours = _header_to_json(found), _header_to_json(wanted)
    for name, value in ours.items():
        # A run that asks no P(True) may go on with a file that has it.
        if theirs[name] != value and not (name == "asks_p_true" and found.asks_p_true):
            raise AnotherRun(
                f"the generations in this folder have {name} = {theirs[name]!r}, "
                f"this run has {value!r}"
            )


def _end_of_last_line(path: Path) -> int:
    with path.open("rb") as file:
        position = file.seek(0, os.SEEK_END)
        tail = b""
        while position > 0 and b"\n" not in tail:
            step = min(position, 1 << 16)
            position = file.seek(position - step)
            tail = file.read(step)
        return position + tail.rfind(b"\n") + 1


def _header_to_json(header: Header) -> dict[str, Any]:
    return asdict(header) | {"statistics": sorted(header.statistics)}


def _record_to_json(record: Record) -> dict[str, Any]:
    value: dict[str, Any] = {"id": record.id, "prompt": record.prompt}
    if (generation := record.generation) is None:
        return value | {"error": record.error}
    return value | generation_to_json(generation) | {"true_false": record.true_false}


def _record_from_json(value: Mapping[str, Any]) -> Record:
    if "error" in value:
        return Record(value["id"], value["prompt"], None, error=value["error"])
    pairs = {
        text: None if pair is None else (pair[0], pair[1])
        for text, pair in value["true_false"].items()
    }
    return Record(value["id"], value["prompt"], generation_from_json(value), pairs)
