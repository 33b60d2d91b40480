"""Parts a generation into its reasoning and its answer.

Texts here are decoded with special tokens, since a tag may be one.
"""

import itertools
import re
from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from models.records import Reasoning


@dataclass(frozen=True, slots=True)
class Tags:
    """The tags that a model writes before and behind its reasoning."""

    start: str  # with it a generation begins that has a reasoning
    end: str  # its first occurrence ends the reasoning; it may begin with `start`
    inner: tuple[str, str] = ("", "")  # strings around the text between the tags, if any
    # Behind the start tag, before the end tag and behind it, where there are no thoughts.
    blanks: tuple[str, str, str] = ("\n", "\n", "\n\n")

    def empty(self, *, opened: bool) -> str:
        """A reasoning without thoughts, as templates write one; of an opened one its rest."""
        if self.end.startswith(self.start):
            return self.end
        within, before, behind = self.blanks
        start = "" if opened else self.start + within
        return start + before + self.end + behind

    @classmethod
    def known_in(cls, text: str, *, opened: bool = False) -> "Tags":
        """The tags that a text begins with, or known ones by which it ends an opened reasoning."""
        return cls.at_start(text) or (opened and recognise(text, ())) or KNOWN_TAGS[0]

    @classmethod
    def at_start(cls, text: str) -> "Tags | None":
        """The tags of which a text begins with one: known ones, or others by what they are called.

        >>> Tags.at_start(" </thinking> It is.").start
        '<thinking>'
        """
        for tags in (*KNOWN_TAGS, HARMONY):
            # An answer may begin with words; with its end they are a tag.
            is_certain = tags.end in text or not tags.start[0].isalpha()
            if is_certain and text.lstrip().startswith((tags.start, tags.end)):
                return tags
        named = _NAMED.match(text.lstrip())
        return named and cls(named[1] + named[2], f"{named[1]}/{named[2]}")

    @classmethod
    def known_parts(
        cls, token_texts: Sequence[str], *, opened: bool = False
    ) -> tuple[Reasoning | None, str]:
        r"""As `part`, by known tags; a paragraph that ends in one may end an opened reasoning.

        >>> Tags.known_parts(["Hm.\n</think>\n\nParis"])[1], Tags.known_parts(["Is </think>."])[1]
        ('\n\nParis', 'Is </think>.')
        """
        text = "".join(token_texts)
        for tags in KNOWN_TAGS:
            before, found, _ = text.partition(f"\n{tags.end}\n\n")
            opened = opened or bool(found and tags.start not in before)
        return cls.known_in(text, opened=opened).part(token_texts, opened=opened)

    def part(
        self, token_texts: Sequence[str], *, opened: bool = False, ended: bool = True
    ) -> tuple[Reasoning | None, str]:
        r"""The reasoning of one generation, None without one, and the answer as it was generated.

        The answer is empty behind a reasoning that is not finished. There is a reasoning if it is
        opened by the prompt, or the text begins with a tag, white space aside. It is all up to the
        first end tag; what the token that completes the tag holds beyond it belongs to the
        answer. Tags anywhere else are text.

        Args:
            token_texts: of its tokens without the terminating one; they join to its text.
            opened: whether the prompt ends in the start tag.
            ended: whether a terminating token follows, which counts as one of the answer.

        >>> Tags("<think>", "</think>").part(["<think>", "hm", "</think", ">\n", "Paris"])
        (Reasoning(text='hm', num_tokens=4, is_finished=True), '\nParis')
        """
        text = "".join(token_texts)
        if not (opened or text.lstrip().startswith((self.start, self.end))):
            return None, text
        end, thoughts = text.find(self.end), self.thoughts(text)
        if end < 0:
            return Reasoning(thoughts, len(token_texts), is_finished=False), ""
        behind = end + len(self.end)
        ends = list(itertools.accumulate(map(len, token_texts)))
        num_tokens = bisect_left(ends, behind) + 1
        is_finished = ended or num_tokens < len(token_texts)
        reasoning = Reasoning(thoughts, num_tokens, is_finished)
        return reasoning, text[behind:] if is_finished else ""

    def thoughts(self, text: str) -> str:
        """The thoughts alone, of a text that begins with a reasoning, or within one."""
        before, after = self.inner
        thoughts = text.partition(self.end)[0].lstrip().removeprefix(self.start).lstrip()
        return thoughts.removeprefix(before).rstrip().removesuffix(after).strip()


# Of servers, and of models whose chat template shows none.
KNOWN_TAGS = (
    Tags("<think>", "</think>"),
    Tags("[THINK]", "[/THINK]"),
    Tags("<|START_THINKING|>", "<|END_THINKING|>"),
    Tags("<seed:think>", "</seed:think>"),
    Tags("◁think▷", "◁/think▷"),
    Tags("<mm:think>", "</mm:think>"),
    Tags("<think:opensource>", "</think:opensource>"),
    Tags("<|channel>thought", "<channel|>"),
    Tags("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    Tags("<|begin_of_thought|>", "<|end_of_thought|>"),
    Tags("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),
)
# Harmony has channels in place of tags. A reply that begins with the final one has no thoughts.
HARMONY = Tags(
    "<|channel|>",
    "<|channel|>final<|message|>",
    inner=("analysis<|message|>", "<|end|><|start|>assistant"),
)
# All that a reasoning is known to begin with.
STARTS = tuple(tags.start for tags in (*KNOWN_TAGS, HARMONY))
_NAMED = re.compile(r"(?i)(<\|?)/?((?:\w+[:_])?(?:(?:think|thought)\w*|reasoning)\|?>)")
_HARMONY_TOKENS = frozenset({"<|channel|>", "<|message|>", "<|start|>", "<|end|>"})
# With such a sign a tag begins.
_SIGNS = "<[{(◁"
_EMPTY = re.compile(
    rf"\s*([{re.escape(_SIGNS)}][^{re.escape(_SIGNS)}]*?)(\s*)([{re.escape(_SIGNS)}]\S*)(\s*)"
)


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
    for named in _NAMED.finditer(chat_template or ""):
        if "/" in named[0]:
            return Tags.at_start(named[0])
    for tags in KNOWN_TAGS:
        if {tags.start, tags.end}.issubset(vocabulary):
            return tags
    return None


def tags_around(turn: str, plain: str, prompt: str, thoughts: str, answer: str) -> Tags | None:
    r"""The tags that a template writes around thoughts; None where it shows none.

    Where it leaves the thoughts out, its generation prompt may hold a reasoning without any.

    Args:
        turn: a question and an answer with thoughts, rendered.
        plain: the same without the thoughts.
        prompt: the question, and the template's generation prompt.
        thoughts: a word that stands for them.
        answer: likewise.

    >>> tags_around("Q:a A:<t>x</t>b", "Q:a A:b", "Q:a A:", "x", "b")
    Tags(start='<t>', end='</t>', inner=('', ''), blanks=('', '', ''))
    """
    before, _, rest = turn.partition(thoughts)
    between, found, after = rest.partition(answer)
    header = plain.partition(answer)[0]
    if not found:
        empty = prompt.startswith(header) and _EMPTY.fullmatch(prompt, len(header))
        if not empty:
            return None
        start, within, end, behind = empty.groups()
        return Tags(start, end, blanks=(within, "", behind))
    end = between.strip().partition("\n")[0].rstrip()
    if after.lstrip().startswith(end):  # which ends an answer, too
        end = between.strip()
    start = end and _start_tag(before, header, prompt, end)
    if not start:
        return None
    to_end, _, behind = between.partition(end)
    within = before[len(before.rstrip()) :]
    return Tags(start, end, blanks=(within, to_end, behind[: len(behind) - len(behind.lstrip())]))


def _start_tag(before: str, header: str, prompt: str, end: str) -> str:
    """The tag at the end of what stands before thoughts; "" where there is none.

    The other arguments are as in `tags_around`; `header` begins an answer without thoughts.
    """
    begun = before.rstrip()
    for known in (prompt, header):
        if before.startswith(known) and (tag := before[len(known) :].strip()):
            return tag.partition("\n")[0]
    if prompt.startswith(begun):  # it may go on with words, which the template leaves out later
        words = prompt[len(begun) :].strip()
        if words and end not in words:
            return words.partition("\n")[0]
    if begun == header.rstrip():
        return ""
    # An answer without thoughts has the tags as well: they end alike, and may differ before.
    alike = 0
    while alike < len(begun) and begun[-alike - 1 :] in end:
        alike += 1
    first = max(begun.rfind(sign, 0, len(begun) - alike) for sign in _SIGNS)
    return begun[first:] if first >= 0 else ""
