"""Log-probs of consecutive tokens as OpenAI's bodies have them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from app.http.responses import tokens_of
from models import records
from models.records import bytes_spelt

# Many tokenizers put one before a text's first word. A message begins without it; a text that
# continues its prompt needs it.
BLANK = " "


class Known(NamedTuple):
    """What is known of one token; a log-prob that is not is None.

    Of the likeliest in the place of one that `begins` a message, those alone have their blank that
    would else be another one's equal.
    """

    text: str
    logprob: float | None
    tops: records.TokenTops = ()
    begins: bool = False


def known_of(said: records.Sequence) -> list[Known]:
    found = []
    for i, token in enumerate(tokens_of(said)):
        tops: records.TokenTops = ()
        if said.token_tops is not None:
            tops = said.token_tops[i]
        found.append(Known(token["text"], token["logprob"], tops))
    return found


def chat_logprobs(known: Sequence[Known], start: int = 0) -> dict[str, Any]:
    """`ChatLogprobs` of consecutive tokens; in a chat nothing counts from `start`."""
    content = []
    for text, logprob, tops, begins in known:
        if logprob is None:
            continue
        told = []
        for other, value in tops:
            shown = other.removeprefix(BLANK) if begins else other
            told.append({"token": shown, "logprob": value, "bytes": list(bytes_spelt(other))})
        one = {"token": text, "logprob": logprob, "bytes": list(text.encode())}
        content.append({**one, "top_logprobs": told})
    return {"content": content, "refusal": None}


def text_logprobs(known: Sequence[Known], start: int = 0) -> dict[str, Any]:
    """`TextLogprobs` of consecutive tokens; the first of them begins at the character `start`."""
    texts, logprobs, offsets, likeliest = [], [], [], []
    for text, logprob, tops, _ in known:
        if logprob is not None:
            texts.append(text)
            logprobs.append(logprob)
            offsets.append(start)
            likeliest.append(dict(tops))
        start += len(text)
    return {
        "tokens": texts,
        "token_logprobs": logprobs,
        "top_logprobs": likeliest if any(likeliest) else None,
        "text_offset": offsets,
    }


def without_blank(known: Sequence[Known]) -> list[Known]:
    """Tokens of an answer from its beginning: those that begin it have no leading blank.

    Neither has what stands in their place; see `Known`.
    """
    tokens = list(known)
    for i, (text, logprob, tops, _) in enumerate(tokens):
        plain = {other for other, _ in tops}
        without = []
        for other, value in tops:
            bare = other.removeprefix(BLANK)
            without.append((other if bare in plain else bare, value))
        tokens[i] = Known(text.removeprefix(BLANK), logprob, tuple(without), begins=True)
        if text:
            break
    return tokens
