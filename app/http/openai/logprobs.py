"""Log-probs of consecutive tokens as OpenAI's bodies have them."""

from collections.abc import Sequence
from typing import NamedTuple

from app.http.openai.schemas import ChatLogprobs, TextLogprobs, TokenLogprob, TopLogprob
from app.http.responses import tokens_of
from models import records

# Many tokenizers put one before a text's first word. A message begins without it; a text that
# continues its prompt needs it.
BLANK = " "


class Known(NamedTuple):
    """What is known of one token; a log-prob that is not is None."""

    text: str
    logprob: float | None
    tops: records.TokenTops = ()


def known_of(said: records.Sequence) -> list[Known]:
    """All tokens of a text."""
    found = []
    for i, token in enumerate(tokens_of(said)):
        tops: records.TokenTops = ()
        if said.token_tops is not None:
            tops = said.token_tops[i]
        found.append(Known(token.text, token.logprob, tops))
    return found


def chat_logprobs(known: Sequence[Known], start: int = 0) -> ChatLogprobs:
    """Log-probs of consecutive tokens, with the likeliest in their places; no `start` counts."""
    content = []
    for text, logprob, tops in known:
        if logprob is None:
            continue
        one = TokenLogprob(token=text, logprob=logprob, bytes=list(text.encode()))
        for other, value in tops:
            told = TopLogprob(token=other, logprob=value, bytes=list(other.encode()))
            one.top_logprobs.append(told)
        content.append(one)
    return ChatLogprobs(content=content)


def text_logprobs(known: Sequence[Known], start: int = 0) -> TextLogprobs:
    """Log-probs of consecutive tokens, the first of which begins at the character `start`."""
    texts, logprobs, offsets, likeliest = [], [], [], []
    for text, logprob, tops in known:
        if logprob is not None:
            texts.append(text)
            logprobs.append(logprob)
            offsets.append(start)
            likeliest.append(dict(tops))
        start += len(text)
    told = TextLogprobs(tokens=texts, token_logprobs=logprobs, text_offset=offsets)
    if any(likeliest):
        told.top_logprobs = likeliest
    return told


def without_blank(known: Sequence[Known]) -> list[Known]:
    """Tokens of an answer from its beginning: those that begin it have no leading blank.

    Neither has what stands in their place.
    """
    tokens = list(known)
    for i, (text, logprob, tops) in enumerate(tokens):
        without = tuple((other.removeprefix(BLANK), value) for other, value in tops)
        tokens[i] = Known(text.removeprefix(BLANK), logprob, without)
        if text:
            break
    return tokens
