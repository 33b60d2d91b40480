"""Expected values by an independent implementation (see "source" in units.json)."""

import codecs
import json

import numpy as np
import pytest

from app.scoring.units import summary
from models.engines.tags import Tags
from models.estimators import ESTIMATORS, score
from models.units.characters import TokenSpans, overlapping, spans_of_texts
from models.units.fields import compared, fields
from models.units.json_values import parse
from models.units.prose import sentences, supported
from models.units.unit import Unit
from tests.golden.plain import golden_file

GOLDEN = golden_file("units.json")
TOLERANCE = GOLDEN["tolerance"]


def cases(name):
    return pytest.mark.parametrize("case", GOLDEN[name], ids=lambda case: case["name"])


def near(value):
    return pytest.approx(value, rel=TOLERANCE, abs=TOLERANCE)


def statistics(case):
    names = {"answer_token_logprobs": "token_logprobs", "answer_token_entropies": "token_entropies"}
    return {name: np.array(case[raw]) for name, raw in names.items() if raw in case}


@cases("reasoning")
def test_a_reasoned_answer_is_scored_by_the_tokens_behind_its_reasoning(case):
    tags = Tags(case["start"], case["end"])
    token_texts, ended = case["token_texts"], case["ends_with_eos"]
    reasoning, said = tags.part(token_texts, opened=case["opened"], ended=ended)
    state = "none"
    if reasoning is not None:
        state = "finished" if reasoning.is_finished else "unfinished"
    expected = case["expected"]
    num_tokens = len(case["token_logprobs"])
    num_thoughts = 0 if reasoning is None else reasoning.num_tokens
    begins = num_tokens if state == "unfinished" else num_thoughts
    answer = Unit("answer", said, np.arange(begins, num_tokens))

    scores, _ = score(["sp", "ppl", "mte"], *answer.cut(statistics(case)))

    assert (state, num_thoughts) == (expected["state"], expected["reasoning_tokens"])
    assert (said, said.strip()) == (expected["answer_text"], expected["compared_text"])
    if state == "unfinished":
        assert set(scores.values()) == {expected["sp"]} == {None}
    else:
        assert scores == near({name: expected[name] for name in scores})


@cases("sentences")
def test_sentences_have_the_golden_tokens_support_and_scores(case):
    tokens = spans_of_texts(case["token_texts"])
    units = sentences(case["text"], case["spans"], tokens)
    chunks = [[np.array(one) for one in case[name]] for name in ("entailment", "contradiction")]
    units = supported(units, *chunks)
    names = [name for name in case["expected"]["units"][0] if name in ESTIMATORS]
    assert len(names) == 7
    scored = []

    for unit, expected in zip(units, case["expected"]["units"], strict=True):
        scores, reasons = score(names, *unit.cut(statistics(case)))

        assert not reasons
        assert list(unit.spans) == [tuple(expected["span"])]
        assert unit.tokens.tolist() == list(range(*expected["tokens"]))
        measured = {"support": unit.support, "contradiction": unit.contradiction}
        assert scores | measured == near({name: expected[name] for name in {*scores, *measured}})
        scored.append(scores)
    for name, mean in case["expected"]["units_mean"].items():
        greatest = case["expected"]["units_max"][name]
        assert summary(scores[name] for scores in scored) == near((mean, greatest))


@cases("fields")
def test_fields_have_the_golden_values_and_agreement(case):
    text = json.dumps(case["answer"])
    answer = parse(text)
    samples = [None if one is None else parse(json.dumps(one)) for one in case["samples"]]
    known = {tuple(key.split("|")): value for key, value in case["similarity"].items()}

    def similarity(first, second):
        return known[tuple(sorted((first, second)))]

    units = fields(answer, text, spans_of_texts([text]))
    units, _ = compared(units, answer, samples, case["schema"], similarity)

    expected = case["expected"]
    assert {unit.path: json.loads(unit.text) for unit in units} == expected["values"]
    assert {unit.path: unit.support for unit in units} == near(expected["agreement"])


@cases("values")
def test_json_values_have_the_golden_spans_tokens_and_probability(case):
    tokens = spans_of_texts(case["token_texts"])
    units = fields(parse(case["text"]), case["text"], tokens)

    assert {unit.path for unit in units} == case["expected"].keys()
    for unit in units:
        expected = case["expected"][unit.path]
        assert unit.spans == (tuple(expected["span"]),)
        assert unit.tokens.tolist() == list(range(*expected["tokens"]))
        assert score(["sp"], *unit.cut(statistics(case))) == ({"sp": near(expected["sp"])}, {})


@cases("characters")
def test_tokens_lie_on_every_character_of_which_they_hold_a_byte(case):
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    starts, ends, num_decoded = [], [], 0
    pieces = [bytes.fromhex(one) for one in case["token_bytes"]]
    for piece in filter(None, pieces):
        starts.append(num_decoded)
        num_decoded += len(decoder.decode(piece))
        incomplete, _ = decoder.getstate()  # the bytes of a character that later tokens complete
        ends.append(num_decoded + bool(incomplete))
    held = [index for index, piece in enumerate(pieces) if piece]
    tokens = TokenSpans(*(np.array(one, np.intp) for one in (held, starts, ends)))

    indices = overlapping(tokens, [case["span"]])

    assert indices.tolist() == list(range(*case["expected"]["tokens"]))
