"""Pure functions on generated text: stop strings, reasonings, incremental output."""

from collections import Counter
from collections.abc import Iterable
from collections.abc import Sequence as SequenceOf
from dataclasses import replace
from typing import TypeVar

from models.engines.tags import Tags
from models.records import FinishReason, SamplingParams, Sequence

TokenName = TypeVar("TokenName", int, str)

# What rambles on costs time, and says no more (docs/adr/0033-samples-end-at-twice-the-answer.md).
_LEAST_LIMIT, _ANSWERS = 32, 2


def cut_at_stop(text: str, stop: tuple[str, ...]) -> str | None:
    r"""Text before the first stop string, or None where none occurs.

    >>> cut_at_stop("Paris\nQ: next", ("Q:", "\n"))
    'Paris'
    """
    ends = [end for end in map(text.find, stop) if end >= 0]
    if not ends:
        return None
    return text[: min(ends)]


def ended(tokens: list[str], sampling: SamplingParams) -> tuple[list[str], str, FinishReason]:
    """The tokens of a sequence up to its end, their text, and the reason why it ends there.

    The tokens end in the terminating one, whose text is empty.

    >>> ended([" Paris", ", of", " course", ""], SamplingParams(stop=(",",)))
    ([' Paris', ', of'], ' Paris', 'stop')
    """
    kept = tokens[: sampling.max_new_tokens]
    for end in range(1, len(kept) + 1):
        text = cut_at_stop("".join(kept[:end]), sampling.stop)
        if text is not None:
            return kept[:end], text, "stop"
    return kept, "".join(kept), "stop" if len(kept) == len(tokens) else "length"


def sample_limit(num_tokens: int) -> int:
    """Tokens at which a sample ends that is not shown, beside an answer of so many."""
    return max(_LEAST_LIMIT, _ANSWERS * num_tokens)


def parted(sequence: Sequence, texts: SequenceOf[str] | None = None) -> Sequence:
    """The answer of a sequence, with the reasoning that it began with apart.

    For those whose engine does not part them, by the tags that are known. Where the texts (T,) of
    its tokens are not, nothing is known of the answer's own.

    >>> answer = parted(Sequence("<think>hm</think> Paris", "", 0, "given"))
    >>> answer.text, answer.reasoning
    (' Paris', Reasoning(text='hm', num_tokens=0, is_finished=True))
    """
    reasoning, answer = Tags.known_parts(texts or [sequence.text])
    if reasoning is None:
        return sequence
    if not texts:
        return sequence.behind(replace(reasoning, num_tokens=0), answer, None)
    return sequence.behind(reasoning, answer, reasoning.num_tokens)


def num_stable(text: str, stop: tuple[str, ...]) -> int:
    r"""Number of leading characters that no later token can change or cut.

    A replacement character at the end may be half of a code point; a suffix that begins a stop
    string may complete it.

    >>> num_stable("Paris\nQ", ("\nQ:",))
    5
    """
    stable = len(text.rstrip("\ufffd"))
    held = 0
    for string in stop:
        for size in range(held + 1, min(len(string), stable + 1)):
            if text.endswith(string[:size], 0, stable):
                held = size
    return stable - held


def unshared(groups: SequenceOf[Iterable[TokenName]]) -> list[tuple[TokenName, ...]]:
    """Ids of each group that no other group has.

    >>> unshared([[5, 5, 6], [6, 7]])
    [(5,), (7,)]
    """
    counts: Counter[TokenName] = Counter()
    for group in groups:
        counts.update(set(group))
    unique = [{token for token in group if counts[token] == 1} for group in groups]
    return list(map(tuple, map(sorted, unique)))
