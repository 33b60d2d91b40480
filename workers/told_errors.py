"""What a server's error says, for the operator's log, without what stands in the request. Pure."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

_MOST = 200
# As much is read of a message, so that a word at its end is known as a whole.
_READ = 1000
# Words of so many characters may be a part of the request's, and longer ones have such a part.
_SHORT, _PART, _PART_OF_OTHERS = 4, 8, 2
_WORD = re.compile(r"\w+|[^\x00-\x7f]")
# What is shorter tells something, too, but for these.
_ORDINARY = re.compile(
    "a|an|and|are|as|at|be|but|by|can|for|has|if|in|is|its?|may|no|nor|not|of|on|or|out|the|too?|was"
)
# Whose keys are a client's words, too, such as the names in a schema.
_OF_CLIENTS = ("response_format", "structured_outputs", "tools", "chat_template_kwargs")
_CUT = "…"


def words_of(content: bytes, body: Mapping[str, Any], key: str = "") -> str:
    """Code, parameter and the beginning of the message of an error, in one line.

    Whatever of it occurs in the texts of the request, or looks like a part of a key, is cut out.

    Args:
        content: of the reply.
        body: of the request.
        key: that the request was sent with.
    """
    try:
        told = orjson.loads(content)
    except ValueError:
        told = content.decode(errors="replace")
    if isinstance(told, Mapping):
        told = told.get("error") or told.get("detail") or told
    named = {}
    if isinstance(told, Mapping):
        named = {"code": told.get("code") or told.get("type"), "parameter": told.get("param")}
        told = told.get("message") or told
    texts = list(_texts(body))
    request = "\n".join((*texts, json.dumps(texts))).casefold()
    said = [f"{name} {value}" for name, value in named.items() if value is not None]
    return "; ".join(_without(str(one), request, key.casefold()) for one in (*said, told))


def _without(message: str, request: str, key: str) -> str:
    words = set(_WORD.findall(request))

    def kept(found: re.Match[str]) -> str:
        word = found[0].casefold()
        if len(word) >= _SHORT and _occurs(word, key, _SHORT):
            return _CUT
        if not word.isascii():
            return _CUT if _occurs(word, request, _PART_OF_OTHERS) else found[0]
        if len(word) >= _SHORT:
            return _CUT if _occurs(word, request, _PART) else found[0]
        return _CUT if word in words and not _ORDINARY.fullmatch(word) else found[0]

    line = " ".join("".join(one if one.isprintable() else " " for one in message[:_READ]).split())
    return _WORD.sub(kept, line)[:_MOST]


def _occurs(word: str, text: str, size: int) -> bool:
    """Whether the word, or so long a part of it, is in the text."""
    size = min(size, len(word))
    return any(word[i : i + size] in text for i in range(len(word) - size + 1))


def _texts(body: Mapping[str, Any]) -> Iterator[str]:
    """All that clients have written of a body."""
    for name, value in body.items():
        if name != "model":
            yield from _within(value, with_keys=name in _OF_CLIENTS)


def _within(value: Any, *, with_keys: bool) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, one in value.items():
            if with_keys:
                yield str(key)
            yield from _within(one, with_keys=with_keys)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _within(one, with_keys=with_keys)
    elif isinstance(value, str) or type(value) is int:
        yield str(value)
