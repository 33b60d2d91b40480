"""Several choices of OpenAI's endpoints: the scored answer, and others of its samples."""

import pytest

from tests.api.openai_calls import CHAT, answered, both, post, said_at, uncertainty_of
from tests.events import events_of

pytestmark = pytest.mark.anyio
PLACEMENTS = ["embedded", "remote"]


DRAWN = {"temperature": 1, "seed": 5}


def text_of(choice):
    return choice["message"]["content"] if "message" in choice else choice["text"]


@both
@pytest.mark.parametrize("strategy", [None, "mbr"], ids=["of its own", "one of the samples"])
async def test_choices_are_the_scored_answer_and_the_other_samples_in_their_order(
    service, path, strategy
):
    wanted = {"num_samples": 5, "return_samples": True, "strategy": strategy}
    body = await answered(service, path, n=4, **DRAWN, uncertainty=wanted)
    told = uncertainty_of({"choices": body["choices"][:1]})
    drawn = [said_at(path, sample["text"]) for sample in told["samples"]]
    if strategy is not None:
        first = drawn.pop(told["provenance"]["answer_sample"])
        assert text_of(body["choices"][0]) == first

    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2, 3]
    assert [text_of(choice) for choice in body["choices"][1:]] == drawn[:3]
    assert [choice["uncertainty"] for choice in body["choices"][1:]] == [None] * 3


@both
async def test_the_first_of_several_choices_is_scored_as_if_it_were_alone(service, path):
    alone = await answered(service, path, **DRAWN)
    several = await answered(service, path, n=3, **DRAWN)
    assert several["choices"][0]["uncertainty"]["scores"] == uncertainty_of(alone)["scores"]
    written = several["usage"]["completion_tokens"]
    assert written > alone["usage"]["completion_tokens"]
    assert several["usage"]["total_tokens"] == written + several["usage"]["prompt_tokens"]


async def test_as_many_samples_are_drawn_as_there_are_choices_behind_the_answer(service):
    for wanted, num in (({}, 11), ({"strategy": "mbr"}, 12)):
        body = await answered(service, CHAT, n=12, temperature=1, uncertainty=wanted)
        assert len(body["choices"]) == 12
        assert body["choices"][0]["uncertainty"]["provenance"]["num_samples"] == num
    few = await answered(service, CHAT, n=3, temperature=1, uncertainty={"num_samples": 2})
    assert few["choices"][0]["uncertainty"]["provenance"]["num_samples"] == 2


@both
async def test_log_probs_of_each_choice_are_those_of_its_own_tokens(service, path):
    wanted = {"num_samples": 4, "return_samples": True, "estimators": ["sp"]}
    logprobs = True if path == CHAT else 0
    body = await answered(service, path, n=3, **DRAWN, logprobs=logprobs, uncertainty=wanted)
    told = body["choices"][0]["uncertainty"]
    logprobs = [-told["scores"]["sp"], *(sample["logprob"] for sample in told["samples"])]
    for choice, logprob in zip(body["choices"], logprobs, strict=False):
        if path == CHAT:
            tokens = choice["logprobs"]["content"]
            texts, values = [t["token"] for t in tokens], [t["logprob"] for t in tokens]
        else:
            texts, values = choice["logprobs"]["tokens"], choice["logprobs"]["token_logprobs"]
        assert "".join(texts) == text_of(choice)
        assert sum(values) == pytest.approx(logprob)


@both
async def test_a_stream_brings_the_other_choices_whole_behind_the_first(service, path):
    whole = await answered(service, path, n=3, **DRAWN)
    response = await post(
        service, path, n=3, **DRAWN, stream=True, stream_options={"include_usage": True}
    )
    *events, done = events_of(response.text)
    assert done.data == "[DONE]"
    texts, reasons, usage = ["", "", ""], {}, None
    for chunk in (event.data for event in events):
        usage = chunk["usage"] or usage
        for choice in chunk["choices"]:
            piece = choice["delta"].get("content") if path == CHAT else choice["text"]
            texts[choice["index"]] += piece or ""
            if choice["finish_reason"]:
                reasons[choice["index"]] = choice["finish_reason"]
    assert texts == [text_of(choice) for choice in whole["choices"]]
    assert list(reasons) == [1, 2, 0], "the last chunk is that with the uncertainty"
    assert usage == whole["usage"]
