"""Grammars at existing servers: tried out, sent where they are heeded, else refused in words."""

import json
from dataclasses import replace

import pytest

from models.call_grammars import MARK, grammar_of_calls
from models.errors import EngineError, InvalidRequest
from models.grammars import grammar_of
from models.records import Grammar, Sequence
from tests.openai_server import openai_server
from tests.unit.workers.openai.test_limiting import REQUEST, over
from tests.unit.workers.openai.test_tools import TOOL
from workers.openai.capabilities import Capabilities
from workers.openai.formats import check_followed, for_tokens

pytestmark = pytest.mark.anyio

CHOICES = grammar_of({"enum": ["Rome", 7]})
HELD = replace(REQUEST, grammar=CHOICES)
TEXT = "/v1/completions"
SHOWN = {"budget": "heeded", "num_thoughts": 2, "tags": "tokens"}


def asked(server):
    """The bodies of requests, without those that try the server out."""
    most = REQUEST.sampling.max_new_tokens
    return [body for body in server.sent(TEXT) if body["max_tokens"] == most]


@pytest.mark.parametrize(
    ("traits", "why"),
    [
        ({}, ""),
        ({"tokenizes": False}, ""),
        ({"tokenizes": False, "completes": False}, ""),
        (SHOWN, ""),
        (SHOWN | {"tokenizes": False, "completes": False, "parser": "reasoning"}, ""),
        ({"formats": "refused"}, "takes no response_format"),
        ({"formats": "ignored"}, "answers otherwise"),
        ({"formats": "ignored"} | SHOWN, "answers otherwise"),
    ],
)
async def test_a_format_is_tried_out_and_no_part_of_the_identity(traits, why):
    async with openai_server(**traits) as server, over(server) as generator:
        told, known = generator.info.no_grammar, generator._known
        assert (told == "") == (why == "")
        assert why in told
        assert generator.info.capabilities["response_format"] == (why == "")
        other = replace(known.capabilities, no_grammar="another reason")
        assert replace(known, capabilities=other).identity == generator.info.identity
        if why:
            num_sent = len(server.bodies)
            with pytest.raises(InvalidRequest) as caught:
                await generator.generate(HELD)
            assert (caught.value.field, why in caught.value.message) == ("grammar", True)
            assert len(server.bodies) == num_sent


async def test_the_answer_and_samples_are_asked_for_under_the_schema_and_others_are_not():
    async with openai_server() as server, over(server) as generator:
        held = await generator.generate(HELD)
        sent = asked(server)
        await generator.generate(REQUEST)
        free = asked(server)[len(sent) :]

    for one in (held.answer, *held.samples):
        assert json.loads(one.text) in ("Rome", 7)
    assert held.answer.token_logprobs.max() <= 0
    assert len(sent) == len(free) == 2
    for body in sent:
        told = body["response_format"]["json_schema"]
        assert json.dumps(told["schema"]) == CHOICES.source
    assert not any("response_format" in body for body in free)


LARK = replace(REQUEST, grammar=Grammar("lark", "start: /[a-z]/"))


async def test_a_grammar_that_is_no_schema_is_vllms_with_llguidance():
    async with openai_server() as server, over(server) as generator:
        assert generator.info.capabilities["strict_tools"]
        await generator.generate(LARK)
        sent = [body["structured_outputs"] for body in asked(server)]
    assert sent == [{"grammar": "start: /[a-z]/"}] * 2


@pytest.mark.parametrize("traits", [{"tokenizes": False}, {"larks": False}, {"formats": "ignored"}])
async def test_a_server_that_follows_no_such_grammar_is_not_asked_for_one(traits):
    async with openai_server(**traits) as server, over(server) as generator:
        assert not generator.info.capabilities["strict_tools"]
        with pytest.raises(InvalidRequest, match="may call tools or not") as caught:
            await generator.generate(LARK)
        assert not asked(server)
    assert caught.value.field == "grammar"


class OneToken:
    """A server that reads any text as its token 5."""

    async def post(self, path, body):
        return {"tokens": [5]}


async def test_a_mark_of_calls_that_is_one_token_of_the_servers_is_that_token():
    calls = grammar_of_calls([TOOL], several=True, answer=None)
    can = Capabilities("tiny", tokenizes=True)
    told = await for_tokens(OneToken(), can, calls)
    assert told.source == calls.source.replace(f'mark: "{MARK}"', "mark: <[5]>")
    assert told != calls
    assert await for_tokens(OneToken(), can, CHOICES) == CHOICES


async def test_a_schema_that_the_server_refuses_is_told_as_such():
    async with openai_server() as server, over(server) as generator:
        server.formats = "refused"
        with pytest.raises(InvalidRequest, match="refuses it") as caught:
            await generator.generate(HELD)
    assert caught.value.field == "grammar"


async def test_a_text_that_is_no_json_is_never_taken_for_a_held_one():
    async with openai_server() as server, over(server) as generator:
        server.formats = "ignored"
        with pytest.raises(EngineError, match="has not held a text to its schema"):
            await generator.generate(HELD)


@pytest.mark.parametrize("text", ["", "{", '{"a": 1} {', "Rome", "[" * 100_000])
def test_what_has_ended_and_is_no_json_has_not_followed_a_schema(text):
    with pytest.raises(EngineError):
        check_followed(CHOICES, Sequence(text, text, 1, "stop"))
    check_followed(CHOICES, Sequence(text, text, 1, "length"))
    check_followed(Grammar("lark", ""), Sequence(text, text, 1, "stop"))
