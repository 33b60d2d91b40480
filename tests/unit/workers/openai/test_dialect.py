"""What the refusals of a server teach of how it is spoken to."""

import pytest

from workers.openai.profiles import PROFILES
from workers.remote.refusals import Rejected

NEW = PROFILES["generic"]


def refused(name, code=""):
    return Rejected(400, code, frozenset({name}))


@pytest.mark.parametrize(
    ("name", "value", "code", "expected"),
    [
        ("temperature", 0.0, "", ""),
        ("temperature", 1.5, "unsupported_value", ""),
        ("temperature", 1.5, "", None),
        ("seed", 7, "", ""),
        ("max_tokens", 9, "unsupported_parameter", "max_completion_tokens"),
    ],
    ids=["no temperature", "fixed", "too high a temperature", "no seed", "another name"],
)
def test_a_parameter_that_is_refused_is_left_out_or_renamed_and_a_value_is_not(
    name, value, code, expected
):
    learned = NEW.learned(refused(name, code), {name: value})
    assert (None if learned is None else learned.names[name]) == expected


def test_what_was_taken_once_is_refused_for_its_value():
    known = NEW.after({"temperature": 0.0, "stop": ["a"]})
    assert known.learned(refused("temperature"), {"temperature": 0.7}) is None
    assert known.learned(refused("stop"), {"stop": ["a"] * 9}) is None
    assert not known.learned(refused("temperature", "unsupported_value"), {"temperature": 0}).takes(
        "temperature"
    )


@pytest.mark.parametrize(("num", "fewer"), [(20, 10), (7, 5), (5, 1), (0, None)])
def test_fewer_likeliest_tokens_are_requested_where_so_many_are_refused(num, fewer):
    learned = NEW.learned(refused("logprobs"), {"logprobs": True, "top_logprobs": num})
    assert learned.logprobs == fewer


@pytest.mark.parametrize("num", [2, 20])
def test_a_refusal_teaches_nothing_that_would_send_the_same_again(num):
    body = {"logprobs": True, "top_logprobs": num, "vllm_xargs": {"cocoa": "entropy"}}
    for refusal in (refused("top_logprobs"), Rejected(400, "")):
        assert NEW.learned(refusal, body) is None
