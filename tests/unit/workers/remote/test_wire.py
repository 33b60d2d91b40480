"""What gateways and workers say to each other."""

import json
from dataclasses import replace

import numpy as np
import pytest

from models.codec import to_json
from models.records import GenerationRequest, GivenAnswer, SamplingParams, Token
from models.statistics import supplied_by
from tests.fakes.engine import FakeEngine
from tests.same import assert_same
from workers.protocol import FirstTokenReply, PairReply
from workers.remote import wire

REQUEST = GenerationRequest(
    messages=({"role": "user", "content": "Capital of France?\u2028\x85"},),
    chat_template_kwargs={"large": 2**70},
    sampling=SamplingParams(num_samples=3, max_new_tokens=8, seed=2**62, stop=("\n", "é")),
    statistics=supplied_by("answer", "samples"),
    answer=GivenAnswer(" Paris", append_eos=False),
    timeout_s=3.0,
)
EVERY_FIELD = GenerationRequest(
    prompt="a",
    messages=({"role": "user", "content": "é"},),
    chat_template_kwargs={"thinking": False, "depth": 2},
    sampling=SamplingParams(3, 5, 0.5, 7, 0.9, ("\n", "Q:"), 11, 0.6),
    statistics=frozenset({"sample_texts", "answer_token_logprobs"}),
    answer=GivenAnswer(" Paris", append_eos=False),
    hidden_layers=(2, 1),
    by_sentence=True,
    prompt_layer=3,
    timeout_s=0.1 + 0.2,
)
PAIRS = [("a", "b"), ("b", "a"), ("a", "é\u2028")]


def sent(kind, value):
    line = wire.line_of(kind, value)
    assert line.endswith(b"\n")
    return wire.decode_line(b"digest" + line.removesuffix(b"\n"), b"digest")


def result_of(value):
    kind, content = sent("result", value)
    assert kind == "result"
    return content


def generated(request):
    engine = FakeEngine()
    job = engine.prepare(request)
    engine.step([job])
    return engine.generation(job)


@pytest.mark.parametrize(
    "request_",
    [EVERY_FIELD, GenerationRequest(prompt="a"), GenerationRequest(messages=())],
    ids=["every field", "the defaults", "no prompt"],
)
def test_a_request_comes_back_with_every_field_but_its_deadline(request_):
    body = wire.encode_request(request_, streams=True)
    assert_same(wire.decode_generate(body).request, replace(request_, timeout_s=None))


def test_a_request_with_a_field_that_nobody_knows_is_none():
    body = wire.encode_request(EVERY_FIELD, streams=True)
    with pytest.raises(wire.Garbled):
        wire.decode_generate(body.replace(b'"prompt"', b'"secret": 1, "prompt"', 1))


def test_a_generation_comes_back_to_the_last_bit():
    request = replace(REQUEST, messages=None, prompt="Hello", chat_template_kwargs={}, answer=None)
    generation = generated(request)
    assert generation.samples
    value = result_of(generation)
    assert_same(wire.decode_generation(request, value), generation)


@pytest.mark.parametrize(
    "asked",
    [
        {"sampling": SamplingParams(num_samples=4, max_new_tokens=8)},
        {"statistics": supplied_by("answer")},
        {"statistics": supplied_by("samples") | {"answer_texts"}},
        {"hidden_layers": (1,)},
        {"prompt_layer": 1},
    ],
    ids=[
        "other samples",
        "samples unasked",
        "answer's numbers unasked",
        "no hidden states",
        "no state of the prompt",
    ],
)
def test_a_generation_that_answers_another_request_is_none(asked):
    request = replace(REQUEST, messages=None, prompt="Hello", chat_template_kwargs={}, answer=None)
    value = result_of(generated(request))
    with pytest.raises(wire.Garbled):
        wire.decode_generation(replace(request, **asked), value)


@pytest.mark.parametrize("wrong", [3, [1], {"predicted_dissimilarity": 0.5}, None])
def test_probe_readings_that_are_no_object_are_no_generation(wrong):
    request = replace(REQUEST, messages=None, prompt="Hello", chat_template_kwargs={}, answer=None)
    value = json.loads(result_of(generated(request))) | {"probe_readings": wrong}
    with pytest.raises(wire.Garbled):
        wire.decode_generation(request, to_json(value))


def test_pairs_come_back_in_order_and_each_text_travels_once():
    body = wire.encode_compare("nli", PAIRS)
    assert wire.decode_compare(body) == ("nli", PAIRS)
    assert json.loads(body)["texts"] == ["a", "b", "é\u2028"]

    reply = PairReply({pair: ((i / 4,), i == 1) for i, pair in enumerate(PAIRS)}, "weights")
    scores = [reply.scores[pair] for pair in PAIRS]
    value = result_of({"scores": scores, "identity": "weights"})
    assert wire.decode_pair_reply(1, PAIRS, value) == reply
    for pairs, num_labels in ((PAIRS[:2], 1), (PAIRS, 3)):
        with pytest.raises(wire.Garbled):
            wire.decode_pair_reply(num_labels, pairs, value)


@pytest.mark.parametrize("score", [[[1.5], False], [["1"], False], [[0.5], 0], [[None], False], 3])
def test_a_score_that_is_no_probability_is_no_reply(score):
    with pytest.raises(wire.Garbled):
        wire.decode_pair_reply(1, PAIRS[:1], to_json({"scores": [score], "identity": "x"}))


def test_contexts_are_right_parts_of_what_was_asked():
    texts = [("one two", "three"), ("four", "five")]
    asked = wire.decode_fit(to_json({"similarity_scorer": None, "texts": texts}))
    assert (asked.similarity_scorer, asked.texts) == (None, texts)
    value = result_of(["two", ""])
    assert wire.decode_contexts(texts, value) == ["two", ""]
    for wrong in (["two"], ["one", ""], [3, ""]):
        with pytest.raises(wire.Garbled):
            wire.decode_contexts(texts, to_json(wrong))


def test_ends_of_tokens_lie_in_the_texts_and_never_fall():
    texts = ["one two", ""]
    assert wire.decode_texts(to_json(texts)) == texts
    value = result_of([[3, 7], []])
    assert wire.decode_token_ends(texts, value) == [[3, 7], []]
    for wrong in ([[3, 7]], [[7, 3], []], [[3, 8], []], [[-1], []], [[3.0], []], [["3"], []]):
        with pytest.raises(wire.Garbled):
            wire.decode_token_ends(texts, to_json(wrong))


def test_tokens_and_first_tokens_come_back():
    for token in (Token("é", -0.5, 1.25, tops=(("é", -0.5), ("e", -2.0))), Token("")):
        kind, content = sent("token", token)
        assert (kind, wire.decode_token(content)) == ("token", token)
    token = Token("a", np.float32(-0.5))  # as an engine has them
    assert wire.decode_token(to_json(token)).logprob == -0.5
    reply = FirstTokenReply((-0.25, None), "weights")
    value = result_of(reply)
    assert wire.decode_first_token_reply(2, value) == reply
    with pytest.raises(wire.Garbled):
        wire.decode_first_token_reply(3, value)


@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        ("generation", b"<html>", "no generation worker"),
        ("generation", b'{"wire": 1}', "version 1 of the wire, not 9"),
        ("generation", b'{"wire": 9, "similarity scorers": {}}', "no generation worker"),
        ("similarity", b'{"wire": 9, "generator": 3}', "no similarity worker"),
        ("similarity", b"3", "no similarity worker"),
    ],
)
def test_another_kind_or_version_is_told_apart(kind, body, reason):
    with pytest.raises(wire.Garbled, match=reason):
        wire.decode_info(kind, body)


def test_large_calls_are_split_in_order():
    long = "x" * (wire.MAX_CHARACTERS // 3 - 2)
    pairs = [(long, str(i)) for i in range(7)] + [("a", "b")]
    parts = list(wire.parts(pairs))
    assert [pair for part in parts for pair in part] == pairs
    assert len(parts) == 3
    assert list(wire.parts([])) == []
    too_long = [("x" * (wire.MAX_CHARACTERS + 1), "")]
    assert list(wire.parts(too_long)) == [too_long]
