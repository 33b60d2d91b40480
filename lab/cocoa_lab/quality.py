"""How good an answer is, against its references or its context; scores are judged by this.

A measure gives one value per answer, higher = better, NaN where it is undefined. The judge is in
`judge.py` and in no table, since it takes a server's address.
"""

import asyncio
import importlib
import re
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib.util import find_spec
from itertools import compress, repeat
from typing import Any

import numpy as np

from cocoa_lab.alignment import Support
from cocoa_lab.containing import grouped, says
from cocoa_lab.examples import Example
from cocoa_lab.judges import share_right
from cocoa_lab.overlap import NO_BLANKS, rouge_l_f, shown, word_stems
from cocoa_lab.programs import REFUSAL, check_held, checks_of, passes
from models.records import Array, Pair
from models.units.comparison import JsonComparer
from models.units.json_values import parsed
from models.units.schemas import rules

MeasureFunction = Callable[[Sequence[str], Sequence[Example], Support | None], Awaitable[Array]]

# The letter of an option: in brackets, or a capital; an "A" before a noun is an article.
_LATIN = r"[a-zA-Z\d_\u00c0-\u024f+#]"
_GOES_ON = "(?:and|are|as|because|but|can|est?|for|is|ist|must|nor|not|or|over|rather|seems|should"
_GOES_ON += "|since|so|was|would)"
_LETTER = (
    rf"(?<!{_LATIN})(?<!\w['\u2019.])(?:[a-d](?=[)\]])|[A-D](?!{_LATIN}|['\u2019.-]\w)"
    rf"(?<!A(?=[ \t]+(?!{_GOES_ON}\b)[^\W\d_])))"
)
# One way alone to read a bracket, of which there may be many.
_NEXT = r"[\W_]*?(?:(?:option|letter|answer|choice|la|the)\s+[(\[*]*)?"
_JOINED = rf"{_LETTER}(?:[)\].*]*\s*[,/]{_NEXT}{_LETTER})*[)\].*]*,?"
_LIST = rf"{_JOINED}\s*(?:&|\b(?:and|nor|or|et|ou|oder|und|y)\b){_NEXT}{_LETTER}"
_BOTH = rf"(?:{_LIST}|{_LETTER})"
_WRONG = r"(?:not\b|wrong|incorrect|false|falsch|faux|impossible|out\b|ruled)"
# What is said not to be the answer, or is a name: "rather than A", "A is wrong", "vitamin C".
_DENIED = re.compile(
    rf"(?i:\b(?:not|cannot|neither|nor|than|instead\s+of|over|nicht|pas|no\s+es|\w+n['\u2019]t)\s+"
    rf"(?:[^\W\d_]{{2,}}\s+){{,3}}){_NEXT}{_BOTH}"
    rf"|{_LIST}[)\]*]*\s+(?i:(?:are|sind|sont|son)\s+(?:all\s+|both\s+)?{_WRONG})"
    rf"|{_LETTER}[)\]*]*(?i:\s*:\s*{_WRONG}|\s+(?:is|was|ist|est?|looks|seems)\s+{_WRONG}"
    rf"|\s+(?:is|was|ca)n['\u2019]?t\b|\s+cannot\b"
    rf"|\s*[?.!,\u2026]+\s*(?:no\s*[,.!]|no\s+wait|wait|actually))"
    rf"|(?i:\b(?:vitamins?|hepatitis|plan|type|group|grade|class|appendix)|\d\s*\u00b0?)\s*{_LETTER}"
)
_SAID = "(?:is|was|are|be|would|should|must|the|correct|right|best|option|choice|letter|therefore)"
_IS = rf"(?:\s+{_SAID})*(?:\s+(?:is|was|be)|['\u2019]s|\s*[-:]|\s*\n)(?:\s+{_SAID})*"
# Of other languages "answer", what may follow it, and "is".
_ANSWERS = "(?:antwort|r[ée]ponse|respuesta|risposta|resposta|ответ|答案|答え|정답)"
_ANSWERS += r"(?:\s+[^\W\d_]{3,})?(?:\s+(?:ist|est|es|è|é)|\s*[:\uff1a是为은는])"
# A letter that is announced may be small, where it ends what is said.
_OPTION = rf"[\W_]*({_LETTER}|[a-d](?=\W*$|[.:;!?\n](?!\w)|,\s+\w\w|\s+(?:as|because|since)\b))"
_OPENING = re.compile(rf"\A{_OPTION}")
_ANSWER = re.compile(rf"(?i:\banswers?{_IS}\s*:?|{_ANSWERS}){_OPTION}")
_CHOOSES = re.compile(
    rf"(?i:\b(?:choose|pick|select|say|think|with|so|must\s+be|it(?:\s+is|\W?s)|option|one\s+is"
    rf"|choice|letter)(?:\s+(?:it\s+is|it\W?s|{_SAID}))*\s*:?){_OPTION}"
)
# Letters of which none is chosen.
_SEVERAL = re.compile(rf"{_LIST}|{_LETTER}(?:[)\].*]*\s*[,/]{_NEXT}{_LETTER})+")
# An initial of a name is no answer.
_ALONE = re.compile(rf"[A-Z]\w+(?<!ly)\s[A-D]\.\s(?!It|The|This)[A-Z]\w+|({_LETTER})")
# A sign counts where no operand stands before it; commas only where they group thousands; U+2212 is
# a minus.
_NUMBER = re.compile(
    r"(?:(?<![\w)%])[-\u2212\u2013])?\$?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<!\w)\.\d+)"
)
_ARABIC = {0x66B: ".", 0x66C: ","}
_PLAIN = {0x2212: "-", 0x2013: "-", ord("$"): "", ord(","): ""}
_NO_BLANKS = re.compile(f"[{NO_BLANKS}]")
_NOT_CHINESE = re.compile("[\u0e00-\u1fff\u3040-\u30ff]")
_COMET_MODEL = "Unbabel/wmt22-comet-da"


@dataclass(frozen=True, slots=True)
class Measure:
    """A quality measure.

    Attributes:
        function: values (n,) of n answers; `score` checks what it is given.
        is_binary: whether its values are 0 and 1, so that ROC-AUC and ECE are defined.
        needs_support: whether it asks how far texts support each other.
        can_measure: whether it can measure answers to an example at all.
        needs: what an example has whose answers it can measure.
    """

    function: MeasureFunction
    is_binary: bool = False
    needs_support: bool = False
    can_measure: Callable[[Example], bool] = bool
    needs: str = ""

    async def score(
        self, outputs: Sequence[str], examples: Sequence[Example], support: Support | None = None
    ) -> Array:
        """Values (n,) of n answers.

        Raises:
            ValueError: the lengths differ, or `support` is needed and None.
        """
        if len(outputs) != len(examples):
            raise ValueError(f"{len(outputs)} outputs for {len(examples)} examples")
        self.check(support)
        return await self.function(outputs, examples, support)

    def check(self, support: Support | None) -> None:
        """Refuse to measure without the support that the measure needs.

        Raises:
            ValueError: it is needed and None.
        """
        if self.needs_support and support is None:
            raise ValueError("this quality measure needs a pair model")

    def check_examples(self, examples: Iterable[Example]) -> None:
        """Refuse examples of which it can measure none.

        Raises:
            ValueError: it can measure none; names one of them.
        """
        left_out = None
        for example in examples:
            if self.can_measure(example):
                return
            left_out = example
        if left_out is not None:
            message = f"has {self.needs}, which the quality measure reads: {left_out.id} among them"
            raise ValueError(f"no example of the task {left_out.task} {message}")


async def score_by_task(
    outputs: Sequence[str],
    examples: Sequence[Example],
    measures: Mapping[str, Measure],
    support: Support | None,
) -> Array:
    """Quality (n,) of n answers, each by the measure of its task; NaN where its task has none."""
    values = np.full(len(outputs), np.nan)
    for task, measure in measures.items():
        own = np.array([example.task == task for example in examples])
        own_outputs, own_examples = list(compress(outputs, own)), list(compress(examples, own))
        values[own] = await measure.score(own_outputs, own_examples, support)
    return values


def quality_names(examples: Iterable[Example], name: str | None) -> dict[str, str]:
    """Name of the measure of each task: the given one, or the task's own."""
    names: dict[str, str] = {}
    for example in examples:
        names[example.task] = name or default_quality(example.task)
    return names


def default_quality(task: str) -> str:
    """Name of the measure that the paper takes for a task.

    It is `contains` for the atlas' questions, and `exact_match` for the testbed and for files of
    one's own.

    Raises:
        ValueError: answers are run by the measure, which has to be named.
    """
    if task == "atlas-code":
        raise ValueError(REFUSAL)
    if task.startswith("atlas/"):
        return "contains"
    if task.startswith("atlas-steps/"):
        return "gsm8k"
    if task.startswith("wmt"):
        if find_spec("comet"):
            return "comet"
        return "chrf"
    return _DEFAULTS.get(task, "exact_match")


def exact_match(output: str, example: Example) -> float:
    """1 where the stripped output equals one of the stripped references."""
    return float(_composed(output) in map(_composed, example.references))


def contains(output: str, example: Example) -> float:
    """1 where a reference occurs in the output as whole words (`cocoa_lab.containing.says`)."""
    return float(any(says(reference, output) for reference in example.references))


def fields(output: str, example: Example) -> float:
    """Share of the fields of the best reference, a JSON object, that the output has right.

    0 of what is no JSON, NaN where no reference is. A field is right that agrees wholly with the
    reference's, as in `cocoa_lab.parts.labelling`.
    """
    answer, shares = parsed(output), list[float]()
    for expected in filter(None, map(parsed, example.references)):
        shares.append(0.0)
        if answer is not None:
            asked = rules(expected, example.json_schema or {})
            compared = JsonComparer(asked, lambda first, second: 0.0).compare(expected, answer)
            shares[-1] = float(np.mean([one == 1 for one in compared.agreements.values()]))
    return max(shares, default=float("nan"))


async def facts(outputs: Sequence[str], examples: Sequence[Example], _: Support | None) -> Array:
    """Share of the output's sentences that the example's judge calls right; NaN without any."""
    shares = np.full(len(outputs), np.nan)
    for row, (output, example) in enumerate(zip(outputs, examples, strict=True)):
        if example.judge is not None:
            shares[row] = await share_right(output, example.judge)
    return shares


async def run_code(outputs: Sequence[str], examples: Sequence[Example], _: Support | None) -> Array:
    """1 where the function that the output holds passes the tests of the example's context."""
    values = np.full(len(outputs), np.nan)
    for row, (output, example) in enumerate(zip(outputs, examples, strict=True)):
        values[row] = await asyncio.to_thread(passes, output, example)
    return values


def accuracy(output: str, example: Example) -> float:
    """1 where the output names a reference's letter as its answer, 0 with another or none."""
    return _is_one_of(choice(output), map(choice, example.references))


def gsm8k(output: str, example: Example) -> float:
    """1 where the output's last number equals a reference's last after `####`."""
    return _is_one_of(final_number(output), map(_number_of, example.references))


def rouge_l(output: str, example: Example) -> float:
    """F1 of the longest common subsequence of word stems, with the best reference. Lin 2004."""
    stems = word_stems(output)
    return max(rouge_l_f(stems, word_stems(reference)) for reference in example.references)


def chrf(output: str, example: Example) -> float:
    """Sentence chrF of sacrebleu with the best reference, in [0, 1]. Popović 2015."""
    from sacrebleu import sentence_chrf

    output, references = _composed(output), map(_composed, example.references)
    return max(float(sentence_chrf(output, [text]).score) for text in references) / 100


def bleu(output: str, example: Example) -> float:
    """Sentence BLEU of sacrebleu with the best reference, in [0, 1].

    Effective order and sacrebleu's own smoothing. Words are told by the reference's script: those
    of sacrebleu's "13a" where there are blanks, of its "zh" in Chinese; elsewhere characters.
    """
    from sacrebleu import sentence_bleu

    scores: list[float] = []
    output = _composed(output)
    for text in map(_composed, example.references):
        tokenize = "13a"
        if _NO_BLANKS.search(text):
            tokenize = "char" if _NOT_CHINESE.search(text) else "zh"
        scores.append(float(sentence_bleu(output, [text], tokenize=tokenize).score))
    return max(scores) / 100


async def align(
    outputs: Sequence[str], examples: Sequence[Example], support: Support | None
) -> Array:
    """Support of the output, the claim, by its best reference, the context. Zha et al. 2023."""
    assert support is not None  # noqa: S101, `Measure.score` checks it
    return await _best_support(outputs, [example.references for example in examples], support)


async def align_context(
    outputs: Sequence[str], examples: Sequence[Example], support: Support | None
) -> Array:
    """Support of the output by the example's own context, such as an article; NaN without one."""
    assert support is not None  # noqa: S101, `Measure.score` checks it
    contexts: list[tuple[str, ...]] = []
    for example in examples:
        contexts.append(())
        if example.context is not None:
            contexts[-1] = (example.context,)
    return await _best_support(outputs, contexts, support)


async def comet(outputs: Sequence[str], examples: Sequence[Example], _: Support | None) -> Array:
    """COMET (wmt22-comet-da) with the best reference; the context is the source, NaN without one.

    Rei et al. 2020.

    Raises:
        ImportError: the optional package is not installed.
    """
    try:
        package: Any = importlib.import_module("comet")
    except ImportError as error:
        raise ImportError("the quality measure 'comet' needs the package unbabel-comet") from error
    rows, triples = [], []
    for row, (output, example) in enumerate(zip(outputs, examples, strict=True)):
        if example.context is None:
            continue
        for reference in example.references:
            rows.append(row)
            triples.append({"src": example.context, "mt": output, "ref": reference})
    scores: Sequence[float] = []
    if triples:
        scores = await asyncio.to_thread(_comet_scores, package, triples)
    return _best(rows, scores, len(outputs))


def _comet_scores(package: Any, triples: list[dict[str, str]]) -> Sequence[float]:
    model = package.load_from_checkpoint(package.download_model(_COMET_MODEL))
    scores: Sequence[float] = model.predict(triples, batch_size=8, gpus=0).scores
    return scores


def choice(text: str) -> str | None:
    r"""The letter A to D that a text names as the answer, opens with, or chooses.

    Else it is the only one that stands alone. Letters that are denied, and lists of them, are none.

    >>> choice(" (b) because"), choice("The answer is B."), choice("A train"), choice("Because")
    ('B', 'B', None, None)
    >>> choice("B is wrong. C is right."), choice("Not A but C."), choice("Either A or B.")
    ('C', 'C', None)
    """
    text = _SEVERAL.sub(" ", _DENIED.sub(" ", unicodedata.normalize("NFKC", text)))
    found = [*_ANSWER.finditer(text)] or [*_OPENING.finditer(text)] or [*_CHOOSES.finditer(text)]
    if found:
        return found[-1][1].upper()
    alone = set("".join(_ALONE.findall(text)).upper())
    return alone.pop() if len(alone) == 1 else None


def final_number(text: str) -> Decimal | None:
    """The last number of a text.

    >>> final_number("23 - 15 = 8 dollars, or $1,234.50.")
    Decimal('1234.50')
    """
    numbers = _NUMBER.findall(grouped(text.replace("{,}", ",").translate(_ARABIC)))
    if not numbers:
        return None
    return Decimal(numbers[-1].translate(_PLAIN))


def _composed(text: str) -> str:
    """The stripped text of what is seen, an accent and its letter as one character."""
    return unicodedata.normalize("NFC", shown(text)).strip()


def _number_of(reference: str) -> Decimal | None:
    return final_number(reference.rpartition("####")[2])


def _is_one_of(answer: object, references: Iterable[object]) -> float:
    """1 or 0; NaN where no reference says anything."""
    known = [one for one in references if one is not None]
    if not known:
        return float("nan")
    return float(answer in known)


def _each(score: Callable[[str, Example], float]) -> MeasureFunction:
    """The measure that scores each answer for itself."""

    async def scores(
        outputs: Sequence[str], examples: Sequence[Example], _: Support | None
    ) -> Array:
        return np.array([score(o, e) for o, e in zip(outputs, examples, strict=True)])

    return scores


async def _best_support(
    outputs: Sequence[str], contexts: Sequence[tuple[str, ...]], support: Support
) -> Array:
    rows: list[int] = []
    pairs: list[Pair] = []
    for row, (output, given) in enumerate(zip(outputs, contexts, strict=True)):
        rows += [row] * len(given)
        pairs += zip(map(str.strip, given), repeat(output.strip()))
    supports: dict[Pair, float] = {}
    if without_empty := list(filter(all, pairs)):
        supports.update(zip(without_empty, await support(without_empty), strict=True))
    # As everywhere: two empty texts are equal, an empty one and another have nothing in common.
    values = [supports.get(pair, float(pair[0] == pair[1])) for pair in pairs]
    return _best(rows, values, len(outputs))


def _best(rows: Sequence[int], values: Sequence[float], num_rows: int) -> Array:
    """Largest value (num_rows,) of each row, NaN for a row that has none."""
    best = np.full(num_rows, np.nan)
    np.fmax.at(best, list(rows), np.asarray(values, dtype=np.float64))
    return best


def _can_run(example: Example) -> bool:
    """Whether there are tests, which are to be run here.

    Raises:
        ValueError: a program cannot be held here.
    """
    if checks_of(example) is None:
        return False
    check_held()
    return True


QUALITY: dict[str, Measure] = {
    "exact_match": Measure(_each(exact_match), is_binary=True),
    "contains": Measure(_each(contains), is_binary=True),
    "accuracy": Measure(
        _each(accuracy),
        is_binary=True,
        can_measure=lambda example: any(map(choice, example.references)),
        needs="a reference that opens with a letter A to D",
    ),
    "gsm8k": Measure(
        _each(gsm8k),
        is_binary=True,
        can_measure=lambda example: {None} != {*map(_number_of, example.references)},
        needs="a number in its reference",
    ),
    "rouge_l": Measure(_each(rouge_l)),
    "chrf": Measure(_each(chrf)),
    "bleu": Measure(_each(bleu)),
    "align": Measure(align, needs_support=True),
    "align_context": Measure(
        align_context,
        needs_support=True,
        can_measure=lambda example: example.context is not None,
        needs="a context",
    ),
    "comet": Measure(comet),
    "fields": Measure(
        _each(fields),
        can_measure=lambda example: any(map(parsed, example.references)),
        needs="a reference that is a JSON object",
    ),
    "facts": Measure(
        facts, can_measure=lambda example: example.judge is not None, needs="a judge by rule"
    ),
    "run_code": Measure(
        run_code, is_binary=True, can_measure=_can_run, needs="tests of a function in its context"
    ),
}

_DEFAULTS = {
    "mmlu": "accuracy",
    "gsm8k": "gsm8k",
    "coqa": "align",
    "trivia_qa": "align",
    "xsum": "align_context",
    "atlas-json": "fields",
    "atlas-paragraph": "facts",
}
