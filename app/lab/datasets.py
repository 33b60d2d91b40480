"""Prompts with references: embedded testbed, any JSONL file, datasets of the CoCoA paper.

Wording, shots, stops and limits of the named datasets are those of LM-Polygraph's "continuation"
configurations, which the paper extends (Vashurin et al. 2025), and `max_new_tokens` is the paper's;
what is ours stands in each docstring. The functions `rows -> examples` have been tried on small
local files of the same schema, not on the hub's data.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import numpy as np

from models.embedded import TASKS, held_out_path

TESTBED = "testbed"
_STOP = ("\n",)
_NUM_SHOTS = 5
_MMLU_MAX_SUBJECT_ROWS = 100
_LETTERS = "ABCD"
_LANGUAGES = {"de": "German", "en": "English", "fr": "French"}

Row = Mapping[str, Any]


class Rows(Protocol):
    """Rows by number: a list, or a dataset of the `datasets` package."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...


@dataclass(frozen=True, slots=True)
class Example:
    """One prompt with what its answer is measured against.

    Attributes:
        task: what `app.lab.quality.default_quality` goes by.
        references: accepted texts, at least one; none of an unlabelled prompt.
        context: the text that the answer is about: article, story, or the sentence to translate.
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


@dataclass(frozen=True, slots=True)
class Source:
    """Where a named dataset lies on the hub, and the function that makes its examples.

    The function takes the dataset's rows and its shots.
    """

    path: str
    split: str
    build: Callable[[Rows, Rows], list[Example]]
    config: str | None = None
    shots: str | None = None
    revision: str | None = None


def load(
    name_or_path: str, *, limit: int | None, seed: int = 0, data_dir: Path | None = None
) -> list[Example]:
    """Examples in their own order; with a limit, that many drawn with the seed.

    Args:
        name_or_path: "testbed", one of its tasks ("testbed/facts"), a .jsonl file, or a key of
            `NAMED`.
        limit: number of examples kept; None keeps all.
        seed: seed of that draw.
        data_dir: holds `<name>/<split>.jsonl` (or .json, .parquet) of a named dataset, which is
            else downloaded.

    Raises:
        ValueError: an unknown name, or a line of a file that is no example.
    """
    return drawn(_all_examples(name_or_path, data_dir), limit, seed)


def drawn(examples: list[Example], limit: int | None, seed: int) -> list[Example]:
    """That many of the examples, drawn with the seed, in their own order; all without a limit."""
    if limit is None or limit >= len(examples):
        return examples
    chosen = np.random.default_rng(seed).choice(len(examples), size=limit, replace=False)
    return [examples[i] for i in sorted(chosen.tolist())]


def read_jsonl(path: Path, *, labelled: bool = True) -> list[Example]:
    """One example a line: `prompt`, `reference` or `references`, optionally more.

    The optional ones are the other fields of `Example`.

    Without `labelled` the references may be missing, as for prompts that nothing is measured on.

    `id` defaults to the file's name with the line's number, `task` to the file's name. Other fields
    are ignored.

    Raises:
        ValueError: names file, line and field.
    """
    examples: dict[str, Example] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            example = _example(line, labelled, id=f"{path.stem}-{number}", task=path.stem)
            if example.id in examples:
                raise ValueError(f"field 'id': {example.id!r} occurs twice")
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        examples[example.id] = example
    return list(examples.values())


def trivia_qa(rows: Rows, train: Rows) -> list[Example]:
    """TriviaQA (rc.nocontext): five shots of the training rows, drawn once.

    The references are all aliases.

    The draw is LM-Polygraph's, RandomState(1). Ours: the normalized value joins the references.
    """
    shots = _drawn(train, np.random.RandomState(1))
    told = "".join(
        f"Question: {s['question'].strip()}\nAnswer:{s['answer']['normalized_value']}\n"
        for s in shots
    )
    return [
        Example(
            id=f"trivia_qa-{number}",
            task="trivia_qa",
            prompt=f"{told}Question: {row['question']}\nAnswer:",
            references=_distinct([*row["answer"]["aliases"], row["answer"]["normalized_value"]]),
            max_new_tokens=20,
            stop=_STOP,
        )
        for number, row in enumerate(rows)
    ]


def gsm8k(rows: Rows, _: Rows) -> list[Example]:
    """GSM8k: the eight worked examples of Wei et al. 2022.

    The reference keeps its reasoning and `#### number`.
    """
    return [
        Example(
            id=f"gsm8k-{number}",
            task="gsm8k",
            prompt=f"{_GSM8K_SHOTS}\n\nQ: {row['question']}\nA:",
            references=(row["answer"],),
            max_new_tokens=256,
            stop=_STOP,
        )
        for number, row in enumerate(rows)
    ]


def wmt(name: str, source: str, target: str) -> Callable[[Rows, Rows], list[Example]]:
    """WMT without shots; the context is the sentence to translate."""

    def build(rows: Rows, _: Rows) -> list[Example]:
        intro = (
            f"Here is a sentence in {_LANGUAGES[source]} language "
            f"and its translation in {_LANGUAGES[target]} language."
        )
        return [
            Example(
                id=f"{name}-{number}",
                task=name,
                prompt=f"{intro}\n\nOriginal:\n{row['translation'][source]}\nTranslation:\n",
                references=(row["translation"][target],),
                context=row["translation"][source],
                max_new_tokens=107,
                stop=_STOP,
            )
            for number, row in enumerate(rows)
        ]

    return build


def coqa(rows: Rows, _: Rows) -> list[Example]:
    """CoQA: one example a question.

    The story's earlier questions stand before it with their true answers.
    """
    intro = (
        "The following are stories and questions about them. "
        "Each story is followed by a question and answer to a given question."
    )
    examples = []
    for number, row in enumerate(rows):
        told = f"{intro}\n\nStory: {row['story']}"
        for turn, (question, answer) in enumerate(
            zip(row["questions"], row["answers"]["input_text"], strict=True)
        ):
            example = Example(
                id=f"coqa-{number}-{turn}",
                task="coqa",
                prompt=f"{told}\n\nQuestion: {question}\nAnswer:",
                references=(answer,),
                context=row["story"],
                max_new_tokens=30,
                stop=_STOP,
            )
            examples.append(example)
            told = example.prompt + answer
    return examples


def mmlu(rows: Rows, dev: Rows) -> list[Example]:
    """MMLU: at most 100 questions a subject, each after five shots.

    The shots are the subject's development rows in a drawn order.

    Subjects stand in alphabetical order, and the draws are LM-Polygraph's, RandomState(1). The
    reference is a letter.
    """
    rng = np.random.RandomState(1)
    subjects, shots = _by_subject(rows), _by_subject(dev)
    examples = []
    for subject in sorted(subjects):
        intro = (
            "The following are multiple choice questions (with answers) "
            f"about {subject.replace('_', ' ')}.\n\n"
        )
        told = intro + "".join(
            f"{_mmlu_question(shot)}{_LETTERS[shot['answer']]}\n"
            for shot in _drawn(shots[subject], rng)
        )
        examples += [
            Example(
                id=f"mmlu-{subject}-{number}",
                task="mmlu",
                prompt=told + _mmlu_question(row),
                references=(_LETTERS[row["answer"]],),
                max_new_tokens=3,
                stop=_STOP,
            )
            for number, row in enumerate(subjects[subject][:_MMLU_MAX_SUBJECT_ROWS])
        ]
    return examples


def xsum(rows: Rows, _: Rows) -> list[Example]:
    """XSum without shots; the context is the article."""
    intro = "Here's the text and it's short one-sentence summary."
    return [
        Example(
            id=f"xsum-{number}",
            task="xsum",
            prompt=f"{intro}\n\nText:\n{row['document']}\n\nSummary (one sentence):\n",
            references=(row["summary"],),
            context=row["document"],
            max_new_tokens=56,
            stop=_STOP,
        )
        for number, row in enumerate(rows)
    ]


NAMED: dict[str, Source] = {
    "trivia_qa": Source(
        "mandarjoshi/trivia_qa", "validation", trivia_qa, config="rc.nocontext", shots="train"
    ),
    "gsm8k": Source("openai/gsm8k", "test", gsm8k, config="main"),
    "wmt14_fren": Source("wmt/wmt14", "test", wmt("wmt14_fren", "fr", "en"), config="fr-en"),
    "coqa": Source("stanfordnlp/coqa", "validation", coqa),
    "mmlu": Source("cais/mmlu", "test", mmlu, config="all", shots="dev"),
    "wmt19_deen": Source("wmt/wmt19", "validation", wmt("wmt19_deen", "de", "en"), config="de-en"),
    # The main branch holds a loading script, which the package refuses; the hub converts it.
    "xsum": Source("EdinburghNLP/xsum", "test", xsum, revision="refs/convert/parquet"),
}


def _all_examples(name: str, data_dir: Path | None) -> list[Example]:
    if name == TESTBED:
        return [example for task in TASKS for example in read_jsonl(held_out_path(task))]
    if name.startswith(f"{TESTBED}/"):
        return read_jsonl(held_out_path(name.removeprefix(f"{TESTBED}/")))
    if name in NAMED:
        source = NAMED[name]
        shots = _rows(name, source, source.shots, data_dir) if source.shots else []
        return source.build(_rows(name, source, source.split, data_dir), shots)
    if name.endswith(".jsonl"):
        return read_jsonl(Path(name))
    known = ", ".join([TESTBED, *(f"{TESTBED}/{task}" for task in TASKS), *NAMED])
    raise ValueError(f"unknown dataset {name!r}: neither a .jsonl file nor one of {known}")


def _rows(name: str, source: Source, split: str, data_dir: Path | None) -> Rows:
    from datasets import Dataset, load_dataset

    if data_dir is None:
        rows: Rows = load_dataset(source.path, source.config, split=split, revision=source.revision)
        return rows
    found = [
        path
        for kind in ("jsonl", "json", "parquet")
        if (path := data_dir / name / f"{split}.{kind}").is_file()
    ]
    if not found:
        raise ValueError(f"no {name}/{split}.jsonl, .json or .parquet in {data_dir}")
    reader: Any = Dataset.from_parquet if found[0].suffix == ".parquet" else Dataset.from_json
    with TemporaryDirectory() as cache_dir:
        local: Rows = reader(str(found[0]), cache_dir=cache_dir, keep_in_memory=True)
    return local


def _example(line: str, labelled: bool, **defaults: str) -> Example:
    try:
        fields = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ValueError("no JSON object")
    fields = defaults | {name: value for name, value in fields.items() if value is not None}
    for name in ("id", "task", "prompt", "context", "reference"):
        if name in fields and not isinstance(fields[name], str):
            raise ValueError(f"field '{name}' is not a string")
    if not fields.get("prompt"):
        raise ValueError("field 'prompt' is missing or empty")
    optional = {"context": fields["context"]} if "context" in fields else {}
    return Example(
        id=fields["id"],
        task=fields["task"],
        prompt=fields["prompt"],
        references=_references(fields, labelled),
        stop=_strings(fields, "stop"),
        **optional,
        **_numbers(fields),
    )


def _references(fields: Row, labelled: bool) -> tuple[str, ...]:
    first = [fields["reference"]] if "reference" in fields else []
    references = _distinct([*first, *_strings(fields, "references")])
    if labelled and not references:
        raise ValueError("field 'reference' or 'references' is missing or empty")
    return references


def _strings(fields: Row, name: str) -> tuple[str, ...]:
    values = fields.get(name, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"field '{name}' is not a list of strings")
    return tuple(values)


def _numbers(fields: Row) -> dict[str, Any]:
    numbers = {name: fields[name] for name in ("max_new_tokens", "fame") if name in fields}
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(
            value, int if name == "max_new_tokens" else int | float
        ):
            raise ValueError(f"field '{name}' is not a number")
    if numbers.get("max_new_tokens", 1) < 1:
        raise ValueError("field 'max_new_tokens' is below 1")
    return numbers


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _drawn(rows: Rows, rng: np.random.RandomState) -> list[Row]:
    return [
        rows[int(i)] for i in rng.choice(len(rows), size=min(_NUM_SHOTS, len(rows)), replace=False)
    ]


def _by_subject(rows: Rows) -> dict[str, list[Row]]:
    subjects: dict[str, list[Row]] = {}
    for row in rows:
        subjects.setdefault(row["subject"], []).append(row)
    return subjects


def _mmlu_question(row: Row) -> str:
    choices = "\n".join(
        f"{letter}. {choice}" for letter, choice in zip(_LETTERS, row["choices"], strict=True)
    )
    return f"Q:{row['question'].strip()}\n{choices}\nAnswer:"


_GSM8K_SHOTS = """\
Q: There are 15 trees in the grove. Grove workers will plant trees in the grove today. After they \
are done, there will be 21 trees. How many trees did the grove workers plant today?
A: There are 15 trees originally. Then there were 21 trees after some more were planted. So there \
must have been 21 - 15 = 6. The answer is 6.

Q: If there are 3 cars in the parking lot and 2 more cars arrive, how many cars are in the parking \
lot?
A: There are originally 3 cars. 2 more cars arrive. 3 + 2 = 5. The answer is 5.

Q: Leah had 32 chocolates and her sister had 42. If they ate 35, how many pieces do they have left \
in total?
A: Originally, Leah had 32 chocolates. Her sister had 42. So in total they had 32 + 42 = 74. After \
eating 35, they had 74 - 35 = 39. The answer is 39.

Q: Jason had 20 lollipops. He gave Denny some lollipops. Now Jason has 12 lollipops. How many \
lollipops did Jason give to Denny?
A: Jason started with 20 lollipops. Then he had 12 after giving some to Denny. So he gave Denny 20 \
- 12 = 8. The answer is 8.

Q: Shawn has five toys. For Christmas, he got two toys each from his mom and dad. How many toys \
does he have now?
A: Shawn started with 5 toys. If he got 2 toys each from his mom and dad, then that is 4 more \
toys. 5 + 4 = 9. The answer is 9.

Q: There were nine computers in the server room. Five more computers were installed each day, from \
monday to thursday. How many computers are now in the server room?
A: There were originally 9 computers. For each of 4 days, 5 more computers were added. So 5 * 4 = \
20 computers were added. 9 + 20 is 29. The answer is 29.

Q: Michael had 58 golf balls. On tuesday, he lost 23 golf balls. On wednesday, he lost 2 more. How \
many golf balls did he have at the end of wednesday?
A: Michael started with 58 golf balls. After losing 23 on tuesday, he had 58 - 23 = 35. After \
losing 2 more, he had 35 - 2 = 33 golf balls. The answer is 33.

Q: Olivia has $23. She bought five bagels for $3 each. How much money does she have left?
A: Olivia had 23 dollars. 5 bagels for 3 dollars each will be 5 x 3 = 15 dollars. So she has 23 - \
15 dollars left. 23 - 15 is 8. The answer is 8."""
