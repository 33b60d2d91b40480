"""Generations of a dataset in a file: a header, then one line a prompt, as they were done."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import orjson

from cocoa_lab.lines import complete_lines
from cocoa_lab.log import AnotherRun, LineFile, as_json, check_same
from models.codec import reader
from models.records import Generation

# Log-probabilities that the model calls an answer true and false, each None where the tokenizer
# does not tell the two apart by one token; None where the question exceeds the model's context.
TrueFalse = tuple[float | None, float | None] | None

_FORMAT = 4


@dataclass(frozen=True, slots=True)
class RecordingHeader:
    """What all generations of a file have in common.

    Attributes:
        sampling: num_samples, temperature, top_k, top_p, and answer_temperature of drawn answers;
            `max_new_tokens` and `stop` are each prompt's own.
        seed: that of each prompt is derived from it and from the prompt's id.
        statistics: what the engine was asked for, in alphabetical order.
        asks_p_true: whether the model was asked about each of its answers.
        probes: fields of each probe that has read the answers, by the statistic that it predicts.
        bounds_samples: whether the model, where it serves, ends samples at their limit. They are
            recorded whole, for any strategy, and cut where they are scored.
    """

    dataset: str
    model: str
    revision: str | None
    seed: int
    sampling: Mapping[str, Any]
    statistics: tuple[str, ...]
    asks_p_true: bool
    probes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    bounds_samples: bool = True  # as of files of before, most of which are of models in process
    format: int = _FORMAT


@dataclass(frozen=True, slots=True)
class Recording:
    """One prompt's generation, or the error that the model always gives for it.

    Attributes:
        true_false: compared text of each distinct answer to what the model said of it; empty where
            it was not asked.
        error: code of the error; then there is no generation.
        documents: digest of those that were shown beside the prompt; "" where there are none.
    """

    id: str
    prompt: str
    generation: Generation | None = None
    true_false: Mapping[str, TrueFalse] = field(default_factory=dict)
    error: str | None = None
    documents: str = ""


_recording = reader(Recording)
# Of older recordings; nobody reads it any more.
_BOUNDS = re.compile(rb'"mte_bounds":(null|\[[^]]*\]),')


class RecordingLog:
    """A file of recordings, open to append.

    Attributes:
        header: of the file.
        recordings: those that the file held when it was opened, by id.

    Args:
        path: of the file; made where it is missing.
        header: what this run's generations have in common.

    Raises:
        AnotherRun: the file's header is another.
    """

    def __init__(self, path: Path, header: RecordingHeader) -> None:
        found, self.recordings = read(path)
        self.header = found or header
        # A run that does not ask about its answers may go on with a file in which that was asked.
        asks_p_true = header.asks_p_true or self.header.asks_p_true
        wanted = replace(header, asks_p_true=asks_p_true)
        if found is not None:
            check_same(found, wanted, "the generations in this folder have")
        self._lines = LineFile(path)
        if found is None:
            self._lines.append(as_json(header))

    def append(self, recording: Recording) -> None:
        """Write the recording of a prompt that the file did not hold."""
        self._lines.append(_to_json(recording))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()


def read(path: Path) -> tuple[RecordingHeader | None, dict[str, Recording]]:
    """Header and recordings by id, without a half-written last line.

    There is no header where there is no file, or not even that line was complete.

    Raises:
        AnotherRun: the file is none of this kind, or has draws that do not repeat.
    """
    if not path.exists():
        return None, {}
    lines = complete_lines(path)
    try:
        first = orjson.loads(next(lines, b"null"))
    except ValueError:
        first = ""
    if first is None:
        return None, {}
    if not isinstance(first, dict) or first.get("format") != _FORMAT:
        raise AnotherRun(f"{path.name} is no file of generations of format {_FORMAT}")
    if first["sampling"].get("distinct"):
        raise AnotherRun(f"{path.name} has draws that do not repeat, which are no more scored")
    header = RecordingHeader(**first | {"statistics": tuple(first["statistics"])})
    recordings = {}
    for number, line in enumerate(lines, start=2):
        try:
            recording = _recording(_BOUNDS.sub(b"", line))
        except (LookupError, TypeError, ValueError):
            raise AnotherRun(f"{path.name}, line {number}: it is damaged") from None
        recordings[recording.id] = recording
    return header, recordings


def stored(
    path: Path, temperature: float | None, answer_temperature: float | None
) -> tuple[RecordingHeader, dict[str, Recording]]:
    """What `read` gives, to be scored again.

    Args:
        path: of the file.
        temperature: of the samples, if one is named.
        answer_temperature: of the answers; None for greedy ones.

    Raises:
        AnotherRun: there is no such file, or it was drawn in another way.
    """
    header, recordings = read(path)
    if header is None:
        raise AnotherRun(f"{path} holds no generations to score")
    drawn_at = header.sampling["temperature"]
    if temperature not in (None, drawn_at):
        raise AnotherRun(f"{path} was drawn at temperature {drawn_at:g}")
    answered_at = header.sampling.get("answer_temperature")
    if answer_temperature != answered_at:
        way = "without --answer-temperature"
        if answered_at is not None:
            way = f"with --answer-temperature {answered_at:g}"
        raise AnotherRun(f"the answers in {path} were made {way}")
    return header, recordings


def recorded_statistics(header: RecordingHeader) -> frozenset[str]:
    """What a file of recordings supplies in a generator's place."""
    return frozenset(header.statistics) | ({"p_true_logprob"} if header.asks_p_true else set())


def _to_json(recording: Recording) -> dict[str, Any]:
    value: dict[str, Any] = {"id": recording.id, "prompt": recording.prompt}
    if recording.documents:
        value["documents"] = recording.documents
    if recording.generation is None:
        return value | {"error": recording.error}
    return value | {"generation": recording.generation, "true_false": recording.true_false}
