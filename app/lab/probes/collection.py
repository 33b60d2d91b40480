"""A collection on disk: a header, one line an answer, and a file of the features.

The features lie beside the lines, as plain float32.

Both files only grow. A run that was killed leaves at most an incomplete last answer, which the next
run drops.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from models.probes.card import CONVENTION, POOLING
from models.records import Array

FORMAT = 1
_HEADER, _ROWS, _FEATURES = "collection.json", "rows.jsonl", "features.f32"


class AnotherCollection(ValueError):
    """The folder holds none, or that of another run; the message names the first difference."""


@dataclass(frozen=True, slots=True)
class Header:
    """What all answers of a collection have in common.

    Attributes:
        prompts: name of the prompts.
        layers: whose features are stored.
        dimension: d of each.
        sampling: num_samples, temperature, top_k, top_p, and max_new_tokens where a prompt names
            none.
        seed: that of each prompt is derived from it and from the prompt's id.
        compared_by: models behind the targets, with the flags that change them.
    """

    prompts: str
    model: str
    revision: str | None
    dtype: str
    layers: tuple[int, ...]
    dimension: int
    sampling: Mapping[str, Any]
    seed: int
    compared_by: Mapping[str, Any]
    convention: str = CONVENTION
    pooling: str = POOLING
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class Row:
    """One prompt's answer and what samples showed of it.

    Attributes:
        text: the answer as it is compared.
        num_tokens: T; where it is 1, the features are the prefill's.
        scores: estimator to its value, None where it has none.
        error: code of the error that the model always gives for the prompt; then all else is empty
            and features are 0.
    """

    id: str
    task: str
    text: str
    num_tokens: int
    scores: Mapping[str, float | None]
    error: str | None = None


class CollectionLog:
    """A collection open to append; answers may come in any order and are written in theirs.

    Attributes:
        ids: of the answers that were there when it was opened.

    Raises:
        AnotherCollection: the folder holds that of another run.
    """

    def __init__(self, folder: Path, header: Header) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / _HEADER).exists():
            _check_same(_read_header(folder), header)
        else:
            (folder / _HEADER).write_text(
                json.dumps(asdict(header), indent=2) + "\n", encoding="utf-8"
            )
        rows = _complete_rows(folder, header)
        self.ids = frozenset(row.id for row in rows)
        self._rows = (folder / _ROWS).open("ab")
        self._features = (folder / _FEATURES).open("ab")
        self._rows.truncate(sum(len(_line(row)) for row in rows))
        self._features.truncate(len(rows) * _row_bytes(header))
        self._shape = len(header.layers), header.dimension
        self._pending: dict[int, tuple[Row, Array]] = {}
        self._next = 0

    def put(self, position: int, row: Row, features: Array | None) -> None:
        """Write the answer of this run's `position`-th new prompt once all before it are written.

        features: (layers, d); None for a row without an answer.
        """
        self._pending[position] = row, np.zeros(self._shape) if features is None else features
        while (entry := self._pending.pop(self._next, None)) is not None:
            self._features.write(np.ascontiguousarray(entry[1], np.float32).tobytes())
            self._features.flush()  # before the row, so that a row always has its features
            self._rows.write(_line(entry[0]))
            self._rows.flush()
            self._next += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._rows.close()
        self._features.close()


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection that is complete; `features` is (N, layers, d), read from disk as needed."""

    header: Header
    rows: tuple[Row, ...]
    features: Array


def read(folder: Path) -> Collection:
    """The answers of a folder, those without one left out.

    Raises:
        AnotherCollection: there is none of this format.
    """
    header = _read_header(folder)
    rows = _complete_rows(folder, header)
    shape = len(rows), len(header.layers), header.dimension
    features = (
        np.memmap(folder / _FEATURES, np.float32, "r", shape=shape)
        if rows
        else np.empty(shape, np.float32)
    )
    answered = [i for i, row in enumerate(rows) if row.error is None]
    kept = features if len(answered) == len(rows) else features[answered]
    return Collection(header, tuple(rows[i] for i in answered), kept)


def _read_header(folder: Path) -> Header:
    try:
        values = json.loads((folder / _HEADER).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise AnotherCollection(f"{folder} holds no collection: {type(error).__name__}") from None
    if values.get("format") != FORMAT:
        raise AnotherCollection(f"{folder} holds no collection of format {FORMAT}")
    return Header(**values | {"layers": tuple(values["layers"])})


def _check_same(found: Header, wanted: Header) -> None:
    theirs, ours = json.loads(json.dumps(asdict(found))), json.loads(json.dumps(asdict(wanted)))
    for name, value in ours.items():
        if theirs[name] != value:
            raise AnotherCollection(
                f"the collection in this folder has {name} = {theirs[name]!r}, this run {value!r}"
            )


def _complete_rows(folder: Path, header: Header) -> list[Row]:
    """Rows whose line and features were both written in full."""
    if not (folder / _ROWS).exists() or not (folder / _FEATURES).exists():
        return []
    lines = [
        line
        for line in (folder / _ROWS).read_bytes().splitlines(keepends=True)
        if line.endswith(b"\n")
    ]
    num_features = os.path.getsize(folder / _FEATURES) // _row_bytes(header)
    return [Row(**json.loads(line)) for line in lines[:num_features]]


def _row_bytes(header: Header) -> int:
    return len(header.layers) * header.dimension * np.dtype(np.float32).itemsize


def _line(row: Row) -> bytes:
    return json.dumps(asdict(row), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
