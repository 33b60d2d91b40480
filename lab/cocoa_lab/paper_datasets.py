"""The datasets of the CoCoA paper, as they lie on the hub, with their prompts and shots.

Wording, shots, stops and limits are those of LM-Polygraph's "continuation" configurations, which
the paper extends (Vashurin et al. 2025), and `max_new_tokens` is the paper's; what is ours stands
in each docstring. The functions from rows to examples have been tried on small local files of the
same schema, not on the hub's data.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cocoa_lab.examples import Example, distinct

_STOP = ("\n",)
_NUM_SHOTS = 5
_MMLU_MAX_SUBJECT_ROWS = 100
_LETTERS = "ABCD"
_LANGUAGES = {"de": "German", "en": "English", "fr": "French"}

DatasetRow = Mapping[str, Any]


class DatasetRows(Protocol):
    """Rows by number: a list, or a dataset of the `datasets` package."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...


# From a dataset's rows and the rows of its shots to examples.
Builder = Callable[[DatasetRows, DatasetRows], list[Example]]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a named dataset lies on the hub, and the function that makes its examples."""

    path: str
    split: str
    build: Builder
    config: str | None = None
    shots: str | None = None
    revision: str | None = None


def trivia_qa(rows: DatasetRows, train: DatasetRows) -> list[Example]:
    """TriviaQA (rc.nocontext): five shots of the training rows, drawn once.

    The references are all aliases.

    The draw is LM-Polygraph's, RandomState(1). Ours: the normalized value joins the references.
    """
    told = ""
    for shot in _drawn_shots(train, np.random.RandomState(1)):
        told += (
            f"Question: {shot['question'].strip()}\nAnswer:{shot['answer']['normalized_value']}\n"
        )
    examples = []
    for number, row in enumerate(rows):
        answer = row["answer"]
        example = Example(
            id=f"trivia_qa-{number}",
            task="trivia_qa",
            prompt=f"{told}Question: {row['question']}\nAnswer:",
            references=distinct([*answer["aliases"], answer["normalized_value"]]),
            max_new_tokens=20,
            stop=_STOP,
        )
        examples.append(example)
    return examples


def gsm8k(rows: DatasetRows, _: DatasetRows) -> list[Example]:
    """GSM8k: the eight worked examples of Wei et al. 2022.

    The reference keeps its reasoning and `#### number`.
    """
    examples = []
    for number, row in enumerate(rows):
        example = Example(
            id=f"gsm8k-{number}",
            task="gsm8k",
            prompt=f"{_GSM8K_SHOTS}\n\nQ: {row['question']}\nA:",
            references=(row["answer"],),
            max_new_tokens=256,
            stop=_STOP,
        )
        examples.append(example)
    return examples


def wmt(name: str, source: str, target: str) -> Builder:
    """WMT without shots; the context is the sentence to translate."""
    intro = (
        f"Here is a sentence in {_LANGUAGES[source]} language "
        f"and its translation in {_LANGUAGES[target]} language."
    )

    def build(rows: DatasetRows, _: DatasetRows) -> list[Example]:
        examples = []
        for number, row in enumerate(rows):
            sentence, translation = row["translation"][source], row["translation"][target]
            example = Example(
                id=f"{name}-{number}",
                task=name,
                prompt=f"{intro}\n\nOriginal:\n{sentence}\nTranslation:\n",
                references=(translation,),
                context=sentence,
                max_new_tokens=107,
                stop=_STOP,
            )
            examples.append(example)
        return examples

    return build


def coqa(rows: DatasetRows, _: DatasetRows) -> list[Example]:
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
        turns = zip(row["questions"], row["answers"]["input_text"], strict=True)
        for turn, (question, answer) in enumerate(turns):
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


def mmlu(rows: DatasetRows, dev: DatasetRows) -> list[Example]:
    """MMLU: at most 100 questions a subject, each after five shots.

    The shots are the subject's development rows in a drawn order.

    Subjects stand in alphabetical order, and the draws are LM-Polygraph's, RandomState(1). The
    reference is a letter.
    """
    rng = np.random.RandomState(1)
    subjects, shots = _by_subject(rows), _by_subject(dev)
    examples = []
    for subject in sorted(subjects):
        told = (
            "The following are multiple choice questions (with answers) "
            f"about {subject.replace('_', ' ')}.\n\n"
        )
        for shot in _drawn_shots(shots[subject], rng):
            told += f"{_mmlu_question(shot)}{_LETTERS[shot['answer']]}\n"
        for number, row in enumerate(subjects[subject][:_MMLU_MAX_SUBJECT_ROWS]):
            example = Example(
                id=f"mmlu-{subject}-{number}",
                task="mmlu",
                prompt=told + _mmlu_question(row),
                references=(_LETTERS[row["answer"]],),
                max_new_tokens=3,
                stop=_STOP,
            )
            examples.append(example)
    return examples


def xsum(rows: DatasetRows, _: DatasetRows) -> list[Example]:
    """XSum without shots; the context is the article."""
    intro = "Here's the text and it's short one-sentence summary."
    examples = []
    for number, row in enumerate(rows):
        example = Example(
            id=f"xsum-{number}",
            task="xsum",
            prompt=f"{intro}\n\nText:\n{row['document']}\n\nSummary (one sentence):\n",
            references=(row["summary"],),
            context=row["document"],
            max_new_tokens=56,
            stop=_STOP,
        )
        examples.append(example)
    return examples


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


def _drawn_shots(rows: DatasetRows, rng: np.random.RandomState) -> list[DatasetRow]:
    chosen = rng.choice(len(rows), size=min(_NUM_SHOTS, len(rows)), replace=False)
    return [rows[int(i)] for i in chosen]


def _by_subject(rows: DatasetRows) -> dict[str, list[DatasetRow]]:
    subjects: dict[str, list[DatasetRow]] = {}
    for row in rows:
        subjects.setdefault(row["subject"], []).append(row)
    return subjects


def _mmlu_question(row: DatasetRow) -> str:
    lettered = zip(_LETTERS, row["choices"], strict=True)
    choices = "\n".join(f"{letter}. {choice}" for letter, choice in lettered)
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
