"""Where a generation's reasoning ends and its answer begins.

Texts here are decoded with special tokens, since a tag may be one.
"""

import itertools
from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

State = Literal["none", "finished", "unfinished"]


@dataclass(frozen=True, slots=True)
class Tags:
    """What a model writes before and behind its reasoning.

    Attributes:
        start: with it a generation begins that has a reasoning.
        end: its first occurrence ends the reasoning; it may begin with `start`.
        inner: what frames the text between the tags, if anything does.
    """

    start: str
    end: str
    inner: tuple[str, str] = ("", "")


KNOWN_TAGS = (
    Tags("<think>", "</think>"),
    Tags("[THINK]", "[/THINK]"),
    Tags("<|START_THINKING|>", "<|END_THINKING|>"),
    Tags("<seed:think>", "</seed:think>"),
    Tags("◁think▷", "◁/think▷"),
)
# Harmony has channels in place of tags. A reply that begins with the final one has no thoughts.
HARMONY = Tags(
    "<|channel|>",
    "<|channel|>final<|message|>",
    inner=("analysis<|message|>", "<|end|><|start|>assistant"),
)
_HARMONY_TOKENS = frozenset({"<|channel|>", "<|message|>", "<|start|>", "<|end|>"})


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A generation, parted at the end of its reasoning.

    Attributes:
        state: "unfinished" where no token of an answer follows: such a generation has no scores.
        num_tokens: of the reasoning, tags included; its statistics are those before this index,
            the answer's those from it on.
        text: what stands between the tags, stripped; None without a reasoning.
        answer: what follows, as generated; empty where the reasoning is unfinished.
    """

    state: State
    num_tokens: int
    text: str | None
    answer: str


def recognise(chat_template: str | None, vocabulary: Collection[str]) -> Tags | None:
    """The tags of a model, or None where it is not known to reason.

    Args:
        chat_template: source text; a model's that reasons names the end tag, since it leaves the
            reasoning of earlier turns out. It counts more than the vocabulary.
        vocabulary: the tokenizer's special and added tokens.

    >>> recognise("{{ content.split('</think>')[-1] }}", ()).start
    '<think>'
    """
    if _HARMONY_TOKENS.issubset(vocabulary):
        return HARMONY
    for tags in KNOWN_TAGS:
        if tags.end in (chat_template or ""):
            return tags
    for tags in KNOWN_TAGS:
        if {tags.start, tags.end}.issubset(vocabulary):
            return tags
    return None


def is_opened(with_generation_prompt: str, without: str, tags: Tags) -> bool:
    r"""Whether the chat template's generation prompt ends in the start tag, white space aside.

    A start tag that ends the user's text is text.

    Args:
        with_generation_prompt: the messages rendered with `add_generation_prompt`.
        without: the same messages rendered without it.
        tags: the model's.

    >>> is_opened("Hi<|assistant|><think>\n", "Hi", Tags("<think>", "</think>"))
    True
    """
    prompt = with_generation_prompt.rstrip()
    return prompt.endswith(tags.start) and not without.startswith(prompt)


def part(
    token_texts: Sequence[str], tags: Tags | None, *, opened: bool = False, ended: bool = True
) -> Reasoning:
    r"""The reasoning and the answer of one generation.

    It has a reasoning if it is opened by the prompt, or begins with the start tag, white space
    aside. The reasoning is all up to the first end tag; what the token that completes the tag
    holds beyond it belongs to the answer's text. Tags anywhere else are text.

    Args:
        token_texts: of its tokens without the terminating one; they join to its text.
        tags: the model's; None for one that does not reason.
        opened: whether the prompt ends in the start tag.
        ended: whether a terminating token follows, which counts as one of the answer.

    >>> part(["<think>", "hm", "</think", ">\n", "Paris"], Tags("<think>", "</think>"))
    Reasoning(state='finished', num_tokens=4, text='hm', answer='\nParis')
    """
    text = "".join(token_texts)
    if tags is None:
        return Reasoning("none", 0, None, text)
    is_tagged = text.lstrip().startswith(tags.start)
    if not (opened or is_tagged):
        return Reasoning("none", 0, None, text)
    end = text.find(tags.end)
    if end < 0:
        return Reasoning("unfinished", len(token_texts), _inner(text, tags), "")
    behind = end + len(tags.end)
    ends = list(itertools.accumulate(map(len, token_texts)))
    num_tokens = bisect_left(ends, behind) + 1
    thoughts = _inner(text[:end], tags)
    if num_tokens == len(token_texts) and not ended:
        return Reasoning("unfinished", num_tokens, thoughts, "")
    return Reasoning("finished", num_tokens, thoughts, text[behind:])


def _inner(text: str, tags: Tags) -> str:
    """The thoughts alone, of a reasoning up to its end tag."""
    before, after = tags.inner
    thoughts = text.lstrip().removeprefix(tags.start).lstrip()
    return thoughts.removeprefix(before).rstrip().removesuffix(after).strip()
