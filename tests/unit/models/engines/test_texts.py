"""Stop strings, reasoning prefixes and incremental output."""

import numpy as np
import pytest

from models.engines.tags import Tags
from models.engines.texts import cut_at_stop, num_stable, parted
from models.records import Sequence

CUT = "reasoning_unfinished"


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


REASONED = {
    "a prefix": ("<think>hm</think>\nParis", "hm", "\nParis"),
    "the first end tag": (" <think>a</think>b</think>c", "a", "b</think>c"),
    "other tags": ("[THINK]hm[/THINK]Paris", "hm", "Paris"),
    "none": ("hm</think>Paris", None, "hm</think>Paris"),
    "later ones": ("Paris <think>later</think>", None, "Paris <think>later</think>"),
}


@pytest.mark.parametrize(("text", "thoughts", "answer"), REASONED.values(), ids=REASONED)
def test_the_reasoning_of_a_text_stands_apart(text, thoughts, answer):
    found = parted(Sequence(text, text.strip(), 0, "stop"))
    assert (found.text, found.compared_text) == (answer, answer.strip())
    assert (found.reasoning and found.reasoning.text) == thoughts
    assert found.no_answer is None


def test_a_reasoning_that_was_cut_off_has_no_answer():
    text = "<think>the sum"
    found = parted(Sequence(text, text, 0, "length"))
    assert (found.text, found.reasoning.text, found.no_answer) == ("", "the sum", CUT)


@pytest.mark.parametrize(("opened", "start"), [(True, "[THINK]"), (False, "<think>")])
def test_an_end_tag_tells_the_tags_of_a_reasoning_that_the_prompt_has_opened(opened, start):
    assert Tags.known_in("hm[/THINK]Paris", opened=opened).start == start


def test_what_is_known_of_tokens_is_cut_to_those_of_the_answer():
    texts = ("<think>", "hm", "</th", "ink>\n", "Paris", "")
    logprobs = np.arange(-6.0, 0.0)
    whole = Sequence("".join(texts), "", 6, "stop", tuple(range(6)), logprobs, token_texts=texts)
    found = parted(whole, texts)
    assert (found.text, found.num_tokens, found.token_ids) == ("\nParis", 2, (4, 5))
    assert found.token_logprobs.tolist() == [-2.0, -1.0]
    assert (found.token_texts, found.reasoning.num_tokens) == (("Paris", ""), 4)
    assert found.num_written == 6


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
