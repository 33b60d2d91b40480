"""Pure functions on generated text: stop strings, reasoning prefixes, incremental output."""

import re
from collections import Counter
from collections.abc import Iterable
from collections.abc import Sequence as SequenceOf
from typing import TypeVar

from models.records import FinishReason, SamplingParams, Sequence, Token

TokenName = TypeVar("TokenName", int, str)

_REASONING = re.compile(r"\s*<think>.*?</think>\s*", re.DOTALL)
_REASONING_OPENED = re.compile(r".*?</think>\s*", re.DOTALL)


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
    """Where a sequence of token texts ends: its tokens, its text, and why it ends there.

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


def without_reasoning(text: str, *, opened: bool = False) -> str:
    """Text after a complete `<think>…</think>` prefix; the text itself where there is none.

    An unfinished prefix stays: leaving it out would make all cut-off samples equal, and so look
    certain.

    Args:
        text: generated text.
        opened: whether the prompt already ended in `<think>`.

    >>> without_reasoning("<think>hm</think> Paris")
    'Paris'
    """
    pattern = _REASONING_OPENED if opened else _REASONING
    if match := pattern.match(text):
        return text[match.end() :]
    return text


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
            if text[:stable].endswith(string[:size]):
                held = size
    return stable - held


def remaining_tokens(sequence: Sequence, num_told: int, num_characters: int) -> list[Token]:
    """The tokens of a finished sequence that were not streamed; the first has the rest of its text.

    A text without known tokens counts as one token.

    Args:
        sequence: finished.
        num_told: tokens of it that were streamed.
        num_characters: of its text, that came with them.

    >>> remaining_tokens(Sequence(" Paris", "Paris", 2, "stop"), 0, 0)
    [Token(text=' Paris', logprob=None, entropy=None), Token(text='', logprob=None, entropy=None)]
    """
    rest = sequence.text[num_characters:]
    if rest and num_told >= sequence.num_tokens:
        return [Token(rest)]
    tokens: list[Token] = []
    for i in range(num_told, sequence.num_tokens):
        logprob = entropy = None
        if sequence.token_logprobs is not None:
            logprob = float(sequence.token_logprobs[i])
        if sequence.token_entropies is not None:
            entropy = float(sequence.token_entropies[i])
        tokens.append(Token(rest, logprob, entropy))
        rest = ""
    return tokens


def unshared(groups: SequenceOf[Iterable[TokenName]]) -> list[tuple[TokenName, ...]]:
    """Ids of each group that no other group has.

    >>> unshared([[5, 5, 6], [6, 7]])
    [(5,), (7,)]
    """
    counts: Counter[TokenName] = Counter()
    for group in groups:
        counts.update(set(group))
    return [tuple(sorted(token for token in set(one) if counts[token] == 1)) for one in groups]
