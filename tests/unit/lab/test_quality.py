import sys
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pytest
import sacrebleu
from sacrebleu.metrics import BLEU

from cocoa_lab.examples import Example
from cocoa_lab.measures import MEASURES
from cocoa_lab.quality import (
    QUALITY,
    choice,
    default_quality,
    final_number,
    quality_names,
    score_by_task,
)
from tests.aligned import align_scores
from tests.fakes.pair_models import FakeNliModel, FakePairModel

pytestmark = pytest.mark.anyio


def example(*references, context=None):
    return Example("id", "task", "prompt", references, context=context)


def support_by(model):
    """AlignScore's scheme over a pair model."""

    async def support(pairs):
        return align_scores(model, pairs)

    return support


async def one(name, output, *references, context=None, model=None):
    support = None if model is None else support_by(model)
    (value,) = await QUALITY[name].score([output], [example(*references, context=context)], support)
    return value


@pytest.mark.parametrize(
    ("output", "references", "expected"),
    [
        pytest.param(" Paris\n", ["Paris"], 1, id="blanks"),
        pytest.param("Rome", ["Paris", " Rome "], 1, id="any reference"),
        pytest.param("paris", ["Paris"], 0, id="case counts"),
        pytest.param("", ["Paris"], 0, id="empty"),
        pytest.param("e\u0301te\u0301", ["\u00e9t\u00e9"], 1, id="decomposed"),
    ],
)
async def test_exact_match(output, references, expected):
    assert await one("exact_match", output, *references) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("B", "B"),
        ("b", "B"),
        ("Because", None),
        ("(b)", "B"),
        ("**C**", "C"),
        ("A train leaves at 5.", None),
        ("a) and b) are wrong, the answer is C", "C"),
        ("D-day", None),
        ("The answer is B", "B"),
        ("**Answer:** (b)", "B"),
        ("The correct answer is therefore not B.", None),
        ("The answer is A large dog", None),
        ("It is vitamin C.", None),
        ("Both A and B", None),
        ("Final answer\n\nB", "B"),
        ("C++ is a language.", None),
        ("\\boxed{B}", "B"),
        ('{"answer": "B"}', "B"),
        ("Die richtige Antwort lautet: B", "B"),
        ("答案是B。", "B"),
        ("La respuesta correcta es B.", "B"),
        ("Respuesta correcta: la B", "B"),
        ("B is wrong. C is right.", "C"),
        ("A, B, and C are all wrong, so D.", "D"),
        ("A? No, B.", "B"),
        ("It must be B, not A.", "B"),
        ("The answer is not A but C.", "C"),
        ("I don't think it is A; it is D.", "D"),
        ("Between A and B, B.", "B"),
        ("A, B", None),
        ("The answer is A or B", None),
        ("the answer is a", "A"),
        ("the answer is a dog", None),
        ("A\n\nBecause it is so.", "A"),
        ("Because D.", "D"),
        ("\uff22", "B"),
        ("\u24b8 is it", "C"),
        ("A must be right", "A"),
        ("Franklin D. Roosevelt", None),
        ("", None),
    ],
)
def test_the_letter_that_a_text_opens_with_or_names_as_its_answer(text, expected):
    assert choice(text) == expected


async def test_what_nobody_sees_is_no_difference():
    seen = [example("Paris")] * 2
    values = await QUALITY["exact_match"].score(["\ufeffPar\u00adis\u200b", "Pari"], seen)
    assert values.tolist() == [1, 0]


async def test_accuracy_compares_letters():
    examples = [example("B"), example("B"), example("B"), example("newton")]

    values = await QUALITY["accuracy"].score([" B.", " C", "newton", "B"], examples)

    assert values == pytest.approx([1, 0, 0, np.nan], nan_ok=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("The answer is 8.", "8", id="full stop"),
        pytest.param("5 bagels at 3 dollars: 5 x 3 = 15", "15", id="last of many"),
        pytest.param("It costs $1,234,567.50 in all.", "1234567.50", id="thousands and decimals"),
        pytest.param("The answer is 18.0", "18", id="equal decimals"),
        pytest.param("It fell by -5 degrees", "-5", id="sign"),
        pytest.param("a loss of -$20", "-20", id="sign before the currency"),
        pytest.param("so x = \u22127", "-7", id="typographic minus"),
        pytest.param("20-12", "12", id="a minus between operands"),
        pytest.param("(3+4)-2", "2", id="a minus after a bracket"),
        pytest.param("<<7*6=42>>42 eggs", "42", id="calculator notes"),
        pytest.param("It is .5", "0.5", id="no digit before the point"),
        pytest.param("It is 1\u202f234.", "1234", id="thousands by blanks"),
        pytest.param("so 12{,}500", "12500", id="thousands of LaTeX"),
        pytest.param("in all 1'000 francs", "1000", id="thousands by apostrophes"),
        pytest.param("\u0661\u0662\u066c\u0663\u0664\u0665\u066b\u0665", "12345.5", id="Arabic"),
        pytest.param("fell to \u20135", "-5", id="a dash as minus"),
        pytest.param("from 3\u20135", "5", id="a dash between"),
        pytest.param("no number", None, id="none"),
        pytest.param("", None, id="empty"),
    ],
)
def test_the_final_number_of_a_text(text, expected):
    assert final_number(text) == (None if expected is None else Decimal(expected))


@pytest.mark.parametrize(
    ("output", "reference", "expected"),
    [
        pytest.param(
            " 7 * 6 = 42. The answer is 42.", "Seven times 6 is 42 eggs.\n#### 42", 1, id="right"
        ),
        pytest.param("The answer is $1,200.00.", "It costs 1200.\n#### 1,200", 1, id="notation"),
        pytest.param("The answer is 41.", "#### 42", 0, id="wrong"),
        pytest.param("42 is not it. The answer is -42.", "#### 42", 0, id="sign"),
        pytest.param("I do not know.", "#### 42", 0, id="no number"),
        pytest.param("42", "42", 1, id="reference without the mark"),
        pytest.param("42", "none", np.nan, id="reference without a number"),
    ],
)
async def test_gsm8k_compares_final_numbers(output, reference, expected):
    assert await one("gsm8k", output, reference) == pytest.approx(expected, nan_ok=True)


async def test_rouge_l_takes_the_best_reference():
    # Common "the cat", 2 of 3 and 2 of 2 words: F = 0.8.
    assert await one("rouge_l", "the cat sat", "a dog", "The cats") == pytest.approx(0.8)
    assert await one("rouge_l", "", "a dog") == 0


TEXTS = [
    ("The cat is sleeping on the mat.", ["The cat sleeps on the mat."]),
    ("Il dort", ["It has been raining since yesterday.", "It rains."]),
    ("It has been raining since yesterday.", ["It has been raining since yesterday.", "It rains."]),
    ("", ["The cat sleeps."]),
]


@pytest.mark.parametrize(("output", "references"), TEXTS)
async def test_chrf_is_sacrebleus_of_a_corpus_of_one_with_the_best_reference(output, references):
    expected = (
        max(sacrebleu.corpus_chrf([output], [[reference]]).score for reference in references) / 100
    )

    assert await one("chrf", output, *references) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("output", "reference", "tokenize"),
    [
        ("我住在北京。", "我住在北京市。", "zh"),
        ("私は東京に住んでいます。", "私は東京に住んでいる。", "char"),
        ("ฉันรักประเทศไทย", "ฉันรักเมืองไทย", "char"),
        ("북경에 살아요 지금", "북경에 살아요 오늘", "13a"),
    ],
    ids=["Chinese", "Japanese", "Thai", "Korean"],
)
async def test_bleu_tells_words_by_script(output, reference, tokenize):
    metric = BLEU(effective_order=True, tokenize=tokenize)
    expected = metric.corpus_score([output], [[reference]]).score / 100

    found = await one("bleu", output, reference)
    assert found == pytest.approx(expected, abs=1e-12)
    assert found > 0.2


@pytest.mark.parametrize(("output", "references"), TEXTS)
async def test_bleu_is_sacrebleus_of_a_corpus_of_one_with_the_best_reference(output, references):
    metric = BLEU(effective_order=True)
    expected = (
        max(metric.corpus_score([output], [[reference]]).score for reference in references) / 100
    )

    assert await one("bleu", output, *references) == pytest.approx(expected, abs=1e-12)


async def test_align_is_the_support_of_the_outputs_sentences_by_the_best_reference():
    # The fake scores the share of the context's words that the claim has; the model sees all pairs
    # in one call.
    model = FakeNliModel()
    examples = [example("it is rome", "is paris"), example("x")]

    values = await QUALITY["align"].score(["it is paris", "y"], examples, support_by(model))

    assert values == pytest.approx([1.0, 0.0])
    assert model.batches == [3]


async def test_align_of_the_context_ignores_the_references():
    assert await one(
        "align_context", "b d", "b d", context="a b c d", model=FakePairModel()
    ) == pytest.approx(0.5)
    assert np.isnan(await one("align_context", "b d", "b d", model=FakePairModel()))


@pytest.mark.parametrize(
    ("output", "reference", "expected"), [(" ", "", 1), ("", "a", 0), ("a", " ", 0)]
)
async def test_align_of_empty_texts_asks_no_model(output, reference, expected):
    model = FakePairModel()

    assert await one("align", output, reference, model=model) == expected
    assert model.batches == []


async def test_align_without_a_model_is_refused():
    with pytest.raises(ValueError, match="needs a pair model"):
        await one("align", "a", "b")


async def test_lengths_must_agree():
    with pytest.raises(ValueError, match="1 outputs for 2 examples"):
        await QUALITY["exact_match"].score(["a"], [example("a"), example("b")])


def test_the_command_line_names_every_measure():
    assert tuple(QUALITY) == MEASURES


@pytest.mark.parametrize("name", sorted(QUALITY.keys() - {"comet"}))
async def test_no_answers_have_no_values(name):
    values = await QUALITY[name].score([], [], support_by(FakePairModel()))

    assert values.shape == (0,)


@pytest.mark.parametrize(
    ("name", "output", "references", "expected"),
    [
        ("accuracy", "B", ["A", "B"], 1),
        ("accuracy", "C", ["A", "B"], 0),
        ("accuracy", "B", ["None of them", "B"], 1),
        ("gsm8k", "It is 5.", ["#### 4", "#### 5"], 1),
        ("gsm8k", "It is 6.", ["#### 4", "five"], 0),
        ("fields", '{"a": 2, "b": 3}', ['{"a": 1, "b": 2}', '{"a": 2, "b": 4}'], 0.5),
        ("fields", "Paris", ['{"a": 1}', '{"a": 2}'], 0),
    ],
)
async def test_the_best_of_several_references_counts(name, output, references, expected):
    assert await one(name, output, *references) == expected


@pytest.mark.parametrize("name", ["exact_match", "contains", "rouge_l", "chrf", "bleu"])
async def test_a_letter_with_its_accent_is_one_however_it_is_coded(name):
    assert await one(name, "e\u0301te\u0301", "\u00e9t\u00e9") == pytest.approx(1)


@pytest.mark.parametrize(
    ("name", "none", "some"),
    [
        ("gsm8k", example("four"), example("#### 4")),
        ("accuracy", example("It is Paris."), example("A")),
        ("fields", example("Paris"), example('{"a": 1}')),
        ("align_context", example("r"), example("r", context="c")),
        ("facts", example("r"), replace(example("r"), judge=object())),
        ("run_code", example("r"), example("r", context='{"function": "f", "tests": []}')),
    ],
)
async def test_a_measure_that_can_measure_no_answer_says_so_before_there_is_any(name, none, some):
    with pytest.raises(ValueError, match=r"no example of the task task has .*: id among them"):
        QUALITY[name].check_examples([none, none])
    QUALITY[name].check_examples([none, some])
    QUALITY["contains"].check_examples([none])
    if name == "fields":
        assert np.isnan(await one("fields", "{}", "Paris"))


def test_binary_measures_are_flagged():
    assert {name for name, measure in QUALITY.items() if measure.is_binary} == {
        "exact_match",
        "contains",
        "accuracy",
        "gsm8k",
        "run_code",
    }
    assert {name for name, measure in QUALITY.items() if measure.needs_support} == {
        "align",
        "align_context",
    }


@pytest.mark.parametrize(
    ("task", "quality"),
    [
        ("mmlu", "accuracy"),
        ("gsm8k", "gsm8k"),
        ("coqa", "align"),
        ("trivia_qa", "align"),
        ("xsum", "align_context"),
        ("facts", "exact_match"),
        ("mine", "exact_match"),
    ],
)
def test_the_default_quality_of_a_task(task, quality):
    assert default_quality(task) == quality


async def test_answers_are_run_by_a_measure_that_is_named_alone():
    with pytest.raises(ValueError, match="judged by running them: add --quality run_code, which"):
        default_quality("atlas-code")
    context = '{"function": "f", "tests": [[[1], 2]]}'
    assert await one("run_code", "def f(n):\n    return n + 1", "r", context=context) == 1
    assert await one("run_code", "def f(n):\n    return n", "r", context=context) == 0
    assert np.isnan(await one("run_code", "def f(n):\n    return n", "r"))


@pytest.mark.parametrize(("installed", "quality"), [(True, "comet"), (False, "chrf")])
def test_translations_are_judged_by_comet_where_it_is_installed(monkeypatch, installed, quality):
    monkeypatch.setattr("cocoa_lab.quality.find_spec", lambda name: object() if installed else None)

    assert default_quality("wmt14_fren") == default_quality("wmt19_deen") == quality


async def test_comet_that_is_not_installed_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "comet", None)

    with pytest.raises(ImportError, match="unbabel-comet"):
        await one("comet", "a", "b", context="c")


async def test_comet_gets_source_output_and_reference(monkeypatch):
    asked = []

    def predict(data, *, batch_size, gpus):
        asked.extend(data)
        return SimpleNamespace(scores=[len(row["ref"]) / 10 for row in data])

    fake = SimpleNamespace(
        download_model=lambda name: name,
        load_from_checkpoint=lambda path: SimpleNamespace(predict=predict),
    )
    monkeypatch.setitem(sys.modules, "comet", fake)

    values = await QUALITY["comet"].score(
        ["mt", "x"], [example("re", "refs", context="src"), example("r")]
    )

    assert values == pytest.approx([0.4, np.nan], nan_ok=True)
    assert asked == [
        {"src": "src", "mt": "mt", "ref": "re"},
        {"src": "src", "mt": "mt", "ref": "refs"},
    ]


async def test_each_answer_is_measured_by_the_measure_of_its_task():
    examples = [
        Example("0", "facts", "p", ("Paris",)),
        Example("1", "sums", "p", ("#### 3",)),
        Example("2", "facts", "p", ("Rome",)),
        Example("3", "others", "p", ("x",)),
    ]
    measures = {"facts": QUALITY["exact_match"], "sums": QUALITY["gsm8k"]}

    values = await score_by_task(["Paris", "is 3", "Oslo", "x"], examples, measures, None)

    assert values == pytest.approx([1, 1, 0, np.nan], nan_ok=True)


def test_a_named_measure_serves_all_tasks_and_else_each_has_its_own():
    examples = [Example("0", "mmlu", "p", ("A",)), Example("1", "mine", "p", ("x",))]

    assert quality_names(examples, None) == {"mmlu": "accuracy", "mine": "exact_match"}
    assert quality_names(examples, "chrf") == {"mmlu": "chrf", "mine": "chrf"}


def test_any_number_of_letters_in_brackets_is_read_in_one_way():
    assert choice(",[[a]" * 500) is None
