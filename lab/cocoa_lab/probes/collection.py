"""A collection on disk: a header, one line an answer, and a file of the answers' features.

The features lie beside the lines, as plain float32. Lines and features only grow; a run that was
killed leaves at most an incomplete last answer, which the next run drops.
"""

import hashlib
import json
import os
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import compress
from pathlib import Path
from typing import Any, Self

import numpy as np

from app.scoring.ask import Units
from cocoa_lab.lines import complete_lines
from cocoa_lab.log import AnotherRun, InOrder, LineFile, check_same
from models.probes.card import CONVENTION, POOLING, joined
from models.records import Array

FORMAT = 1
_HEADER, _ANSWERS, _FEATURES = "collection.json", "rows.jsonl", "features.f32"


@dataclass(frozen=True, slots=True)
class CollectionHeader:
    """What all answers of a collection have in common.

    Attributes:
        prompts: name of the prompts.
        layers: whose features are stored.
        dimension: d of each.
        sampling: num_samples, temperature, top_k, top_p, and max_new_tokens where a prompt names
            none.
        seed: that of each prompt is derived from it and from the prompt's id.
        compared_by: models behind the targets, with the flags that change them.
        units: what each row is of.
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
    units: Units = "answer"
    pooling: str = POOLING
    format: int = FORMAT

    @property
    def answer_bytes(self) -> int:
        """Size of one answer's features."""
        return len(self.layers) * self.dimension * np.dtype(np.float32).itemsize


@dataclass(frozen=True, slots=True)
class CollectedAnswer:
    """One prompt's answer, or one of its sentences, and what samples showed of it.

    Attributes:
        id: of the prompt.
        text: the answer as it is compared.
        num_tokens: T; where it is 1, the features are the prefill's.
        scores: estimator to its value, None where it has none.
        error: code of the error that the model always gives for the prompt; then all else is empty
            and features are 0.
        prompt_digest: tells prompts apart that have the same id; None in older collections.
        part, num_parts: which of how many rows of the prompt this is.
    """

    id: str
    task: str
    text: str
    num_tokens: int
    scores: Mapping[str, float | None]
    error: str | None = None
    prompt_digest: str | None = None
    part: int = 0
    num_parts: int = 1


# With its features (layers, d); None of a prompt without an answer.
Row = tuple[CollectedAnswer, Array | None]


class CollectionLog:
    """A collection open to append; answers may come in any order.

    Attributes:
        ids: of the answers that were there when it was opened.

    Raises:
        AnotherRun: the folder holds the collection of another run.
    """

    def __init__(self, folder: Path, header: CollectionHeader) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / _HEADER).exists():
            check_same(_read_header(folder), header, "the collection in this folder has")
        else:
            text = json.dumps(asdict(header), indent=2) + "\n"
            (folder / _HEADER).write_text(text, encoding="utf-8")
        lines = _whole_lines(folder, header)
        self.ids = frozenset(answer.id for answer in map(_answer, lines))
        self._lines = LineFile(folder / _ANSWERS, sum(map(len, lines)))
        self._features = (folder / _FEATURES).open("ab")
        self._features.truncate(len(lines) * header.answer_bytes)
        self._shape = len(header.layers), header.dimension
        self._ordered = InOrder[Sequence[Row]](self._write)

    def put(self, position: int, rows: Sequence[Row]) -> None:
        """Write what this run's `position`-th new prompt gave, once all before it are written."""
        self._ordered.put(position, rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._features.close()

    def _write(self, rows: Sequence[Row]) -> None:
        for answer, features in rows:
            if features is None:
                features = np.zeros(self._shape)
            self._features.write(np.ascontiguousarray(features, np.float32).tobytes())
            self._features.flush()  # before the line, so that a line always has its features
            self._lines.append(asdict(answer))


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection that is complete; `features` is (N, layers, d), read from disk as needed."""

    header: CollectionHeader
    answers: tuple[CollectedAnswer, ...]
    features: Array


def digest_of(prompt: str) -> str:
    """What a collection keeps of a prompt's text."""
    return hashlib.sha256(prompt.encode()).hexdigest()[:16]


def read(folder: Path) -> Collection:
    """The answers of a folder, without the prompts that have none.

    Raises:
        AnotherRun: there is no collection of this format.
    """
    header = _read_header(folder)
    answers = list(map(_answer, _whole_lines(folder, header)))
    features = _read_features(folder, header, len(answers))
    return _kept(Collection(header, tuple(answers), features), lambda answer: answer.error is None)


def features_of(
    collection: Collection, rows: Sequence[int], layer: int, token_features: Sequence[str]
) -> Array:
    """What a probe reads of these answers, (N, d + k).

    Args:
        collection: holds the answers.
        rows: N indices of answers.
        layer: index of the layer among those collected.
        token_features: k of `models.probes.card.TOKEN_FEATURES`.

    Raises:
        ValueError: an answer has no value that these are made of.
    """
    means = np.asarray(collection.features[list(rows), layer])
    if not token_features:
        return means
    features = np.empty((len(rows), means.shape[1] + len(token_features)), np.float32)
    for i, row in enumerate(rows):
        answer = collection.answers[row]
        sp, mte = answer.scores.get("sp"), answer.scores.get("mte")
        if sp is None or mte is None:
            raise ValueError(f"answer {answer.id} has no sp or no mte, which the probe reads")
        num_tokens = answer.num_tokens
        features[i] = joined(means[i], token_features, sp=sp, mte=mte, num_tokens=num_tokens)
    return features


def only(collection: Collection, ids: Container[str]) -> Collection:
    """The answers with these ids."""
    return _kept(collection, lambda answer: answer.id in ids)


def without_task(collection: Collection, task: str) -> Collection:
    """The answers of all other tasks."""
    return _kept(collection, lambda answer: answer.task != task)


def _kept(collection: Collection, is_kept: Callable[[CollectedAnswer], bool]) -> Collection:
    kept = np.array(list(map(is_kept, collection.answers)), dtype=bool)
    if kept.all():
        return collection  # its features stay on disk
    answers = tuple(compress(collection.answers, kept))
    return Collection(collection.header, answers, collection.features[kept])


def _read_header(folder: Path) -> CollectionHeader:
    try:
        values = json.loads((folder / _HEADER).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise AnotherRun(f"{folder} holds no collection: {type(error).__name__}") from None
    if values.get("format") != FORMAT:
        raise AnotherRun(f"{folder} holds no collection of format {FORMAT}")
    return CollectionHeader(**values | {"layers": tuple(values["layers"])})


def _whole_lines(folder: Path, header: CollectionHeader) -> list[bytes]:
    """Lines of the answers of which all lines and features were written in full."""
    if not (folder / _ANSWERS).exists() or not (folder / _FEATURES).exists():
        return []
    num_features = os.path.getsize(folder / _FEATURES) // header.answer_bytes
    lines = list(complete_lines(folder / _ANSWERS))[:num_features]
    if lines and (last := _answer(lines[-1])).part + 1 < last.num_parts:
        return lines[: -last.part - 1]
    return lines


def _answer(line: bytes) -> CollectedAnswer:
    return CollectedAnswer(**json.loads(line))


def _read_features(folder: Path, header: CollectionHeader, num_answers: int) -> Array:
    """Features (N, layers, d); an empty file cannot be mapped."""
    shape = num_answers, len(header.layers), header.dimension
    if not num_answers:
        return np.empty(shape, np.float32)
    return np.memmap(folder / _FEATURES, np.float32, "r", shape=shape)
