"""Datasets by name: testbed and atlas, any JSONL file, the datasets of the CoCoA paper."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np

from cocoa_lab.atlas import functions
from cocoa_lab.embedded import TASKS, as_question, held_out_path
from cocoa_lab.examples import Example, in_words, read_jsonl
from cocoa_lab.paper_datasets import NAMED, DatasetRows, Source

One = TypeVar("One")


def _as_is(example: Example) -> Example:
    return example


def _as_question(example: Example) -> Example:
    return replace(example, prompt=as_question(example.prompt))


def _as_chat(example: Example) -> Example:
    messages = ({"role": "user", "content": example.prompt},)
    return replace(example, prompt=in_words(messages), messages=messages)


# How the testbed's prompts are put, by the name of the dataset; the second form is that of the
# embedded language model "embedded-second", the third is for models with a chat template.
TESTBEDS: dict[str, Callable[[Example], Example]] = {
    "testbed": _as_is,
    "testbed-second": _as_question,
    "testbed-chat": _as_chat,
}


# Questions with a truth by rule, in the forms of `cocoa_lab.atlas.questions.FORMS`, and functions.
ATLAS = (
    *("atlas", "atlas-sentence", "atlas-raw", "atlas-persona", "atlas-turn", "atlas-steps"),
    *("atlas-german", "atlas-spanish", functions.TASK),
)
# Those whose fields or sentences are scored by themselves (`--units`); calls only so.
ATLAS_OF_PARTS = ("atlas-json", "atlas-paragraph", "atlas-documents", "atlas-call")


def load(
    name_or_path: str, *, limit: int | None, seed: int = 0, data_dir: Path | None = None
) -> list[Example]:
    """Examples in their own order; with a limit, that many drawn with the seed.

    Args:
        name_or_path: a key of `TESTBEDS`, `ATLAS` or `ATLAS_OF_PARTS`, a task ("testbed/facts",
            "atlas/capital"), a .jsonl file, or a key of `NAMED`.
        limit: number of examples kept; None keeps all.
        seed: seed of that draw.
        data_dir: holds `<name>/<split>.jsonl` (or .json, .parquet) of a named dataset, which is
            else downloaded.

    Raises:
        ValueError: an unknown name, or a line of a file that is no example.
    """
    return drawn(_all_examples(name_or_path, data_dir), limit, seed)


def drawn(examples: list[One], limit: int | None, seed: int) -> list[One]:
    """That many of the examples, drawn with the seed, in their own order; all without a limit."""
    if limit is None or limit >= len(examples):
        return examples
    chosen = np.random.default_rng(seed).choice(len(examples), size=limit, replace=False)
    return [examples[i] for i in sorted(chosen.tolist())]


def _all_examples(name: str, data_dir: Path | None) -> list[Example]:
    testbed, slash, task = name.partition("/")
    if testbed in TESTBEDS:
        tasks: tuple[str, ...] = TASKS
        if slash:
            tasks = (task,)
        return _testbed(TESTBEDS[testbed], tasks)
    if testbed in ATLAS or name in ATLAS_OF_PARTS:
        return _atlas(testbed, task)
    if name in NAMED:
        source = NAMED[name]
        shots: DatasetRows = []
        if source.shots:
            shots = _rows(name, source, source.shots, data_dir)
        return source.build(_rows(name, source, source.split, data_dir), shots)
    if name.endswith(".jsonl"):
        return read_jsonl(Path(name))
    with_task = map("/".join, product(TESTBEDS, TASKS))
    known = ", ".join([*TESTBEDS, *with_task, *ATLAS, *ATLAS_OF_PARTS, *NAMED])
    raise ValueError(f"unknown dataset {name!r}: neither a .jsonl file nor one of {known}")


def _testbed(form: Callable[[Example], Example], tasks: Sequence[str]) -> list[Example]:
    examples: list[Example] = []
    for task in tasks:
        examples += map(form, read_jsonl(held_out_path(task)))
    return examples


def atlas_records(form: str) -> list[dict[str, Any]]:
    """Lines of a file of one of `ATLAS_OF_PARTS`."""
    with _atlas_installed():
        from cocoa_lab.atlas.questions import records
    return records(form)


@contextmanager
def _atlas_installed() -> Iterator[None]:
    """Have a package that is missing be an error that names the extra.

    Raises:
        ValueError: one is.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ValueError(f"{error}: pip install -e 'lab[atlas]' in the checkout") from None


def _atlas(form: str, kind: str) -> list[Example]:
    """Questions of one kind, or of all.

    Raises:
        ValueError: the kind is none, or the packages of the extra are missing.
    """
    if form == functions.TASK:
        if kind:
            raise ValueError(f"{form} has no kinds, such as {kind!r}")
        return functions.examples()
    with _atlas_installed():
        from cocoa_lab.atlas.questions import FORMS, KINDS, OF_PARTS
    if form in OF_PARTS:
        return OF_PARTS[form]()
    if form not in FORMS:
        raise ValueError(f"{form} asks for calls, which are scored by their arguments: add --units")
    if kind and kind not in KINDS:
        raise ValueError(f"{form} has no questions of kind {kind!r}, but {', '.join(KINDS)}")
    examples: list[Example] = []
    for one in [kind] if kind else KINDS:
        examples += FORMS[form](one)
    if not examples:
        raise ValueError(f"{form} has no questions of kind {kind!r}")
    return examples


def _rows(name: str, source: Source, split: str, data_dir: Path | None) -> DatasetRows:
    from datasets import Dataset, load_dataset

    rows: DatasetRows
    if data_dir is None:
        rows = load_dataset(source.path, source.config, split=split, revision=source.revision)
        return rows
    path = _local_file(data_dir / name, split)
    reader: Any = Dataset.from_json
    if path.suffix == ".parquet":
        reader = Dataset.from_parquet
    with TemporaryDirectory() as cache_dir:
        rows = reader(str(path), cache_dir=cache_dir, keep_in_memory=True)
    return rows


def _local_file(folder: Path, split: str) -> Path:
    for kind in ("jsonl", "json", "parquet"):
        path = folder / f"{split}.{kind}"
        if path.is_file():
            return path
    raise ValueError(f"no {folder.name}/{split}.jsonl, .json or .parquet in {folder.parent}")
