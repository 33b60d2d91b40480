"""How good an answer is, against its references or its context.

These are the measures by which scores are judged.

A measure gives one value per answer, higher = better, NaN where it is undefined. The judge is in
`judge.py`: it asks a server, and so it is asynchronous and in no table.
"""

import importlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib.util import find_spec
from typing import Any

import numpy as np

from app.lab.datasets import Example
from models.estimators.overlap import rouge_l_f, word_stems
from models.records import Array, Pair
from models.similarity.align import AlignModel
from models.similarity.protocol import PairModel

_Score = Callable[[Sequence[str], Sequence[Example], PairModel | None], Array]

_LETTER = re.compile(r"\W*([A-D])\b")
# A sign counts where no operand stands before it; commas only where they group thousands; U+2212 is
# a minus.
_NUMBER = re.compile(r"(?:(?<![\w)%])[-\u2212])?\$?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?")
_COMET_MODEL = "Unbabel/wmt22-comet-da"


@dataclass(frozen=True, slots=True)
class Measure:
    """A quality measure.

    Attributes:
        is_binary: whether its values are 0 and 1, so that ROC-AUC, ECE and Brier are defined.
        needs_model: whether it reads a pair model.
    """

    score: _Score
    is_binary: bool = False
    needs_model: bool = False

    def __call__(
        self, outputs: Sequence[str], examples: Sequence[Example], model: PairModel | None = None
    ) -> Array:
        """Values (n,) of n answers.

        Raises:
            ValueError: the lengths differ, or the pair model that the measure needs is not given.
        """
        if len(outputs) != len(examples):
            raise ValueError(f"{len(outputs)} outputs for {len(examples)} examples")
        if self.needs_model and model is None:
            raise ValueError("this quality measure needs a pair model")
        return self.score(outputs, examples, model)


def default_quality(task: str) -> str:
    """Name of the measure that the paper takes for a task.

    It is `exact_match` for the testbed and for files of one's own.
    """
    if task.startswith("wmt"):
        return "comet" if find_spec("comet") else "chrf"
    return _DEFAULTS.get(task, "exact_match")


def exact_match(output: str, example: Example) -> float:
    """1 where the stripped output equals one of the stripped references."""
    return float(output.strip() in {reference.strip() for reference in example.references})


def accuracy(output: str, example: Example) -> float:
    """1 where the output opens with the reference's letter, 0 with another or with none."""
    if (reference := choice(example.references[0])) is None:
        return float("nan")
    return float(choice(output) == reference)


def gsm8k(output: str, example: Example) -> float:
    """1 where the output's last number equals the reference's last after `####`."""
    if (reference := final_number(example.references[0].rpartition("####")[2])) is None:
        return float("nan")
    return float(final_number(output) == reference)


def rouge_l(output: str, example: Example) -> float:
    """F1 of the longest common subsequence of word stems, with the best reference. Lin 2004."""
    stems = word_stems(output)
    return max(rouge_l_f(stems, word_stems(reference)) for reference in example.references)


def chrf(output: str, example: Example) -> float:
    """Sentence chrF of sacrebleu with the best reference, in [0, 1]. Popović 2015."""
    from sacrebleu import sentence_chrf

    return (
        max(float(sentence_chrf(output, [reference]).score) for reference in example.references)
        / 100
    )


def bleu(output: str, example: Example) -> float:
    """Sentence BLEU of sacrebleu with the best reference, in [0, 1].

    Effective order and sacrebleu's own smoothing.
    """
    from sacrebleu import sentence_bleu

    return (
        max(float(sentence_bleu(output, [reference]).score) for reference in example.references)
        / 100
    )


def align(outputs: Sequence[str], examples: Sequence[Example], model: PairModel | None) -> Array:
    """Support of the output, the claim, by its best reference, the context. Zha et al. 2023.

    model: any pair classifier; AlignScore's chunks and sentences are laid over it here.
    """
    return _best_support(outputs, [example.references for example in examples], model)


def align_context(
    outputs: Sequence[str], examples: Sequence[Example], model: PairModel | None
) -> Array:
    """Support of the output by the example's own context, such as an article; NaN without one."""
    return _best_support(
        outputs, [() if e.context is None else (e.context,) for e in examples], model
    )


def comet(outputs: Sequence[str], examples: Sequence[Example], _: PairModel | None) -> Array:
    """COMET (wmt22-comet-da) with the best reference; the context is the source, NaN without one.

    Rei et al. 2020.

    Raises:
        ImportError: the optional package is not installed.
    """
    try:
        package: Any = importlib.import_module("comet")
    except ImportError as error:
        raise ImportError("the quality measure 'comet' needs the package unbabel-comet") from error
    asked = [
        (row, {"src": example.context, "mt": output, "ref": reference})
        for row, (output, example) in enumerate(zip(outputs, examples, strict=True))
        for reference in example.references
        if example.context is not None
    ]
    if not asked:
        return np.full(len(outputs), np.nan)
    model = package.load_from_checkpoint(package.download_model(_COMET_MODEL))
    scores = model.predict([data for _, data in asked], batch_size=8, gpus=0).scores
    return _best([row for row, _ in asked], scores, len(outputs))


def choice(text: str) -> str | None:
    """The letter A to D that a text opens with.

    >>> choice(" (B) because"), choice("Because")
    ('B', None)
    """
    found = _LETTER.match(text)
    return found[1] if found else None


def final_number(text: str) -> Decimal | None:
    """The last number of a text.

    >>> final_number("23 - 15 = 8 dollars, or $1,234.50.")
    Decimal('1234.50')
    """
    numbers = _NUMBER.findall(text)
    return (
        Decimal(numbers[-1].replace("\u2212", "-").replace("$", "").replace(",", ""))
        if numbers
        else None
    )


def _each(score: Callable[[str, Example], float]) -> _Score:
    def scores(outputs: Sequence[str], examples: Sequence[Example], _: PairModel | None) -> Array:
        return np.array(
            [score(output, example) for output, example in zip(outputs, examples, strict=True)]
        )

    return scores


def _best_support(
    outputs: Sequence[str], contexts: Sequence[tuple[str, ...]], model: PairModel | None
) -> Array:
    assert model is not None  # noqa: S101, `Measure` checks it
    rows: list[int] = []
    pairs: list[Pair] = []
    for row, (output, given) in enumerate(zip(outputs, contexts, strict=True)):
        rows += [row] * len(given)
        pairs += [(context.strip(), output.strip()) for context in given]
    is_empty = [not (context and claim) for context, claim in pairs]
    asked = [pair for pair, empty in zip(pairs, is_empty, strict=True) if not empty]
    scores = iter(AlignModel(model).score(asked).values[:, 0].tolist() if asked else [])
    # As everywhere: two empty texts are equal, an empty one and another have nothing in common.
    values = [
        float(a == b) if empty else next(scores)
        for (a, b), empty in zip(pairs, is_empty, strict=True)
    ]
    return _best(rows, values, len(outputs))


def _best(rows: Sequence[int], values: Sequence[float], num_rows: int) -> Array:
    """Largest value (num_rows,) of each row, NaN for a row that has none."""
    best = np.full(num_rows, np.nan)
    np.fmax.at(best, list(rows), np.asarray(values, dtype=np.float64))
    return best


QUALITY: dict[str, Measure] = {
    "exact_match": Measure(_each(exact_match), is_binary=True),
    "accuracy": Measure(_each(accuracy), is_binary=True),
    "gsm8k": Measure(_each(gsm8k), is_binary=True),
    "rouge_l": Measure(_each(rouge_l)),
    "chrf": Measure(_each(chrf)),
    "bleu": Measure(_each(bleu)),
    "align": Measure(align, needs_model=True),
    "align_context": Measure(align_context, needs_model=True),
    "comet": Measure(comet),
}

_DEFAULTS = {
    "mmlu": "accuracy",
    "gsm8k": "gsm8k",
    "coqa": "align",
    "trivia_qa": "align",
    "xsum": "align_context",
}
