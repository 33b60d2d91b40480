"""Every field of OpenAI's bodies reaches the ask; nothing is lost on the way or invented."""

import pytest
from pydantic import ValidationError

from app.http.openai.requests import ChatRequest, CompletionRequest, ask_of
from app.scoring.ask import Ask
from models.errors import InvalidRequest
from models.records import SamplingParams

UNCERTAINTY = {
    "strategy": "mbr",
    "estimators": ["sp", "cocoa_sp"],
    "estimator": "mte",
    "similarity": "rouge_l",
    "num_samples": 3,
    "top_k": 7,
    "return_samples": True,
    "explain": True,
    "timeout_s": 2.5,
    "cache": False,
    "target_error": 0.05,
    "on_reject": "abstain",
    "calibration": "facts",
}
ASKED = {
    "strategy": "mbr",
    "estimators": ("sp", "cocoa_sp"),
    "primary": "mte",
    "similarity": "rouge_l",
    "return_samples": True,
    "explain": True,
    "timeout_s": 2.5,
    "cache": False,
    "target_error": 0.05,
    "on_reject": "abstain",
    "calibration": "facts",
}
SHARED = {
    "model": "m",
    "temperature": 0.5,
    "top_p": 0.9,
    "stop": ["\n", "Q:"],
    "seed": 11,
    "uncertainty": UNCERTAINTY,
}
SAMPLING = SamplingParams(3, 5, 0.5, 7, 0.9, ("\n", "Q:"), 11)


def test_a_chat_becomes_an_ask_with_every_field():
    request = ChatRequest(
        messages=[{"role": "developer", "content": "a"}, {"role": "user", "content": "b"}],
        max_completion_tokens=5,
        chat_template_kwargs={"thinking": False},
        logprobs=True,
        **SHARED,
    )
    messages = ({"role": "system", "content": "a"}, {"role": "user", "content": "b"})
    assert ask_of(request, light=False) == Ask(
        messages=messages,
        chat_template_kwargs={"thinking": False},
        sampling=SAMPLING,
        return_tokens=True,
        **ASKED,
    )


def test_a_text_becomes_an_ask_with_every_field():
    request = CompletionRequest(prompt=["a"], max_tokens=5, logprobs=0, **SHARED)
    expected = Ask(prompt="a", sampling=SAMPLING, return_tokens=True, **ASKED)
    assert ask_of(request, light=False) == expected


def test_without_further_fields_it_is_the_default_ask():
    assert ask_of(CompletionRequest(model="m", prompt="a"), light=False) == Ask(
        prompt="a", timeout_s=60.0
    )


@pytest.mark.parametrize(
    ("temperature", "wanted", "expected"),
    [
        (None, {}, ("greedy", 1.0)),
        (0, {"temperature": 0.3}, ("greedy", 0.3)),
        (0.7, {}, ("sample", 0.7)),
        (0.7, {"strategy": "greedy"}, ("greedy", 0.7)),
    ],
    ids=["absent", "zero", "drawn", "named"],
)
def test_the_temperature_says_whether_the_answer_is_drawn(temperature, wanted, expected):
    request = CompletionRequest(model="m", prompt="a", temperature=temperature, uncertainty=wanted)
    ask = ask_of(request, light=False)
    assert (ask.strategy, ask.sampling.temperature) == expected


def test_light_mode_comes_from_the_name_or_the_field_and_not_against_each_other():
    plain = CompletionRequest(model="m", prompt="a")
    light = CompletionRequest(model="m", prompt="a", uncertainty={"mode": "light"})
    full = CompletionRequest(model="m", prompt="a", uncertainty={"mode": "full"})
    assert [ask_of(one, light=False).light for one in (plain, light, full)] == [False, True, False]
    assert [ask_of(one, light=True).light for one in (plain, light)] == [True, True]
    with pytest.raises(InvalidRequest) as refused:
        ask_of(full, light=True)
    assert refused.value.field == "mode"


@pytest.mark.parametrize("value", [True, False, 2, "1", [1], {}])
def test_a_field_that_may_hold_one_value_holds_no_other(value):
    with pytest.raises(ValidationError) as refused:
        CompletionRequest(model="m", prompt="a", n=value)
    assert [error["loc"] for error in refused.value.errors()] == [("n",)]
