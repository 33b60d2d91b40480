"""Log-probs of consecutive tokens as OpenAI's bodies have them."""

from collections.abc import Sequence

from app.http.openai.schemas import ChatLogprobs, TextLogprobs, TokenLogprob, TopLogprob
from app.http.responses import tokens_of
from models import records

# Many tokenizers put one before a text's first word. A message begins without it; a text that
# continues its prompt needs it.
BLANK = " "

TextAndLogprob = tuple[str, float | None]


def known_of(said: records.Sequence) -> list[TextAndLogprob]:
    """All tokens of a text."""
    return [(token.text, token.logprob) for token in tokens_of(said)]


def chat_logprobs(
    known: Sequence[TextAndLogprob], start: int = 0, tops: records.Tops = ()
) -> ChatLogprobs:
    """Log-probs of consecutive tokens, and the likeliest ones in their places; no `start` counts.

    A message begins without a blank, and so do the tokens that may begin it.
    """
    content = []
    for i, (text, logprob) in enumerate(known):
        if logprob is None:
            continue
        told = []
        for other, value in tops[i] if tops else ():
            if i == 0:
                other = other.removeprefix(BLANK)
            told.append(TopLogprob(token=other, logprob=value, bytes=list(other.encode())))
        one = TokenLogprob(token=text, logprob=logprob, bytes=list(text.encode()))
        one.top_logprobs = told
        content.append(one)
    return ChatLogprobs(content=content)


def text_logprobs(
    known: Sequence[TextAndLogprob], start: int = 0, tops: records.Tops = ()
) -> TextLogprobs:
    """Log-probs of consecutive tokens, the first of which begins at the character `start`."""
    texts, logprobs, offsets = [], [], []
    for text, logprob in known:
        if logprob is not None:
            texts.append(text)
            logprobs.append(logprob)
            offsets.append(start)
        start += len(text)
    told = TextLogprobs(tokens=texts, token_logprobs=logprobs, text_offset=offsets)
    if tops:
        told.top_logprobs = list(map(dict, tops))
    return told


def without_blank(known: Sequence[TextAndLogprob]) -> list[TextAndLogprob]:
    """Tokens of an answer from its beginning, the first text without a leading blank."""
    tokens = list(known)
    for i, (text, logprob) in enumerate(tokens):
        if text:
            tokens[i] = text.removeprefix(BLANK), logprob
            break
    return tokens
