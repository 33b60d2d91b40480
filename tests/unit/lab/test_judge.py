import asyncio
import json

import httpx
import numpy as np
import pytest

from cocoa_lab import judge
from cocoa_lab.examples import Example
from cocoa_lab.judge import JudgeModel, judge_prompt, measure, question, verdict

pytestmark = pytest.mark.anyio


def example(*references, prompt="Question: Who wrote Faust?\nAnswer:"):
    return Example("id", "trivia_qa", prompt, references)


def completion(text):
    return {"choices": [{"message": {"role": "assistant", "content": text}}]}


def model(handler, api_key=None):
    return JudgeModel("http://judge", "m", api_key, httpx.MockTransport(handler))


def output_of(request):
    content = json.loads(request.content)["messages"][1]["content"]
    return content.split("Generated: ")[1].split("\n")[0]


async def test_verdicts_stand_in_the_order_of_the_answers():
    async def answer(request):
        output = output_of(request)
        await asyncio.sleep(0.02 if output == "Goethe" else 0)
        return httpx.Response(
            200, json=completion({"Goethe": "1", "Schiller": " 0\n"}.get(output, "maybe"))
        )

    values = await measure(model(answer)).score(
        ["Goethe", "Schiller", "?"], [example("Goethe")] * 3
    )
    assert values == pytest.approx([1, 0, np.nan], nan_ok=True)


async def test_the_request_is_a_chat_completion_for_one_digit():
    seen = []

    def answer(request):
        seen.append((str(request.url), json.loads(request.content)))
        return httpx.Response(200, json=completion("1"))

    await measure(model(answer)).score([" Goethe\n"], [example("Goethe")])

    ((url, body),) = seen
    assert url == "http://judge/v1/chat/completions"
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("m", 0, 1)
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert body["messages"][1]["content"] == judge_prompt("Goethe", example("Goethe"))


async def test_an_error_of_the_server_is_raised_and_the_other_requests_are_cancelled():
    answered = []

    async def answer(request):
        if b"bad" in request.content:
            return httpx.Response(500)
        await asyncio.sleep(0.05)
        answered.append(request)
        return httpx.Response(200, json=completion("1"))

    with pytest.raises(httpx.HTTPStatusError, match="500"):
        await measure(model(answer)).score(["a", "bad"], [example("a")] * 2)
    await asyncio.sleep(0.1)

    assert answered == []


@pytest.mark.parametrize(("num_busy", "is_told"), [(3, True), (4, False)])
async def test_a_server_that_is_busy_is_asked_a_few_times_more(monkeypatch, num_busy, is_told):
    monkeypatch.setattr(judge, "_PAUSES_S", (0, 0, 0))
    statuses = [429] * num_busy

    def answer(request):
        return httpx.Response(statuses.pop() if statuses else 200, json=completion("1"))

    scored = measure(model(answer)).score(["a"], [example("a")])
    if is_told:
        assert (await scored).tolist() == [1.0]
        return
    with pytest.raises(httpx.HTTPStatusError, match="429"):
        await scored


@pytest.mark.parametrize(
    "reply",
    [
        completion("Yes"),
        completion("10"),
        completion("1."),
        completion(""),
        completion(None),
        {"choices": []},
        {"error": "busy"},
        [],
        None,
    ],
    ids=repr,
)
def test_a_reply_that_is_not_the_digit_is_undefined(reply):
    assert np.isnan(verdict(reply))


def test_the_prompt_names_one_target_or_lists_several():
    assert judge_prompt(" Goethe ", example("Goethe")) == (
        "You are a text evaluator. The model was asked the following question:\nWho wrote Faust?\n"
        "The 'Generated' text is a model's response. The 'Target' is the correct answer.\n"
        "If the generated answer correctly answers the question based on the target, return 1.\n"
        "If it is wrong, return 0.\nRespond ONLY with a single digit: 1 or 0.\n\n"
        "Generated: Goethe\nTarget: Goethe"
    )
    assert judge_prompt("x", example("Goethe", "J. W. Goethe")).endswith(
        "\nTarget list: Goethe, J. W. Goethe"
    )


def test_the_question_is_the_last_of_the_prompt_or_all_of_it():
    assert (
        question("Question: One?\nAnswer:1\nQuestion:  Two\nor three? \nAnswer:")
        == "Two\nor three?"
    )
    assert question("What is the capital of Cuba?") == "What is the capital of Cuba?"


async def test_as_a_quality_measure_each_answer_is_judged_once_with_the_key():
    seen = []

    def answer(request):
        seen.append(request.headers.get("authorization"))
        return httpx.Response(200, json=completion("1" if output_of(request) == "Goethe" else "0"))

    judged = measure(model(answer, "secret"))
    outputs, examples = ["Goethe", "Schiller", "Goethe"], [example("Goethe")] * 3

    first = await judged.score(outputs, examples)
    again = await judged.score(outputs, examples)

    assert judged.is_binary
    assert first.tolist() == again.tolist() == [1, 0, 1]
    assert seen == ["Bearer secret"] * 2
