"""Whether what a server tells of tokens can be their log-probs, looked at in each reply. Pure.

A reply that fails costs the scores that read it, never the request.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from models.ranges import LOGPROBS
from models.records import Array

# What vLLM and OpenAI write in place of the log-prob of what they give no probability.
SENTINEL = -9999.0
# By how much probabilities and log-probs may be off that were rounded to two bytes: at least so
# much, and log-probs by so large a part of them.
_ROUNDING, _PART = 0.02, 0.01
# Pieces that are ids, bytes, halves of code points or a vocabulary's own spellings, not text.
_NO_TEXT = re.compile(r"token_id:|bytes:|<0x[0-9A-F]{2}>|[\ufffd\u2581\u0120\u010a]")

NO_NUMBER = "the server told a log-prob that is none"
BEYOND_ONE = "the likeliest tokens that the server told have a probability above 1 together"
ABOVE_LIKELIEST = "the server told a chosen token as likelier than the likeliest in its place"
UNCOVERED = "the tokens that the server told log-probs of are not those of the text"
UNMASKED = (
    "the server's log-probs under a response_format are not those among the tokens that it allows"
)
ALL_ZERO = "the server told log-probs of 0 alone, and texts that differ"


def unsound(
    logprobs: Array, tokens: Sequence[str] = (), tops: Iterable[Mapping[str, float]] = ()
) -> str:
    """Why these are no log-probs of a text's tokens; "" where they may be.

    Args:
        logprobs: (T,) of the chosen ones, NaN where there is none.
        tokens: (T,) what they are called.
        tops: T times those of the likeliest, by name; nothing where they are not told.
    """
    if not ((logprobs > SENTINEL) & (logprobs <= LOGPROBS[1])).all():
        return NO_NUMBER
    for logprob, token, likeliest in zip(logprobs.tolist(), tokens, tops, strict=False):
        values = np.array(list(likeliest.values()))
        if not len(values):
            continue
        if (values > LOGPROBS[1]).any() or np.exp(values).sum() > 1.0 + _ROUNDING:
            return BEYOND_ONE
        most = values.max() * (1.0 - _PART) + _ROUNDING
        if logprob > most and token not in likeliest:  # several tokens may have one name
            return ABOVE_LIKELIEST
    return ""


def are_of(texts: Sequence[str] | None, text: str, *, is_cut: bool) -> bool | None:
    """Whether tokens have these texts join to the text, blanks aside; None where nobody can tell.

    What ended a text, a last token or stop string, is no part of it.

    Args:
        texts: (T,) of the tokens, as the server tells them; None where it does not.
        text: that they should be of.
        is_cut: whether it ended at its limit, so that nothing stands behind it.

    >>> are_of([" is", " in", " India", "."], "It is in India.", is_cut=False)
    False
    >>> are_of(["It", " is", "</s>"], "It is", is_cut=False)
    True
    """
    if texts is None or any(map(_NO_TEXT.search, texts)):
        return None
    shown, wanted = _without_blanks("".join(texts)), _without_blanks(text)
    if is_cut:
        return shown == wanted
    return shown.startswith(wanted)


def _without_blanks(text: str) -> str:
    return "".join(text.split())
