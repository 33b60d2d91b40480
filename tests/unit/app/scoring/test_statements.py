"""Sentences and claims: asked of the NLI model, supported by its replies, scored as a part."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.scoring.ask import Ask
from app.scoring.derive import Evidence, token_statistics
from app.scoring.explaining import shaky_units
from app.scoring.questions import Subject
from app.scoring.statements import Statements
from app.scoring.units import scored as scored_by
from models.estimators import ESTIMATORS
from models.similarity.pairs import PairTable, TextRules
from models.similarity.protocol import NLI_LABELS
from models.units.characters import token_spans
from models.units.chunks import MAX_CHUNK_TOKENS
from models.units.parts import Parts, split
from models.units.prose import sentences
from tests.fakes.pair_models import pairs_read
from tests.golden.plain import golden_file
from tests.results import a_plan, sequence

GOLDEN = golden_file("units.json")
ANSWER = "Lima is big. It lies in Peru."
NAMES = ("sp", "ppl", "mte", "inconsistency", "cocoa_sp", "cocoa_ppl", "cocoa_mte")


def failed(name, error):
    raise AssertionError(f"{name}: {error!r}")


def ends_of(text):
    return [word.end() for word in re.finditer(r"\S+", text)]


def by_words(answer, samples):
    return Statements(split(sequence(answer), "sentences"), samples, None)


def made(answer, samples, max_units=100, tools=(), claims=None):
    into = "sentences" if claims is None else "claims"
    stated = split(answer, into, max_units=max_units, tools=tools, claims=claims or ())
    read = [*(unit.text for unit in stated.units), *samples]
    return Statements(stated, samples, {text: ends_of(text) for text in read}, tools)


def pairs_of(statements, question=""):
    return pairs_read(statements.parts, NLI_LABELS, TextRules(questions=(question,)))


def table(scores):
    return PairTable(NLI_LABELS, scores, TextRules())


def scored(answer, parts):
    subject = Subject(answer, None, ())
    statistics = token_statistics(subject) | {"similarity": np.ones(1)}
    evidence = Evidence(subject, statistics, {}, truncated=False)
    plan = a_plan(
        ask=Ask(prompt="?", units="sentences"),
        estimators=NAMES,
        primary="cocoa_sp",
        unit_estimators=NAMES,
        unit_primary=NAMES[4],
    )
    return scored_by(plan, evidence, parts, failed).units


@pytest.mark.parametrize("case", GOLDEN["sentences"], ids=lambda case: case["name"])
def test_golden_sentences_keep_their_scores_on_the_way_of_an_ask(case):
    spans, ends = list(map(tuple, case["spans"])), {}
    hypotheses = [case["text"][start:end] for start, end in spans]
    if len(set(hypotheses)) < len(hypotheses):
        pytest.skip("equal sentences that score differently")
    samples, scores = [], {}
    for number, (says, denies) in enumerate(
        zip(case["entailment"], case["contradiction"], strict=True)
    ):
        chunks = [f"{chr(97 + number)}{chr(97 + i)}" for i in range(len(says))]
        text = "".join(chunks)
        starts = np.cumsum([0, *map(len, chunks)]).tolist()
        samples.append(text)
        ends[text] = np.repeat(starts[1:], MAX_CHUNK_TOKENS).tolist()  # a chunk each
        for chunk, row, other in zip(chunks, says, denies, strict=True):
            for hypothesis, entails, contradicts in zip(hypotheses, row, other, strict=True):
                scores[chunk, hypothesis] = entails, 0.0, contradicts
    answer = sequence(
        case["text"],
        len(case["token_texts"]) + 1,
        token_texts=(*case["token_texts"], ""),
        token_logprobs=np.array(case["token_logprobs"]),
        token_entropies=np.array(case["token_entropies"]),
    )
    ends |= {hypothesis: [0] for hypothesis in hypotheses}
    stated = Parts(tuple(sentences(case["text"], spans, token_spans(answer))))
    statements = Statements(stated, samples, ends)

    # The chunks have no numbers: those of the sentences are known from the question.
    assert set(pairs_of(statements, case["text"])) == scores.keys()
    units = scored(answer, statements.parts(table(scores)))

    near = {"rel": GOLDEN["tolerance"], "abs": GOLDEN["tolerance"]}
    for one, expected in zip(units.units[1:], case["expected"]["units"], strict=True):
        measured = {"support": one.unit.support, "contradiction": one.unit.contradiction}
        names = {name for name in expected if name in ESTIMATORS} | measured.keys()
        found = {**one.scores, **measured}
        assert {name: found[name] for name in names} == pytest.approx(
            {name: expected[name] for name in names}, **near
        )
    for name, greatest in (("mean", units.mean), ("max", units.greatest)):
        assert greatest == pytest.approx(case["expected"][f"units_{name}"]["cocoa_sp"], **near)


def test_equal_samples_are_asked_once_and_equal_texts_not_at_all():
    sentences = made(sequence(ANSWER), ["Lima is big.", "Lima is big.", ""])

    assert sentences.num_pairs == 2
    [pair] = pairs_of(sentences)
    assert pair == ("Lima is big.", "It lies in Peru.")
    first, second = sentences.parts(table({pair: (0.25, 0.0, 0.75)})).units
    assert first.supports.tolist() == [1.0, 1.0, 0.0]
    assert first.contradictions.tolist() == [0.0, 0.0, 0.0]
    assert second.supports.tolist() == [0.25, 0.25, 0.0]
    assert second.denied_by() == [0, 1]
    assert first.denied_by() == []


def test_what_samples_say_instead_is_the_nearest_sentence_of_those_that_deny():
    samples = ["利马很大。它在智利。", "它在智利。", "它在巴西。", "它在厄瓜多尔。", "它在古巴。"]
    samples.append("好。")
    sentences = made(sequence("它在秘鲁。"), samples)
    scores = dict.fromkeys(pairs_of(sentences), (0.0, 0.0, 0.9))
    scores["好。", "它在秘鲁。"] = (0.0, 0.9, 0.1)

    [unit] = sentences.parts(table(scores)).units
    assert unit.alternatives == {"它在智利。": 2 / 6, "它在巴西。": 1 / 6, "它在厄瓜多尔。": 1 / 6}


def test_long_samples_are_read_in_chunks_and_long_sentences_to_their_limit():
    long = "x " * 8000 + "y."
    sentences = made(sequence(long), ["One is so. " * 200])

    [chunk, last] = sorted({premise for premise, _ in pairs_of(sentences)}, key=len, reverse=True)[
        :2
    ]
    [hypothesis] = {one for _, one in pairs_of(sentences)}
    assert len(chunk.split()) == 255
    assert chunk.startswith("One is so.")
    assert last.endswith("is so.")
    assert hypothesis == ("x " * 200).strip()
    scores = dict.fromkeys(pairs_of(sentences), (0.5, 0.5, 0.0))
    parts = sentences.parts(table(scores))
    assert parts.warnings == ("sentences_shortened",)
    assert parts.units[0].text == long


@pytest.mark.parametrize("text", ["", " \n", "```\nx = 1\n```", "..."])
def test_a_text_without_sentences_has_no_parts_and_says_so(text):
    sentences = made(sequence(text), ["Lima."])

    assert pairs_of(sentences) == []
    assert sentences.parts(table({})).warnings == ("no_sentences",)


def test_no_more_sentences_are_told_than_may_be():
    sentences = made(sequence("It is so. " * 1000), ["No."], max_units=3)

    parts = sentences.parts(table({("No.", "It is so."): (0.0, 0.0, 1.0)}))
    assert (len(parts.units), parts.is_whole, parts.num_pairs) == (3, False, 3)
    assert parts.warnings == ("units_cut",)


@given(st.lists(st.sampled_from(["Lima is old.", "It rains.", "He left in 1990."]), min_size=1))
def test_by_words_too_a_sentence_that_a_sample_has_is_supported(sentences):
    answer = " ".join(dict.fromkeys(sentences))
    units = by_words(answer, ["Nothing is known.", f"Well, well. {answer}"]).parts(table({})).units
    for unit in units:
        assert unit.supports[1] == 1.0


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        (
            {"Lima is big.": (0.9, 0.1, 0.0), "It lies in Peru.": (0.1, 0.0, 0.9)},
            'Shaky: 1 of 2 sentences, "It lies in Peru." '
            '(denied by 1 of 1 samples: "It is in Chile." (1)).',
        ),
        (
            {"Lima is big.": (0.9, 0.1, 0.0), "It lies in Peru.": (0.6, 0.0, 0.4)},
            "The samples support each sentence.",
        ),
    ],
    ids=["one is shaky", "none is"],
)
def test_one_sentence_says_which_are_shaky(scores, said):
    sample = "Lima is big. It is in Chile."
    sentences = made(sequence(ANSWER), [sample])
    parts = sentences.parts(table({(sample, text): one for text, one in scores.items()}))

    assert shaky_units(scored(sequence(ANSWER), parts)) == said
