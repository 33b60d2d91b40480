"""Replies of a server that was sound when it was tried out, and is not in each of its replies."""

import logging
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import JSONResponse

from models.errors import CocoaError
from models.records import GenerationRequest, GivenAnswer, SamplingParams, Token
from tests.openai_server import openai_server
from tests.unit.workers.openai.test_generator import over
from workers.openai import logprobs as soundness
from workers.openai.choices import Choice, count_in
from workers.openai.logprobs import are_of, unsound
from workers.openai.replies import NO_SENSE, read_choices

pytestmark = pytest.mark.anyio

LOGPROBS = frozenset({"answer_token_logprobs", "sample_token_logprobs"})
REQUEST = GenerationRequest(
    "What is the capital of France?",
    sampling=SamplingParams(num_samples=3, max_new_tokens=8, seed=7),
    statistics=LOGPROBS | {"sample_texts"},
    timeout_s=30.0,
)
PLAIN = {"tokenizes": False}
# By which a server is tried out, too, as it is again when it fails.
PROMPT = "Translate to German: the old house by the river."


@given(
    st.lists(st.floats(-30.0, 30.0), min_size=2, max_size=40),
    st.integers(1, 20),
    st.sampled_from([np.float64, np.float32, np.float16]),
)
def test_property_the_likeliest_of_any_law_are_sound_however_they_are_rounded(logits, top, kind):
    law = np.array(logits) - np.logaddexp.reduce(logits)
    told = np.sort(law)[::-1].astype(kind).astype(float)
    tops = {str(i): one for i, one in enumerate(told[:top])}
    for chosen in told:
        assert unsound(np.array([chosen]), ["a"], [tops]) == ""
    assert unsound(told) == ""


@given(st.lists(st.floats(-3.0, 0.0), min_size=1, max_size=5), st.floats(0.1, 5.0))
def test_property_a_token_above_the_likeliest_is_none(likeliest, more):
    tops = {str(i): one - 1.0 for i, one in enumerate(likeliest)}
    chosen = min(0.0, max(tops.values()) + more)
    assert unsound(np.array([chosen]), ["a"], [tops]) in (
        soundness.ABOVE_LIKELIEST,
        soundness.BEYOND_ONE,
    )


@pytest.mark.parametrize("value", [-9999.0, -1e4, -1e30, -math.inf, math.nan, 0.5, math.inf])
def test_what_stands_for_a_missing_log_prob_is_none(value):
    assert unsound(np.array([-0.5, value])) == soundness.NO_NUMBER


@pytest.mark.parametrize(
    ("texts", "text", "is_cut", "expected"),
    [
        (["It", " is", "."], "It is.", True, True),
        (["It", " is", "</s>"], "It is", False, True),
        (["It", " is", "</s>"], "It is", True, False),
        (["It", " is", "\\nQ", ":"], "It is", False, True),
        ([" is", "."], "It is.", False, False),
        (["It", "."], "It is.", False, False),
        (["It", " is"], "It is.", False, False),
        ([" It", " is ", "."], "It is.", True, True),
        ([], "", False, True),
        (["token_id:7", "token_id:8"], "It is.", False, None),
        (["\u2581It", "\u2581is"], "It is", False, None),
        (["th", "\ufffd", "\ufffd"], "th\u00e9", False, None),
        (["th", "<0xC3>", "<0xA9>"], "th\u00e9", False, None),
        (None, "It is.", False, None),
    ],
)
def test_tokens_are_those_of_a_text_as_far_as_they_tell_it(texts, text, is_cut, expected):
    assert are_of(texts, text, is_cut=is_cut) is expected


def content_of(choice):
    """Its entries, one a token, in the format of chats or of completions."""
    logprobs = choice["logprobs"] or {}
    return logprobs.get("content", logprobs)


def entries(choice, first=0, last=None, **changes):
    """Leave entries of a choice out, or change what each says."""
    if not (told := content_of(choice)):
        return
    if isinstance(told, list):
        kept = told[first:last]
        for one in kept:
            one.update({"logprob": changes["logprob"]} if changes else {})
        choice["logprobs"]["content"] = kept
        return
    for name, values in told.items():
        if values is not None:
            told[name] = values[first:last]
    if changes:
        told["token_logprobs"] = [changes["logprob"]] * len(told["token_logprobs"])


def chosen(value):
    return lambda choice, body: entries(choice, logprob=value)


def without_first(choice, body):
    entries(choice, first=1)


def without_last(choice, body):
    entries(choice, last=-2)


def of_all_likeliest(choice, body):
    told = content_of(choice)
    if isinstance(told, list):
        for one in told:
            for top in one["top_logprobs"]:
                top["logprob"] = -0.01
    else:
        told["top_logprobs"] = [dict.fromkeys(one, -0.01) for one in told["top_logprobs"]]


def above(choice, body):
    told = content_of(choice)
    if isinstance(told, list):
        for one in told:
            one["top_logprobs"] = [{"token": "x", "logprob": -3.0}]
    else:
        told["top_logprobs"] = [{"x": -3.0} for _ in told["tokens"]]


def in_another_form(value):
    def alter(choice, body):
        if choice["logprobs"]:
            choice["logprobs"] = value

    return alter


def unequal(choice, body):
    told = content_of(choice)
    if isinstance(told, list):
        del told[-1]["logprob"]
    else:
        told["token_logprobs"] = told["token_logprobs"][1:]


def of_requests(alter):
    """Alters what answers requests, not what tells whether the server is still the same."""

    def of_request(choice, body):
        if body["max_tokens"] == REQUEST.sampling.max_new_tokens:
            alter(choice, body)

    return of_request


CHECKED = {
    "no number": (chosen(-9999.0), soundness.NO_NUMBER),
    "less than that": (chosen(-12345.0), soundness.NO_NUMBER),
    "null": (chosen(None), soundness.NO_NUMBER),
    "more than certain": (chosen(0.7), soundness.NO_NUMBER),
    "the first token left out": (without_first, soundness.UNCOVERED),
    "the last tokens left out": (without_last, soundness.UNCOVERED),
    "likeliest beyond one": (of_all_likeliest, soundness.BEYOND_ONE),
    "above the likeliest": (above, soundness.ABOVE_LIKELIEST),
    "a list": (in_another_form([-0.5]), NO_SENSE),
    "words": (in_another_form({"tokens": ["a"], "token_logprobs": ["-0.5"]}), NO_SENSE),
    "no tokens": (in_another_form({"token_logprobs": [-0.5]}), NO_SENSE),
    "a token without": (unequal, NO_SENSE),
}


@pytest.mark.parametrize("endpoint", ["completions", "chats", "token ids"])
@pytest.mark.parametrize(("alter", "reason"), CHECKED.values(), ids=CHECKED)
async def test_a_reply_that_fails_a_check_costs_what_reads_its_log_probs(endpoint, alter, reason):
    traits = {} if endpoint == "token ids" else PLAIN | {"completes": endpoint != "chats"}
    request = replace(REQUEST, num_tops=2)
    async with openai_server(**traits) as server, over(server) as generator:
        sound = await generator.generate(request)
        server.alter = of_requests(alter)
        generation = await generator.generate(request)
        server.alter = None
        again = await generator.generate(request)

    assert (sound.absent, again.absent) == ({}, {})
    assert sound.answer.token_logprobs is not None
    assert generation.absent["answer_token_logprobs"] == reason
    for one in (generation.answer, *generation.samples):
        if one.token_logprobs is not None:  # of samples no likeliest tokens are asked for
            assert reason in (soundness.BEYOND_ONE, soundness.ABOVE_LIKELIEST)
    assert generation.answer.token_tops is None
    assert generation.answer.text == sound.answer.text
    assert [one.text for one in generation.samples] == [one.text for one in sound.samples]


@pytest.mark.parametrize(("num_left_out", "is_read"), [(0, True), (3, False)])
async def test_entries_are_held_against_the_usage_where_texts_tell_nothing(num_left_out, is_read):
    def in_pieces(choice, body):
        if choice["logprobs"] is not None:
            entries(choice, first=num_left_out)
            told = choice["logprobs"]["tokens"]
            choice["logprobs"]["tokens"] = [f"\u2581{one.strip()}" for one in told]
            choice["logprobs"]["top_logprobs"] = None

    async with openai_server(**PLAIN) as server, over(server) as generator:
        server.alter = of_requests(in_pieces)
        generation = await generator.generate(replace(REQUEST, statistics=LOGPROBS))
    reasons = dict.fromkeys(LOGPROBS, soundness.UNCOVERED)
    assert generation.absent == ({} if is_read else reasons)


@pytest.mark.parametrize(("listed", "is_read"), [("\N{FOX FACE}", True), ("\ufffd", False)])
async def test_a_character_is_held_against_the_likeliest_where_usage_is_of_one_of_several(
    listed, is_read
):
    """As that of llama-server, which lists a character with the log-prob of its last token."""

    def with_fox(choice, body):
        if "n" in body and choice["logprobs"] is not None:
            told = choice["logprobs"]
            [first, *others] = told["tokens"]
            choice["text"] = "\N{FOX FACE}" + choice["text"].removeprefix(first)
            told["tokens"] = ["\N{FOX FACE}", *others]
            told["top_logprobs"][0] = {listed: told["token_logprobs"][0]}

    def of_one(body, num_tokens):
        return num_tokens // body.get("n", 1)

    async with openai_server(**PLAIN, counts=of_one) as server, over(server) as generator:
        server.alter = of_requests(with_fox)
        generation = await generator.generate(REQUEST)
    reasons = {"sample_token_logprobs": soundness.UNCOVERED}
    assert generation.absent == ({} if is_read else reasons)
    assert generation.answer.token_logprobs is not None


@pytest.mark.parametrize(
    ("num_counted", "num_listed", "expected"),
    [
        (24, [24, 24], True),
        (48, [24, 24], False),
        (46, [24, 24], False),  # an end that is listed, and not counted
        (2, [2, 2], False),
        (0, [24, 24], False),
        (3, [24], False),
    ],
)
def test_a_count_of_one_choice_of_several_is_known_by_what_they_list(
    num_counted, num_listed, expected
):
    choices = [Choice("", "stop", num_listed=num) for num in num_listed]
    assert count_in({"completion_tokens": num_counted}, choices, 24, ()) is expected


@pytest.mark.parametrize(
    ("text", "pieces", "num_written", "stop", "is_read"),
    [
        ("\N{FOX FACE}B", ["\N{FOX FACE}", "B"], 6, "\n\nQuestion", False),
        ("\N{FOX FACE}B", ["\N{FOX FACE}", "B"], 5, "\n\nQuestion", True),
        ("\N{FOX FACE}B", ["\N{FOX FACE}", "B", ""], 4, "\n\nQuestion", False),
        ("AB", ["A", "B"], 6, "\n\nQuestion", True),
    ],
    ids=["a character's", "the end's", "none of an end that is told", "of one byte each"],
)
def test_tokens_that_are_missing_are_of_a_character_or_of_the_end(
    text, pieces, num_written, stop, is_read
):
    told = {"tokens": pieces, "token_logprobs": [-0.5] * len(pieces)}
    reply = {"choices": [{"text": text, "logprobs": told, "finish_reason": "stop"}]}
    [choice] = read_choices([reply], 1, (stop,))
    count_in({"completion_tokens": num_written}, [choice], 32, (stop,))
    assert (choice.logprobs is not None) == is_read


@pytest.mark.parametrize("traits", [PLAIN, {}], ids=["by text", "by id"])
@pytest.mark.parametrize("alter", [chosen(0.0), in_another_form([-0.5])], ids=["0", "a list"])
async def test_a_server_whose_log_probs_are_all_0_or_make_no_sense_tells_none(traits, alter):
    async with openai_server(**traits, alter=alter) as server, over(server) as generator:
        assert generator.info.capabilities["max_logprobs"] is None
        assert not LOGPROBS & generator.info.statistics
        generation = await generator.generate(replace(REQUEST, statistics=frozenset()))
        assert generation.answer.text


async def test_a_stream_tells_no_log_prob_that_is_none():
    told: list[Token] = []
    async with openai_server() as server, over(server) as generator:
        whole = await generator.generate(REQUEST, told.append)
    assert [one.logprob for one in told] == pytest.approx(whole.answer.token_logprobs)


@pytest.mark.parametrize("value", [-9999.0, None, 0.5])
async def test_a_given_answer_with_a_log_prob_that_is_none_has_no_scores(value):
    def of_prompt(choice, body):
        if choice.get("prompt_logprobs"):
            for one in choice["prompt_logprobs"][-1].values():
                one["logprob"] = value

    request = replace(REQUEST, answer=GivenAnswer(" It is Paris."))
    async with openai_server() as server, over(server) as generator:
        sound = await generator.generate(request)
        server.alter = of_prompt
        generation = await generator.generate(request)

    assert "answer_token_logprobs" not in sound.absent
    assert generation.absent["answer_token_logprobs"] == soundness.NO_NUMBER
    assert generation.answer.token_logprobs is None
    assert generation.answer.text == " It is Paris."


async def test_a_code_that_quotes_the_request_is_not_logged(caplog):
    async with openai_server() as server, over(server) as generator:
        server.replies += [JSONResponse({"error": {"code": "Anna", "param": "Anna"}}, 400)] * 8
        with pytest.raises(CocoaError):
            await generator.generate(replace(REQUEST, prompt="Hello Anna."))
    assert "status 400: code none" in caplog.text
    assert "Anna" not in caplog.text


@pytest.mark.parametrize("status", [400, 500, 503])
async def test_the_log_has_a_servers_code_and_parameters_and_nobody_its_words(status, caplog):
    caplog.set_level(logging.INFO)
    words = {
        "message": f"max_tokens is not supported beside '{PROMPT}' (hushhush)",
        "param": "max_tokens",
        "code": "unsupported_parameter",
    }
    async with openai_server() as server, over(server) as generator:
        server.replies += [JSONResponse({"error": words}, status)] * 8
        with pytest.raises(CocoaError) as raised:
            await generator.generate(replace(REQUEST, prompt=PROMPT))
    said = f"status {status}: code unsupported_parameter; parameters that it names: max_tokens"
    assert said in caplog.text
    for word in ("Translate", "German", "river", "hushhush", "beside"):
        assert word not in caplog.text
    for word in ("unsupported", "max_tokens", "beside", "German"):
        assert word not in raised.value.message
