"""Rows that follow a grammar: what they may choose, and what their log-probs then are."""

import asyncio
import gc
import json
import math
from dataclasses import replace
from operator import attrgetter

import numpy as np
import pytest
from tokenizers import AddedToken

from models.errors import DeadlineExceeded, InvalidRequest
from models.grammar import following
from models.grammar.calls import grammar_of_calls
from models.grammar.following import Following, Grammars
from models.grammar.grammars import grammar_of
from models.records import GivenAnswer, Grammar
from tests.tiny_models import byte_tokenizer, random_model
from tests.unit.models.engines.test_reasoning import asking, reasoning
from tests.unit.models.engines.tiny_engines import (
    engine_of,
    generated,
    next_logprobs,
    request_for,
    running,
    sequences,
)
from tests.unit.models.grammar import test_calls as calls

pytestmark = pytest.mark.anyio

TEXTS = ['"a"', '"ab"', '"abc"', "17", "1", "null"]
CHOICES = Grammar("json_schema", json.dumps({"enum": list(map(json.loads, TEXTS))}))
OBJECT = grammar_of(
    {
        "type": "object",
        "properties": {
            "a": {"type": "string", "maxLength": 3},
            "b": {"type": "integer", "minimum": 0, "maximum": 99},
            "c": {"type": "boolean"},
        },
        "required": ["a", "b", "c"],
        "additionalProperties": False,
    }
)
PROMPT = "What is it?"


@pytest.fixture(scope="module", params=["llama", "hybrid"])
def model(request):
    return random_model(request.param)


@pytest.fixture(scope="module")
def llama():
    return random_model("llama")


def read(model, tokenizer, sequence):
    """Log-probs and entropies of a text among the prefixes of TEXTS, which are all that may be."""
    allowed = [(*tokenizer(text, add_special_tokens=False)["input_ids"], 1) for text in TEXTS]
    before = tokenizer(PROMPT)["input_ids"]
    logprobs, entropies = [], []
    for i, token in enumerate(sequence.token_ids):
        start = sequence.token_ids[:i]
        following = sorted({ids[i] for ids in allowed if ids[:i] == start})
        law = next_logprobs(model, [*before, *start])[following].log_softmax(0)
        logprobs.append(law[following.index(token)].item())
        entropies.append(-(law.exp() * law).sum().item())
    return logprobs, entropies


async def test_log_probs_and_entropies_are_those_among_what_the_grammar_allows(model):
    tokenizer = byte_tokenizer()
    async with running(engine_of(model, tokenizer)) as worker:
        request = request_for(PROMPT, num_samples=8, grammar=CHOICES)
        generation = await worker.generate(request)

    for sequence in sequences(generation):
        assert sequence.text in TEXTS
        assert sequence.finish_reason == "stop"
        logprobs, entropies = read(model, tokenizer, sequence)
        np.testing.assert_allclose(sequence.token_logprobs, logprobs, atol=1e-5)
        np.testing.assert_allclose(sequence.token_entropies, entropies, atol=1e-5)
    assert len({sequence.text for sequence in sequences(generation)}) > 1


async def test_the_answer_is_the_greedy_one_among_what_the_grammar_allows(llama):
    async with running(engine_of(llama)) as worker:
        held = await worker.generate(request_for(PROMPT, num_samples=0, grammar=CHOICES))

    tokenizer = byte_tokenizer()
    ids, allowed = list(tokenizer(PROMPT)["input_ids"]), []
    for text in TEXTS:
        allowed.append((*tokenizer(text, add_special_tokens=False)["input_ids"], 1))
    chosen = ()
    while chosen[-1:] != (1,):
        following = {one[len(chosen)] for one in allowed if one[: len(chosen)] == chosen}
        law = next_logprobs(llama, [*ids, *chosen])
        chosen += (max(following, key=lambda token: law[token]),)
    assert held.answer.token_ids == chosen


async def test_a_row_is_the_same_whatever_is_held_to_what_beside_it(llama):
    requests = [
        request_for(PROMPT, grammar=CHOICES),
        request_for(PROMPT),
        request_for("Another one", seed=2, grammar=OBJECT, max_new_tokens=40),
    ]
    async with running(engine_of(llama)) as worker:
        alone = [await worker.generate(one) for one in requests]
        together = await generated(worker, requests)

    for one, other in zip(alone, together, strict=True):
        for a, b in zip(sequences(one), sequences(other), strict=True):
            assert a.token_ids == b.token_ids
            np.testing.assert_allclose(a.token_logprobs, b.token_logprobs, atol=1e-5)


async def test_samples_beside_a_given_answer_are_held_and_the_answer_is_not(llama):
    request = request_for(PROMPT, grammar=CHOICES, answer=GivenAnswer("no JSON"))
    async with running(engine_of(llama)) as worker:
        generation = await worker.generate(request)
        free = await worker.generate(replace(request, grammar=None))

    assert {sample.text for sample in generation.samples} <= set(TEXTS)
    np.testing.assert_allclose(generation.answer.token_logprobs, free.answer.token_logprobs)


DISJOINT = "patternProperties: two patterns may match the same name"
DEEP_FAULTS = [
    ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "held to it: nothing is valid under it"),
    ({"properties": {"a": {"pattern": "("}}}, "held to it: a pattern cannot be read"),
    (
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"prefixItems": [{}, {"pattern": "a$b"}]}}},
        "held to it: a pattern looks around",
    ),
    (
        {"oneOf": [{"type": "null"}, {"type": "string", "pattern": "("}]},
        "held to it: a pattern cannot be read",
    ),
    ({"items": {"patternProperties": {"^a": {}, "a$": {}}}}, f"held to it: {DISJOINT}"),
    (
        {"type": "object", "required": ["b"], "additionalProperties": False},
        "held to it: nothing is valid under it",
    ),
]


@pytest.mark.parametrize(("schema", "told"), DEEP_FAULTS)
async def test_what_no_text_can_be_held_to_is_refused_before_it_is_computed(llama, schema, told):
    async with running(engine_of(llama)) as worker:
        with pytest.raises(InvalidRequest) as caught:
            await worker.generate(request_for(PROMPT, grammar=grammar_of(schema)))
        assert worker.num_waiting == 0

    assert caught.value.field == "grammar"
    assert told in caught.value.message


async def test_a_pattern_that_takes_too_much_to_follow_fails_its_request_alone(llama, monkeypatch):
    monkeypatch.setattr(following, "MAX_LEXER_STATES", 40)
    hostile = grammar_of({"type": "string", "pattern": "^([ab]*a[ab]{20})$"})
    async with running(engine_of(llama)) as worker:
        requests = [request_for(PROMPT, grammar=hostile), request_for(PROMPT)]
        held, free = await generated(worker, requests, return_exceptions=True)

    assert len(free.samples) == 4
    assert isinstance(held, InvalidRequest)
    assert (held.field, "too complex" in held.message) == ("grammar", True)


async def test_a_slow_compilation_holds_up_nobody_else_and_ends_in_time_for_its_caller(llama):
    engine = engine_of(llama)
    may_end, own = asyncio.Event(), engine.compile
    loop = asyncio.get_running_loop()

    def compile_it(grammar):
        asyncio.run_coroutine_threadsafe(may_end.wait(), loop).result()
        own(grammar)

    engine.compile = compile_it
    async with running(engine) as worker:
        held = asyncio.create_task(worker.generate(request_for(PROMPT, grammar=CHOICES)))
        late = request_for(PROMPT, grammar=CHOICES, timeout_s=0.01)
        with pytest.raises(DeadlineExceeded):
            await worker.generate(late)
        assert len((await worker.generate(request_for(PROMPT))).samples) == 4
        assert not held.done()
        assert worker.busy_since is None  # no watchdog takes a compiler for a model
        may_end.set()
        assert (await held).answer.text in TEXTS


async def test_the_grammar_begins_behind_the_reasoning():
    async with reasoning() as worker:
        free = await worker.generate(asking())
        held = await worker.generate(asking(grammar=CHOICES))
        prompted = await worker.generate(asking(grammar=Grammar("lark", 'start: " " /[0-9]+/')))

    assert held.answer.reasoning == free.answer.reasoning
    assert free.answer.reasoning.is_finished
    for sequence in sequences(held):
        assert sequence.reasoning.is_finished
        assert sequence.text in TEXTS
    assert prompted.answer.text.strip().isdigit()


async def test_an_answer_held_to_a_grammar_does_not_end_within_its_reasoning():
    hot = replace(asking().sampling, num_samples=20, temperature=8.0)
    async with reasoning() as worker:
        free = await worker.generate(replace(asking(), sampling=hot))
        held = await worker.generate(replace(asking(grammar=CHOICES), sampling=hot))

    def ended_within(sample):
        return sample.finish_reason == "stop" and not sample.reasoning.is_finished

    ended = list(filter(ended_within, filter(attrgetter("reasoning"), free.samples)))
    assert ended
    assert not any("</s>" in sample.reasoning.text for sample in ended)
    for sample in held.samples:
        assert sample.text in TEXTS or sample.finish_reason == "length"


async def test_how_far_rows_came_in_a_grammar_goes_with_them_and_waits_for_no_collector(llama):
    async with running(engine_of(llama, byte_tokenizer(), max_rows=6)) as worker:
        gc.collect()
        gc.disable()
        try:
            requests = [request_for(PROMPT, num_samples=4, grammar=OBJECT) for _ in range(3)]
            await generated(worker, requests)
            kept = [one for one in gc.get_objects() if type(one) is Following]
        finally:
            gc.enable()

    assert kept == []


def test_a_model_without_an_end_follows_no_grammar():
    assert "no token that ends" in Grammars(byte_tokenizer(), frozenset(), 259).unavailable
    assert Grammars(byte_tokenizer(), frozenset({1}), 259).unavailable == ""


def test_padding_of_the_vocabulary_is_never_allowed():
    padded = Grammars(byte_tokenizer(), frozenset({1}), 300)
    words = padded.begin(Grammar("json_schema", "{}"), in_thoughts=False).allowed()

    bits = np.unpackbits(words.view(np.uint8), bitorder="little")
    assert bits[:259].any()
    assert not bits[259:].any()
    assert math.ceil(300 / 32) == len(words)


def with_added(*texts):
    tokenizer = byte_tokenizer()
    for text in texts:
        tokenizer.add_tokens(AddedToken(text, normalized=False, special=False))
    return tokenizer


def follows(grammars, grammar, token_ids):
    """Whether a grammar allows each of these tokens in its turn, and an end behind them."""
    following = grammars.begin(grammar, in_thoughts=False)
    for token in token_ids:
        allowed = following.allowed()
        if allowed is None or not allowed[token // 32] >> (token % 32) & 1:
            return False
        assert following.take(token)
    allowed = following.allowed()
    return allowed is not None and bool(allowed[0] >> 1 & 1)


@pytest.mark.parametrize("several", [True, False])
@pytest.mark.parametrize("answer", [None, calls.ANSWER])
def test_calls_are_written_by_the_tokens_that_a_model_has_for_them(several, answer):
    tokenizer = with_added("<tool_call>", "</tool_call>")
    grammars = Grammars(tokenizer, frozenset({1}), len(tokenizer))
    grammar = grammar_of_calls(calls.TOOLS, several=several, answer=answer)
    allowed = calls.ONE + (calls.SEVERAL if several else [])
    allowed += calls.JSON if answer else calls.WORDS + calls.BESIDE
    for text in calls.ONE + calls.SEVERAL + calls.WORDS + calls.BESIDE + calls.JSON + calls.NEVER:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert follows(grammars, grammar, ids) == (text in allowed), text


@pytest.mark.parametrize(
    "text", ["</s>", "a <|end|> b", "<s>", "<table>", "x<td>1</td>", "<tool_call>", "</tool_call>"]
)
async def test_a_text_that_has_to_come_may_spell_out_a_token(text):
    tokenizer = with_added("<table>", "<td>", "</td>", "<tool_call>", "</tool_call>")
    held = Grammar("json_schema", json.dumps({"const": text}))
    model = random_model("llama")
    model.resize_token_embeddings(len(tokenizer))
    async with running(engine_of(model, tokenizer)) as worker:
        generation = await worker.generate(request_for(PROMPT, num_samples=2, grammar=held))
    for sequence in sequences(generation):
        assert (sequence.text, sequence.finish_reason) == (json.dumps(text), "stop")
        assert not {0, 2}.intersection(sequence.token_ids)


def test_a_token_of_the_vocabulary_like_a_tag_is_text_of_an_answer():
    tokenizer = with_added("<td>")
    grammars = Grammars(tokenizer, frozenset({1}), len(tokenizer))
    string = Grammar("json_schema", json.dumps({"type": "string"}))
    ids = tokenizer('"<td>1"', add_special_tokens=False)["input_ids"]
    assert len(ids) == 4
    assert follows(grammars, string, ids)
