"""Stop strings, reasoning prefixes and incremental output."""

import numpy as np
import pytest

from models.engines.texts import cut_at_stop, num_stable, remaining_tokens, without_reasoning
from models.records import Sequence, Token


@pytest.mark.parametrize(
    ("text", "stop", "expected"),
    [
        ("Paris\nQ:", ("\n",), "Paris"),
        ("a b c", ("c", "b"), "a "),
        ("Paris", ("\n",), None),
        ("Paris", (), None),
        ("stop", ("stop",), ""),
    ],
    ids=["cut", "first of several", "absent", "no stop strings", "at the start"],
)
def test_text_ends_before_the_first_stop_string(text, stop, expected):
    assert cut_at_stop(text, stop) == expected


@pytest.mark.parametrize(
    ("text", "opened", "expected"),
    [
        ("<think>hm</think>\nParis", False, "Paris"),
        (" <think>a</think>b</think>c", False, "b</think>c"),
        ("hm</think>Paris", True, "Paris"),
        ("hm</think>Paris", False, "hm</think>Paris"),
        ("<think>cut off", False, "<think>cut off"),
        ("Paris <think>later</think>", False, "Paris <think>later</think>"),
    ],
    ids=[
        "prefix",
        "first end counts",
        "opened by the prompt",
        "not opened",
        "unfinished stays",
        "not a prefix",
    ],
)
def test_a_complete_reasoning_prefix_is_left_out(text, opened, expected):
    assert without_reasoning(text, opened=opened) == expected


@pytest.mark.parametrize(
    ("text", "stop", "expected"),
    [
        ("Paris", (), 5),
        ("Paris\ufffd", (), 5),
        ("Paris\nQ", ("\nQ:",), 5),
        ("Paris\n", ("\nQ:", "xx"), 5),
        ("aab", ("aabb",), 0),
        ("Paris", ("xyz",), 5),
    ],
    ids=["all", "half a code point", "stop begun", "one of several", "all held", "other stop"],
)
def test_only_characters_that_cannot_change_are_streamed(text, stop, expected):
    assert num_stable(text, stop) == expected


@pytest.mark.parametrize(
    ("num_tokens", "num_told", "num_characters", "expected"),
    [
        (3, 0, 0, [Token("It is", -0.5, None), Token("", -0.25, None), Token("", -0.125, None)]),
        (3, 1, 2, [Token(" is", -0.25, None), Token("", -0.125, None)]),
        (3, 3, 5, []),
        (0, 0, 0, [Token("It is")]),
    ],
    ids=["none told", "one told", "all told", "of unknown tokens"],
)
def test_tokens_that_were_not_told_bring_the_rest_of_the_text(
    num_tokens, num_told, num_characters, expected
):
    logprobs = np.array([-0.5, -0.25, -0.125])[:num_tokens]
    sequence = Sequence("It is", "It is", num_tokens, "stop", token_logprobs=logprobs)
    assert remaining_tokens(sequence, num_told, num_characters) == expected
