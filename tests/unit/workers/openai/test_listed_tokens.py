"""Tokens that a server lists with log-probs, against those that it writes and counts."""

from dataclasses import replace

import pytest
from starlette.responses import JSONResponse

from models.records import GenerationRequest, SamplingParams
from tests.openai_server import openai_server
from tests.unit.workers.openai.test_awkward_replies import delta, stream
from tests.unit.workers.openai.test_generator import over
from workers.openai.logprobs import UNCOVERED

pytestmark = pytest.mark.anyio

CHAT = GenerationRequest(
    messages=({"role": "user", "content": "Hello."},),
    sampling=SamplingParams(max_new_tokens=40, seed=7),
    statistics=frozenset({"answer_token_logprobs"}),
    timeout_s=20.0,
)


def listed(*texts):
    """Log-probs -.5, -1.5, … of tokens with these texts."""
    return {"content": [{"token": text, "logprob": -0.5 - i} for i, text in enumerate(texts)]}


def written(text, texts, num, finish="stop", hidden=0, **message):
    """A reply with a text, the tokens that it lists, and how many it counts."""
    choice = {"message": {"content": text, **message}, "finish_reason": finish}
    usage = {"completion_tokens": num, "completion_tokens_details": {"reasoning_tokens": hidden}}
    return {"choices": [choice | {"logprobs": listed(*texts)}], "usage": usage}


async def answer_to(reply, stop=(), on_token=None, **traits):
    chats = {"tokenizes": False, "completes": False} | traits
    request = replace(CHAT, sampling=replace(CHAT.sampling, stop=stop))
    async with openai_server(**chats) as server, over(server) as generator:
        server.replies += [reply, reply]
        return await generator.generate(request, on_token)


ONE_A_CHARACTER = {
    "a fox": written("🦊B", ["🦊", "B", ""], 6),
    "a fox, cut": written("🦊B", ["🦊", "B"], 5, "length"),
    "a fox and no end": written("🦊B", ["🦊", "B"], 6),
    "Georgian": written("გამარჯობა", [*"გამარჯობა", ""], 19),
    "Khmer behind its thoughts": written("ភ្", ["Hm", "</think>", *"ភ្", ""], 9, reasoning="Hm"),
    "Amharic behind thoughts that are counted": written("ሰላም", [*"ሰላም", ""], 30, hidden=20),
}


@pytest.mark.parametrize("reply", ONE_A_CHARACTER.values(), ids=ONE_A_CHARACTER)
async def test_one_entry_for_all_tokens_of_a_character_is_no_log_prob(reply):
    generation = await answer_to(JSONResponse(reply))
    assert generation.answer.token_logprobs is None
    assert generation.absent == {"answer_token_logprobs": UNCOVERED}
    assert generation.answer.num_written == reply["usage"]["completion_tokens"]


ALL_LISTED = {
    "with its end": (written("It", ["It", ""], 2), ()),
    "without its end": (written("გამა", [*"გამა"], 5), ()),
    "cut": (written("It is", ["It", " is"], 2, "length"), ()),
    "a stop string that is not listed": (written("It", ["It"], 3), (" is",)),
    "more than it counts": (written("It", ["It", ""], 1), ()),
    "without usage": (written("It", ["It", ""], 0), ()),
    "thoughts that are counted": (written("It", ["It", ""], 30, hidden=28), ()),
    "thoughts that are counted and listed": (
        written("It", ["Hm", "</think>", "It", ""], 4, hidden=2, reasoning="Hm"), ()
    ),
}  # fmt: skip


@pytest.mark.parametrize(("reply", "stop"), ALL_LISTED.values(), ids=ALL_LISTED)
async def test_what_a_server_may_leave_out_costs_no_log_probs(reply, stop):
    generation = await answer_to(JSONResponse(reply), stop)
    assert generation.absent == {}
    assert len(generation.answer.token_logprobs) == generation.answer.num_tokens


async def test_of_samples_of_one_call_one_that_lacks_entries_costs_those_of_all():
    samples = [written("It", ["It", ""], 2), written("🦊", ["🦊", ""], 4)]
    whole = {"choices": [one["choices"][0] for one in samples], "usage": {"completion_tokens": 6}}
    statistics = frozenset({"sample_texts", "sample_token_logprobs"})
    request = replace(CHAT, statistics=statistics, sampling=SamplingParams(num_samples=2))

    def alter(choice, body):
        if body.get("n") == 2:
            choice.update(whole["choices"][choice["index"]])

    def counts(body, num):
        return 6 if body.get("n") == 2 else num

    traits = {"tokenizes": False, "completes": False, "alter": alter, "counts": counts}
    async with openai_server(**traits) as server, over(server) as generator:
        generation = await generator.generate(request)
    assert [one.text for one in generation.samples] == ["It", "🦊"]
    assert generation.absent == {"sample_token_logprobs": UNCOVERED}


COLORS = ["red", ",", " yellow", " and", " blue", " and", " green"]


@pytest.mark.parametrize("num", [4, 7])
@pytest.mark.parametrize("stop", [(" and",), (" and blue", "!"), ()], ids=["one", "two", "none"])
async def test_entries_behind_the_end_of_a_text_are_none_of_its_tokens(stop, num):
    generation = await answer_to(JSONResponse(written("red, yellow", COLORS, num)), stop)
    answer = generation.answer
    num_kept = 5 if len(stop) == 2 else 4
    assert answer.text == "red, yellow"
    assert answer.token_logprobs.tolist() == [-0.5 - i for i in range(num_kept)]


@pytest.mark.parametrize("stop", [(" and",), ()])
async def test_entries_behind_an_answer_whose_reasoning_stands_apart_leave_too(stop):
    texts = ["Hm", "</think>", *COLORS]
    reply = written("red, yellow", texts, len(texts), reasoning="Hm")
    generation = await answer_to(JSONResponse(reply), stop)
    assert generation.answer.token_logprobs.tolist() == [-2.5, -3.5, -4.5, -5.5]


async def test_entries_behind_a_stop_string_are_not_streamed():
    heard = []
    pieces = []
    for text, texts in (("red", COLORS[:1]), (", yellow", COLORS[1:5]), ("", COLORS[5:])):
        piece = delta(content=text)
        piece["choices"][0]["logprobs"] = listed(*texts)
        pieces.append(piece)
    generation = await answer_to(stream(*pieces, delta("stop")), (" and",), heard.append)
    assert "".join(token.text for token in heard) == generation.answer.text == "red, yellow"
    assert len(heard) == generation.answer.num_tokens == 4


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("red, two", ["Ġred", ",", "Ġtwo", "Ġand", "Ġblue"]),
        ("red, two", ["▁red", ",", "▁two", "▁and", "▁blue"]),
        ("é\n", ["<0xC3>", "<0xA9>", "<0x0A>", "▁and", "▁blue"]),
        ("é\n红", ["Ã©", "Ċçº", "¢", "Ġand", "Ġblue"]),
        ("Ġunju hu", ["Ġunju", " h", "u", " and", " blue"]),
    ],
)
@pytest.mark.parametrize("stop", [(" and",), ()])
async def test_entries_behind_the_end_leave_however_a_vocabulary_spells_them(text, texts, stop):
    generation = await answer_to(JSONResponse(written(text, texts, 5)), stop)
    assert generation.answer.token_logprobs.tolist() == [-0.5, -1.5, -2.5, -3.5]
    piece, heard = delta(content=text), []
    piece["choices"][0]["logprobs"] = listed(*texts)
    await answer_to(stream(piece, delta("stop")), (" and",), heard.append)
    assert len(heard) == 4
