"""Grammars at existing servers: tried out, sent where they are heeded, else refused in words."""

import asyncio
import json
from dataclasses import replace

import pytest
from starlette.responses import JSONResponse

from models.errors import DeadlineExceeded, EngineError, InvalidRequest
from models.grammar.calls import MARKS, grammar_of_calls, with_tokens
from models.grammar.grammars import grammar_of
from models.records import Grammar, Sequence
from tests.openai_server import openai_server
from tests.unit.workers.openai.test_limiting import REQUEST, over
from tests.unit.workers.openai.test_tools import TOOL
from workers.openai.found import OpenAIServer
from workers.openai.grammars import check_followed, for_tokens
from workers.openai.profiles import PROFILES, UNMASKED

pytestmark = pytest.mark.anyio

CHOICES = grammar_of({"enum": ["Rome", 7]})
HELD = replace(REQUEST, grammar=CHOICES)
TEXT = "/v1/completions"
SHOWN = {"budget": "heeded", "num_thoughts": 2, "tags": "tokens"}
IN_CHATS = SHOWN | {"tokenizes": False, "completes": False, "parser": "reasoning"}


def asked(server):
    """The bodies of requests, without those that try the server out."""
    most = REQUEST.sampling.max_new_tokens
    return [body for body in server.sent(TEXT) if body["max_tokens"] == most]


def trials(server):
    """The bodies by which a format is tried out."""
    return [body for _, body in server.bodies if "cocoa" in str(body.get("response_format"))]


@pytest.mark.parametrize(
    ("traits", "why"),
    [
        ({}, ""),
        ({"tokenizes": False}, ""),
        ({"tokenizes": False, "completes": False}, ""),
        (SHOWN, ""),
        (IN_CHATS, ""),
        (IN_CHATS | {"num_thoughts": 100, "efforts": ("none",)}, ""),
        ({"formats": "refused"}, "takes no response_format"),
        ({"formats": "ignored"}, "answers otherwise"),
        ({"formats": "ignored"} | SHOWN, "answers otherwise"),
    ],
)
async def test_a_format_is_tried_out_by_who_needs_it_first_and_no_part_of_the_identity(traits, why):
    async with openai_server(**traits) as server, over(server) as generator:
        identity = generator.info.identity
        assert generator.info.no_grammar == ""
        assert generator.info.capabilities["response_format"] == "not known yet"
        assert not any("response_format" in body for _, body in server.bodies)
        num_trials = []
        for _ in range(2):
            if why:
                with pytest.raises(InvalidRequest) as caught:
                    await generator.generate(HELD)
                assert (caught.value.field, why in caught.value.message) == ("grammar", True)
                assert not asked(server)
            else:
                await generator.generate(HELD)
            num_trials.append(len(trials(server)))
        assert 0 < num_trials[0] == num_trials[1]
        told = generator.info.no_grammar
        assert (told == "", why in told) == (why == "", True)
        assert generator.info.capabilities["response_format"] == (why == "")
        assert generator.info.identity == identity


async def test_requests_that_need_it_at_once_wait_for_one_trial():
    async with openai_server() as server, over(server) as generator:
        await asyncio.gather(*(generator.generate(HELD) for _ in range(3)))
        assert len(trials(server)) == 1
        generator.upstream.server.doubt()
        await generator.generate(HELD)
        assert len(trials(server)) == 1  # the same weights do the same


async def test_a_fault_that_passes_does_not_stand_for_what_the_server_can_do():
    async with openai_server() as server, over(server) as generator:
        server.replies += [JSONResponse({}, 500)]
        held = await generator.generate(HELD)
        assert generator.info.capabilities["response_format"] is True
    assert json.loads(held.answer.text) in ("Rome", 7)


async def test_one_who_leaves_during_the_trial_leaves_it_to_the_next():
    async with openai_server() as server, over(server) as generator:
        server.delay_s = 0.2
        with pytest.raises(DeadlineExceeded):
            await generator.generate(replace(HELD, timeout_s=0.1))
        assert generator.info.capabilities["response_format"] == "not known yet"
        server.delay_s = 0.0
        held = await generator.generate(HELD)
    assert json.loads(held.answer.text) in ("Rome", 7)


LARK = replace(REQUEST, grammar=Grammar("lark", "start: /[a-z]/"))


async def test_a_grammar_that_is_no_schema_is_vllms_with_llguidance():
    async with openai_server() as server, over(server) as generator:
        await generator.generate(LARK)
        assert generator.info.capabilities["strict_tools"] is True
        sent = [body["structured_outputs"] for body in asked(server)]
    assert sent == [{"grammar": "start: /[a-z]/"}] * 2


@pytest.mark.parametrize(
    ("traits", "why"),
    [({"tokenizes": False}, "may call tools or not"), ({"larks": False}, "refuses it")],
)
async def test_a_grammar_that_a_server_does_not_follow_is_refused_by_its_field(traits, why):
    async with openai_server(**traits) as server, over(server) as generator:
        with pytest.raises(InvalidRequest, match=why) as caught:
            await generator.generate(LARK)
    assert caught.value.field == "grammar"


class OneToken:
    """A server that reads a mark of calls as a token of its own, but `<tool_call>`."""

    server = OpenAIServer("tiny", PROFILES["vllm"])

    async def post(self, path, body):
        tokens = {"[TOOL_CALLS]": [5], "<tool_call>": [1, 2], "</tool_call>": [7]}
        return {"tokens": tokens[body["prompt"]]}


async def test_a_mark_of_calls_that_is_one_token_of_the_servers_is_that_token():
    calls = grammar_of_calls([TOOL], several=True, answer=None)
    told = await for_tokens(OneToken(), calls)
    assert told == with_tokens(calls, {MARKS[0]: 5, MARKS[2]: 7})
    assert "mark: <[5]>" in told.source
    assert "close: <[7]>" in told.source
    assert await for_tokens(OneToken(), CHOICES) == CHOICES


async def test_a_schema_that_the_server_refuses_is_told_as_such():
    async with openai_server() as server, over(server) as generator:
        await generator.generate(HELD)
        server.formats = "refused"
        with pytest.raises(InvalidRequest, match="refuses it") as caught:
            await generator.generate(HELD)
    assert caught.value.field == "grammar"


async def test_a_text_that_is_no_json_is_never_taken_for_a_held_one():
    async with openai_server() as server, over(server) as generator:
        await generator.generate(HELD)
        server.formats = "ignored"
        with pytest.raises(EngineError, match="has not held a text to its schema"):
            await generator.generate(HELD)


@pytest.mark.parametrize("text", ["", "{", '{"a": 1} {', "Rome", "[" * 100_000])
def test_what_has_ended_and_is_no_json_has_not_followed_a_schema(text):
    with pytest.raises(EngineError):
        check_followed(HELD, Sequence(text, text, 1, "stop"), is_call=False)
    check_followed(HELD, Sequence(text, text, 1, "length"), is_call=False)
    check_followed(LARK, Sequence(text, text, 1, "stop"), is_call=False)


PLAIN, CHATS = {"tokenizes": False}, {"completes": False}
ENUM = {"type": "string", "enum": ["Rome", "Lyon"]}
LOGPROBS = frozenset({"answer_token_logprobs", "sample_token_logprobs"})


@pytest.mark.parametrize("traits", [{}, PLAIN, PLAIN | CHATS], ids=["by id", "by text", "chats"])
@pytest.mark.parametrize("max_logprobs", [20, 0])
async def test_log_probs_under_a_schema_are_those_among_what_it_allows_or_none(
    traits, max_logprobs
):
    wanted = LOGPROBS | {"sample_texts"}
    held = replace(HELD, grammar=grammar_of(ENUM), statistics=wanted)
    traits = traits | {"max_logprobs": max_logprobs}
    async with openai_server(**traits) as server, over(server) as generator:
        read = await generator.generate(held)
        assert generator.info.capabilities["response_format_logprobs"] is True
    async with openai_server(**traits, masks=False) as server, over(server) as generator:
        unread = await generator.generate(held)
        free = await generator.generate(replace(held, grammar=None))
        told = generator.info.capabilities["response_format_logprobs"]
        bodies = [body for _, body in server.bodies if "enum" in str(body.get("response_format"))]

    assert json.loads(read.answer.text) in ENUM["enum"]
    assert (read.absent, read.answer.token_logprobs.min() > -5.0) == ({}, True)
    assert (told, unread.absent) == (False, dict.fromkeys(LOGPROBS, UNMASKED))
    assert unread.answer.token_logprobs is None
    assert not any(body.get("logprobs") for body in bodies)  # none are streamed either
    assert len(unread.samples) == len(read.samples)
    assert free.answer.token_logprobs is not None
