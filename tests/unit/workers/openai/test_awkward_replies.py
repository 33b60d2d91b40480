"""Replies of servers of today that are not quite OpenAI's: each is read for what it is."""

import json
import math
from dataclasses import replace

import pytest
from starlette.responses import JSONResponse, Response

from models.errors import GenerationUnavailable, InvalidRequest, PromptTooLong
from models.records import GenerationRequest, SamplingParams
from models.units.tool_calls import Call, read
from tests.openai_server import openai_server
from tests.unit.workers.openai.test_generator import over
from workers.openai.replies import read_choices

pytestmark = pytest.mark.anyio

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
CHAT = GenerationRequest(
    messages=({"role": "user", "content": "Hello."},),
    sampling=SamplingParams(max_new_tokens=24, seed=7),
    statistics=frozenset({"answer_token_logprobs"}),
    timeout_s=20.0,
)
CHATS = {"tokenizes": False, "completes": False}
TOKENS = [{"token": "It", "logprob": -0.5}, {"token": "", "logprob": -0.25}]
FORMER = {"tokens": ["It", ""], "token_logprobs": [-0.5, -0.25]}
FORMER["top_logprobs"] = [{"It": -0.5}, {"": -0.25}]


def said(text, **further):
    return {"index": 0, "message": {"content": text}, "finish_reason": "stop"} | further


def told(*tops):
    """Log-probs with these likeliest tokens beside each chosen one."""
    return {
        "content": [{**one, "top_logprobs": top} for one, top in zip(TOKENS, tops, strict=True)]
    }


def parts(thoughts, *texts):
    """The content of a message of Mistral's."""
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": thoughts}]}
    return [thinking, *({"type": "text", "text": text} for text in texts)]


def delta(finish_reason=None, **message):
    return {"choices": [{"index": 0, "delta": message, "finish_reason": finish_reason}]}


def stream(*events, end="data: [DONE]\n\n", line="data: {}\n\n"):
    lines = []
    for event in events:
        lines.append(event if isinstance(event, str) else line.replace("{}", json.dumps(event)))
    return Response("".join([*lines, end]).encode(), media_type="text/event-stream")


def piece(name=None, arguments=None, **known):
    return delta(tool_calls=[{"function": {"name": name, "arguments": arguments}, **known}])


async def answer_to(reply, *, tools=(), is_streamed=False):
    """The answer that a reply is read as, and what was heard of its text."""
    heard = []
    async with openai_server(**CHATS, tool_form="apart") as server, over(server) as generator:
        server.replies[:] = [reply, reply]
        on_token = heard.append if is_streamed else None
        generation = await generator.generate(replace(CHAT, tools=tools), on_token)
    return generation, "".join(token.text for token in heard)


def calls_in(text):
    found = [one for one in read(text, ["weather"]) if isinstance(one, Call)]
    return [json.loads(one.arguments) for one in found]


@pytest.mark.parametrize(
    ("choice", "text", "reasoning", "finish_reason"),
    [
        (said(None), "", None, "stop"),
        (said(parts("So.", "It ", "is.")), "It is.", "So.", "stop"),
        (said([{"type": "thinking", "thinking": "So."}]), "", "So.", "stop"),
        (said([{"type": "text", "text": "It"}, {"type": "image_url"}]), "It", None, "stop"),
        (said("It", message={"content": "It", "reasoning_content": "So."}), "It", "So.", "stop"),
        (said("It", message={"content": "It", "thinking": "So."}), "It", "So.", "stop"),
        (said("It", message={"content": "It", "tool_calls": None}), "It", None, "stop"),
        (said("It", index=None, finish_reason=None), "It", None, "unknown"),
        (said("", finish_reason="content_filter: RECITATION"), "", None, "content_filter"),
        (said("It", finish_reason="SAFETY"), "It", None, "content_filter"),
        (said("It", finish_reason="sensitive"), "It", None, "content_filter"),
        (said("It", finish_reason="model_length"), "It", None, "length"),
        (said("It", finish_reason="MAX_TOKENS"), "It", None, "length"),
        (said("It", finish_reason="end_turn"), "It", None, "stop"),
        (said("It", finish_reason="Loop_1"), "It", None, "Loop_1"),
        ({"text": "It", "message": None, "finish_reason": "stop"}, "It", None, "stop"),
    ],
)
async def test_a_message_is_read_in_any_form(choice, text, reasoning, finish_reason):
    generation, _ = await answer_to(JSONResponse({"choices": [choice], "usage": None}))
    answer = generation.answer
    assert (answer.text, answer.finish_reason) == (text, finish_reason)
    assert (answer.reasoning and answer.reasoning.text) == reasoning


@pytest.mark.parametrize(
    ("logprobs", "expected"),
    [
        ({"content": []}, None),
        ({"content": None, "refusal": None}, None),
        ({"content": TOKENS}, [-0.5, -0.25]),
        (told(None, None), [-0.5, -0.25]),
        (told([], []), [-0.5, -0.25]),
        (told([TOKENS[0], {"token": "x", "logprob": None}], [TOKENS[1]]), [-0.5, -0.25]),
        (told([TOKENS[0], {"token": "x", "logprob": -math.inf}], [TOKENS[1]]), [-0.5, -0.25]),
        (told(TOKENS[:1], TOKENS[1:]) | FORMER, [-0.5, -0.25]),
    ],
    ids=[
        "no tokens", "null", "no likeliest", "null likeliest", "empty likeliest", "no log-prob",
        "infinite", "both forms",
    ],
)  # fmt: skip
async def test_log_probs_are_those_that_are_told(logprobs, expected):
    usage = {"completion_tokens": 2}
    reply = {"choices": [said("It", logprobs=logprobs)], "usage": usage}
    generation, _ = await answer_to(Response(json.dumps(reply).encode()))
    found = generation.answer.token_logprobs
    assert (None if found is None else found.tolist()) == expected
    assert generation.answer.num_tokens == 2
    if expected is None:
        reason = generation.absent["answer_token_logprobs"]
        assert reason == "the server told no log-probs"


async def test_the_end_has_one_name_though_its_two_log_probs_are_not_quite_equal():
    other = {"token": "</s>", "logprob": -0.2501}
    reply = {"choices": [said("It", logprobs=told(TOKENS[:1], [other]))]}
    async with openai_server(**CHATS) as server, over(server) as generator:
        server.replies.append(JSONResponse(reply))
        generation = await generator.generate(replace(CHAT, num_tops=1))
    assert generation.answer.token_tops == ((("It", -0.5),), (("", -0.25),))


async def test_an_answer_with_a_log_prob_that_is_no_number_is_an_answer_without_any():
    content = [TOKENS[0], TOKENS[1] | {"logprob": math.nan}]
    reply = {"choices": [said("It", logprobs={"content": content})]}
    generation, _ = await answer_to(Response(json.dumps(reply).encode()))
    assert (generation.answer.text, generation.answer.token_logprobs) == ("It", None)
    assert generation.absent["answer_token_logprobs"] == "the server told a log-prob that is none"


@pytest.mark.parametrize("arguments", [{"city": "Lima"}, '{"city": "Lima"}'])
async def test_arguments_may_be_an_object_or_its_text(arguments):
    call = {"id": "1", "function": {"name": "weather", "arguments": arguments}}
    reply = {"choices": [said("", message={"content": None, "tool_calls": [call]})]}
    generation, _ = await answer_to(JSONResponse(reply), tools=(TOOL,))
    assert calls_in(generation.answer.text) == [{"city": "Lima"}]


@pytest.mark.parametrize("function", [{"name": "weather"}, {"name": "weather", "arguments": None}])
async def test_a_call_without_arguments_has_none(function):
    reply = {
        "choices": [said("", message={"content": None, "tool_calls": [{"function": function}]})]
    }
    generation, _ = await answer_to(JSONResponse(reply), tools=(TOOL,))
    assert calls_in(generation.answer.text) == [{}]


LIMA, ROME = '{"city": "Lima"}', '{"city": "Rome"}'


@pytest.mark.parametrize(
    ("pieces", "cities"),
    [
        ([piece("weather", index=0, id="1"), piece(None, LIMA, index=0)], ["Lima"]),
        ([piece("weather", {"city": "Lima"}, index=0)], ["Lima"]),
        ([piece("weather", '{"city": ', id="1"), piece("", '"Lima"}', id="")], ["Lima"]),
        ([piece("weather", '{"city": ', id="1"), piece(None, '"Lima"}', id="1")], ["Lima"]),
        ([piece("weather", LIMA, id="1"), piece("weather", ROME, id="2")], ["Lima", "Rome"]),
        ([piece("weather", LIMA), piece("weather", ROME)], ["Lima", "Rome"]),
        ([piece("weather", LIMA, index=None)], ["Lima"]),
        ([piece("weather", '{"city": ', index=0), piece("weather", '"Lima"}', index=0)], ["Lima"]),
        (
            [piece("weather", LIMA, index=0, id="1"), piece("weather", ROME, index=0, id="2")],
            ["Lima", "Rome"],
        ),
        ([piece("weather", LIMA, index=1), piece("weather", ROME, index=10**9)], ["Lima", "Rome"]),
    ],
)
async def test_pieces_of_calls_are_joined_by_number_or_id(pieces, cities):
    reply = stream(*pieces, delta("tool_calls"))
    generation, heard = await answer_to(reply, tools=(TOOL,), is_streamed=True)
    assert calls_in(generation.answer.text) == [{"city": city} for city in cities]
    assert heard == generation.answer.text


IT = delta(content="It")
STOP = delta("stop")


@pytest.mark.parametrize(
    "reply",
    [
        stream(": OPENROUTER PROCESSING\n\n", IT, ": ping\n\n", STOP),
        stream(IT, STOP, line="data: {}\r\n\r\n"),
        stream(IT, STOP, line="data:{}\n\n"),
        stream("\ufeff", IT, STOP),
        stream(IT, STOP, delta("", content="")),
        stream(IT, STOP, line="event: message\nid: 7\ndata: {}\n\n"),
        stream(IT, "data:\n\n", STOP),
        stream(IT, STOP, end=""),
        stream({**IT, "error": None}, STOP),
        stream(IT, {"choices": [{"index": 0, "delta": None, "finish_reason": "stop"}]}),
        stream({"choices": [{"index": 0, "content_filter_offsets": {}}]}, IT, STOP),
        stream(IT, STOP, {"choices": None, "usage": {"completion_tokens": 1}}),
        stream({"choices": [said("It")]}),
        JSONResponse({"choices": [said("It")]}),
    ],
    ids=[
        "comments", "crlf", "no blank", "byte order mark", "an empty finish", "fields", "no data",
        "no end", "null error", "null delta",
        "no delta", "null choices", "a whole message", "no stream",
    ],
)  # fmt: skip
async def test_a_stream_is_read_in_any_form(reply):
    generation, heard = await answer_to(reply, is_streamed=True)
    assert (generation.answer.text, generation.answer.finish_reason) == ("It", "stop")
    assert heard == "It"


async def test_a_reasoning_in_parts_is_streamed_apart():
    reply = stream(delta(content=parts("So")), delta(content=parts(" be it", "It")), STOP)
    generation, heard = await answer_to(reply, is_streamed=True)
    assert generation.answer.reasoning.text == "So be it"
    assert (generation.answer.text, heard) == ("It", "It")


LEAKED = {
    "the end": ("Let me see.", "</think>\n\nIt is."),
    "the end twice": ("Let me see.", "</think>\n</think>\n\nIt is."),
    "both": ("Let me see.", "\n<think>\nLet me see.\n</think>\n\nIt is."),
    "of others": ("Let me see.", "[/THINK]It is."),
    "a name of its own": ("Let me see.", "</thinking>\n\nIt is."),
    "both by a name": ("Let me see.", "<reasoning>Let me see.</reasoning>It is."),
    "by signs": ("Let me see.", "<|thought|>Let me see.<|/thought|>It is."),
    "the final channel": ("Let me see.", "<|channel|>final<|message|>It is."),
    "an empty reasoning": ("", "</think>\n\nIt is."),
    "none": ("Let me see.", "\n\nIt is."),
}


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(("thoughts", "content"), LEAKED.values(), ids=LEAKED)
async def test_tags_that_leak_into_a_message_are_no_part_of_its_answer(
    thoughts, content, is_streamed, name
):
    reply = JSONResponse({"choices": [said("", message={name: thoughts, "content": content})]})
    if is_streamed:
        pieces = [delta(content=content[i : i + 3]) for i in range(0, len(content), 3)]
        reply = stream(delta(**{name: thoughts}), *pieces, STOP)
    generation, heard = await answer_to(reply, is_streamed=is_streamed)
    answer = generation.answer
    assert (answer.compared_text, answer.reasoning.text) == ("It is.", thoughts)
    assert answer.reasoning.is_finished
    assert not is_streamed or heard == answer.text


@pytest.mark.parametrize("thoughts", ["", "Let me see."])
@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(
    "content",
    ["<reason>It is late.</reason><refund>yes</refund>", "Here are my reasoning steps: It is."],
)
async def test_an_answer_that_begins_as_a_reasoning_might_stays_whole(
    content, is_streamed, thoughts
):
    told = {"reasoning": thoughts} if thoughts else {}
    reply = JSONResponse({"choices": [said("", message={"content": content, **told})]})
    if is_streamed:
        reply = stream(delta(**told), delta(content=content), STOP)
    generation, heard = await answer_to(reply, is_streamed=is_streamed)
    assert generation.answer.text == content
    assert heard in ("", content)


@pytest.mark.parametrize(
    "content",
    [
        "<thinking>Let me see.</thinking>It is.",
        "<Thought>\nLet me see.\n</Thought>\nIt is.",
        "<|begin_of_thought|>Let me see.<|end_of_thought|>It is.",
        "Here are my reasoning steps:\nLet me see.\n[BEGIN FINAL RESPONSE]\nIt is.",
        "Let me see.\n</think>\n\nIt is.",
    ],
)
async def test_tags_that_no_field_tells_of_are_known_by_what_they_are_called(content):
    generation, _ = await answer_to(JSONResponse({"choices": [said(content)]}))
    answer = generation.answer
    assert (answer.compared_text, answer.reasoning.text) == ("It is.", "Let me see.")


@pytest.mark.parametrize(
    "content",
    [
        "```\n</think>\n```\nIt is.",
        "<thin>It is.</thin>",
        "It is.\n</think>",
        "Here are my reasoning steps:\nIt is.",
    ],
)
async def test_what_is_no_reasoning_is_the_answer_as_it_stands(content):
    pieces = [delta(content=content[i : i + 6]) for i in range(0, len(content), 6)]
    for reply in (JSONResponse({"choices": [said(content)]}), stream(*pieces, STOP)):
        generation, heard = await answer_to(reply, is_streamed=not isinstance(reply, JSONResponse))
        assert generation.answer.text == content
        assert heard in ("", content)
        assert generation.answer.reasoning is None


@pytest.mark.parametrize(
    ("content", "text", "is_finished"),
    [
        ("<think>So I ", "", False),
        ("It ends in </think>.", "It ends in </think>.", True),
        ("It is <think>so</think>.", "It is <think>so</think>.", True),
    ],
    ids=["cut within", "named behind words", "both behind words"],
)
async def test_tags_within_an_answer_are_its_text(content, text, is_finished):
    message = {"reasoning": "Let me see.", "content": content}
    reply = {"choices": [said("", message=message, finish_reason="length")]}
    generation, _ = await answer_to(JSONResponse(reply))
    assert generation.answer.text == text
    assert generation.answer.reasoning.is_finished == is_finished


@pytest.mark.parametrize("shown", [True, False], ids=["with its thoughts", "alone"])
async def test_behind_a_tag_that_leaks_log_probs_are_the_answers(shown):
    texts = ["Let", " me", "</think>"] * shown + ["</think>"] * (not shown) + ["\n\n", "It", ""]
    content = [{"token": one, "logprob": -0.5 - i} for i, one in enumerate(texts)]
    message = {"reasoning_content": "Let me", "content": "</think>\n\nIt"}
    choice = said("", message=message, logprobs={"content": content})
    usage = {"completion_tokens": len(texts)}
    generation, _ = await answer_to(JSONResponse({"choices": [choice], "usage": usage}))
    expected = [one["logprob"] for one in content[-3:]]
    assert generation.answer.token_logprobs.tolist() == expected


TOO_LONG = {"error": {"code": 400, "type": "exceed_context_size_error", "message": "n_ctx"}}
BUSY = "insufficient_system_resource"  # DeepSeek's
FAILED = {"error": {"code": 502, "message": "Provider returned error"}}
NAMED = {"error": {"code": "context_length_exceeded", "message": "-"}}
WHOLE = {"object": "error", "code": 400, "message": "exceeds the model's context length"}


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(
    ("told", "kind", "words"),
    [
        (TOO_LONG, PromptTooLong, "exceed the model's context"),
        (NAMED, PromptTooLong, "exceed the model's context"),
        (WHOLE, PromptTooLong, "exceed the model's context"),
        (FAILED, GenerationUnavailable, "status 502"),
        ({"error": "overloaded"}, GenerationUnavailable, "status 502"),
        ({"choices": [said("It", finish_reason="error")]}, GenerationUnavailable, "broke a text"),
        ({"choices": [said("It", finish_reason=BUSY)]}, GenerationUnavailable, "broke a text"),
    ],
)
async def test_an_error_in_a_success_is_an_error(told, kind, words, is_streamed):
    reply = stream(told) if is_streamed else JSONResponse(told)
    with pytest.raises(kind, match=words):
        await answer_to(reply, is_streamed=is_streamed)


async def test_a_stream_without_an_end_of_text_or_stream_broke_off():
    with pytest.raises(GenerationUnavailable, match="broke off"):
        await answer_to(stream(IT, end=""), is_streamed=True)


# As servers of today say it; none but the words tell why.
LONG = {
    "TGI": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 9",
    "SGLang": "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
    "vLLM": "'max_tokens' is too large: 24. This model's maximum context length is 4096 tokens",
    "llama.cpp": "the request exceeds the available context size, try increasing it",
    "Mistral": "Prompt contains 9 tokens, too large for model with 8 maximum context length",
    "Anthropic": "prompt is too long: 200001 tokens > 200000 maximum",
    "Gemini": "The input token count (9) exceeds the maximum number of tokens allowed (8).",
    "Cohere": "too many tokens: total number of tokens in the prompt cannot exceed 4081",
    "xAI": "This model's maximum prompt length is 8 but the request contains 9 tokens.",
    "GPT-5": "Input tokens exceed the configured limit of 8 tokens. Your messages resulted in 9.",
    "TabbyAPI": "Prompt length 5000 is greater than max_seq_len 4096",
}


@pytest.mark.parametrize("form", ["error", "detail", "message", "text", "a failure"])
@pytest.mark.parametrize("words", LONG.values(), ids=LONG)
async def test_a_prompt_that_is_too_long_is_known_by_the_words_of_the_refusal(words, form):
    error = {"type": "invalid_request_error", "message": words, "param": None, "code": None}
    told = {"error": {"error": error}, "a failure": {"error": error}}.get(form, {form: words})
    reply = JSONResponse(told, 500 if form == "a failure" else 400)
    if form == "text":
        reply = Response(words, 422)
    with pytest.raises(PromptTooLong):
        await answer_to(reply)


ALL_TAKEN = "Could not finish the message because max_tokens or model output limit was reached."


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_reasoning_that_takes_all_tokens_is_one_that_is_cut_off_refused_or_not(is_streamed):
    reply = JSONResponse({"error": {"type": "invalid_request_error", "message": ALL_TAKEN}}, 400)
    generation, heard = await answer_to(reply, is_streamed=is_streamed)
    answer = generation.answer
    assert (answer.text, answer.finish_reason, heard) == ("", "length", "")
    assert not answer.reasoning.is_finished
    assert "reasoning_not_told" in generation.warnings


AZURE = {"error": {"code": "content_filter", "message": "ResponsibleAIPolicyViolation"}}
DEEPSEEK = {"error": {"code": "invalid_request_error", "message": "Content Exists Risk"}}
ALIBABA = {"error": {"code": "data_inspection_failed", "message": "Input data may contain"}}
FLAGGED = {"error": {"code": 403, "message": "-", "metadata": {"flagged_input": "Hello."}}}


@pytest.mark.parametrize(
    ("told", "status"), [(AZURE, 400), (FLAGGED, 403), (DEEPSEEK, 400), (ALIBABA, 400)]
)
async def test_a_prompt_that_a_filter_refuses_is_refused_once_and_teaches_nothing(told, status):
    async with openai_server(**CHATS) as server, over(server) as generator:
        server.replies += [JSONResponse(told, status)] * 9
        known = generator.info.capabilities
        sampling = replace(CHAT.sampling, num_samples=10)
        with pytest.raises(InvalidRequest, match="by a filter") as caught:
            await generator.generate(replace(CHAT, sampling=sampling))
        assert len(server.replies) >= 7  # answer and samples were asked for once
        assert generator.info.capabilities == known
    assert caught.value.field == "messages"


@pytest.mark.parametrize(
    ("error", "field"),
    [
        ({"param": "max_tokens", "code": "invalid_value"}, "max_new_tokens"),
        ({"message": "temperature: must be at most 1"}, "temperature"),
        ({"message": "'stop' has more than 4 strings", "code": 400}, "stop"),
        ({"param": "tools.0.function.name", "code": "invalid_value"}, "tools"),
    ],
)
async def test_a_value_that_the_server_refuses_is_refused_by_its_field(error, field):
    sampling = replace(CHAT.sampling, temperature=1.5, num_samples=4, stop=("a", "b"))
    async with openai_server(**CHATS, tool_form="apart") as server, over(server) as generator:
        await generator.generate(replace(CHAT, sampling=sampling))  # takes the names of all
        server.replies += [JSONResponse({"error": error}, 400)] * 9
        with pytest.raises(InvalidRequest, match="refuses this value") as caught:
            await generator.generate(replace(CHAT, tools=(TOOL,), sampling=sampling))
    assert caught.value.field == field


async def test_a_stop_string_cuts_no_call_that_came_apart_from_text():
    call = {"function": {"name": "weather", "arguments": '{"city": "Lima"}'}}
    choice = {"message": {"content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}
    [read_choice] = read_choices([{"choices": [choice]}], 1, ("\n", "}"))
    assert calls_in(read_choice.text) == [{"city": "Lima"}]


def completion(pieces, **further):
    logprobs = {"tokens": pieces, "token_logprobs": [-0.5] * len(pieces)}
    text = "".join(pieces).replace("\u0120", " ")
    told = {"text": text, "logprobs": logprobs, "finish_reason": "length"}
    return {"choices": [told | further]}


@pytest.mark.parametrize(
    ("pieces", "stop", "text", "num_tokens"),
    [
        (["It", " is", "\n", "Q:", " x"], ("\nQ",), "It is", 4),
        (["It", " is.", " No"], (".",), "It is", 2),
        (["It", " is", "\n"], ("\n",), "It is", 3),
        (["It", " is"], ("x",), "It is", 2),
    ],
    ids=["goes on", "within a token", "shows its end", "has none"],
)
def test_behind_a_stop_string_neither_text_nor_log_probs_are_read(pieces, stop, text, num_tokens):
    [choice] = read_choices([completion(pieces)], 1, stop)
    assert choice.text == text
    assert choice.num_tokens == num_tokens
    assert choice.finish_reason == ("length" if stop == ("x",) else "stop")
    assert (choice.unsound == "") == (num_tokens is not None)
