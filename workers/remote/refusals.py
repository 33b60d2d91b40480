"""The meaning of replies without an answer, of servers that nobody here wrote. Pure.

Nothing here quotes what was sent or what came back, but codes and names of parameters.
"""

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from workers.remote.client import Refused, Unreachable

# Statuses and codes of refusals that only the server's operator can end.
_LASTING: Mapping[int | str, str] = {
    401: "it refuses the API key",
    402: "it wants to be paid",
    "insufficient_quota": "its quota is used up",
}
# Codes of refusals that are about a prompt, and teach nothing of a server; with the words and codes
# by which servers say them. The last one is for a reasoning that takes all tokens there may be.
TOO_LONG, FILTERED, ALL_TAKEN = "context_length_exceeded", "content_filter", "output_limit_reached"
_OF_PROMPT: Mapping[str, re.Pattern[str]] = {
    TOO_LONG: re.compile(
        "(?i)context.?(length|size|window)|maximum prompt length|max_seq_len|input token count"
        r"|too many (input )?tokens|(prompt|inputs?)\b.{1,20}too long|inputs` (tokens|must have)"
        "|input tokens exceed|reduce the length"
    ),
    ALL_TAKEN: re.compile("(?i)output limit was reached"),
    FILTERED: re.compile(
        "(?i)content_(filter|policy)|content exists risk|data_inspection_failed|flagged_input"
    ),
}
# Fields of messages, and of calls in these, that not every server takes.
_OF_MESSAGES = {"reasoning_content", "reasoning", "extra_content", "name"}
_OF_MESSAGES |= {"reasoning_details", "thinking_blocks"}
# Parameters whose names count in a message where they are set apart alone.
_USUAL_WORDS = {"n", "model", "prompt", "messages", "stream", "stop", "tools", "name", "reasoning"}
# Codes as servers have them; another one might quote the request.
_CODE = re.compile(r"[a-z]{1,20}(_[a-z]{1,20}){1,5}|[A-Z][A-Za-z]{1,30}Error")


class Rejected(Exception):
    """The server refuses this very body, and will again."""

    def __init__(
        self, status: int, code: str, named: frozenset[str] = frozenset(), told: str = ""
    ) -> None:
        super().__init__(told or f"status {status}")
        self.status = status  # of HTTP, below 500, or 501; any where it is about the prompt
        self.code = code  # of `_OF_PROMPT`, or that the server gives, or its type; "" for none
        self.named = named  # parameters of the body that it names

    @property
    def is_of_prompt(self) -> bool:
        """True where it is about the prompt, and teaches nothing of the server."""
        return self.code in _OF_PROMPT


class Denied(Refused):
    """The key may not have this, or may nothing at all."""

    status, code, named, is_of_prompt = 403, "", frozenset[str](), False


class Failed(Exception):
    """The server had the call and failed; it may be repeated."""


class Unreadable(Unreachable):
    """It answers, and not in the form that was requested."""


class NoSuccess(Exception):
    """A reply that brings no answer; `error` is the exception that it means."""

    def __init__(
        self,
        asked: str,  # method and path
        status: int,
        content: bytes,
        body: Mapping[str, Any],
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(f"{asked}: status {status}")
        fields = _error_in(content)
        codes = [code for code in (fields.get("code"), fields.get("type")) if isinstance(code, str)]
        self.status = status
        self.code = next(filter(_CODE.fullmatch, codes), "none")  # which quotes nothing
        words = json.dumps(fields)
        self.named = _named(fields.get("param"), words, body)
        seconds = re.fullmatch(r"[0-9]{1,9}(\.[0-9]+)?", headers.get("retry-after", ""))
        self.patience_s = float(seconds[0]) if seconds else None  # None for a date: clocks differ
        codes = [code for code, said in _OF_PROMPT.items() if said.search(words)] or codes
        self.error = _meaning(str(self), status, codes, self.named)


def is_error(reply: Mapping[str, Any]) -> bool:
    """True where a reply with status 200 is an error, or brings one."""
    return bool(reply.get("error")) or reply.get("object") == "error"


def check_no_error(reply: Any, asked: str, body: Mapping[str, Any]) -> None:
    """Raise the error that a reply with status 200 brings all the same, as routers' do.

    They had sent their status before it happened: the true one stands in the error, or nowhere.
    """
    if not isinstance(reply, Mapping) or not is_error(reply):
        return
    content = json.dumps(reply).encode()
    code = str(_error_in(content).get("code"))
    status = 502
    if re.fullmatch("[45][0-9]{2}", code):
        status = int(code)
    raise NoSuccess(asked, status, content, body).error


def _meaning(told: str, status: int, codes: list[str], named: frozenset[str]) -> Exception:
    for sign in _LASTING.keys() & {status, *codes}:
        return Refused(f"{_LASTING[sign]} ({told})")
    if status != 429 and not _OF_PROMPT.keys().isdisjoint(codes):
        return Rejected(status, codes[0], named, told)
    if status == 403:
        return Denied(f"it refuses the API key ({told})")
    if status in (429, 502, 503, 504) or status < 400 or status in range(520, 530):
        return Unreachable(told)
    if status >= 500 and status != 501:  # which is for what it does not know
        return Failed(told)
    return Rejected(status, next(iter(codes), ""), named, told)


def _error_in(content: bytes) -> Mapping[str, Any]:
    """The fields of an error, in OpenAI's form or in FastAPI's, or its text; empty for a page."""
    try:
        reply = json.loads(content, object_hook=_without_input)
    except (ValueError, RecursionError):
        reply = content.decode(errors="replace")
    if isinstance(reply, list) and reply:  # Gemini's form
        reply = reply[0]
    if not isinstance(reply, Mapping):
        text = str(reply).strip()
        return {} if text.startswith("<") else {"message": text}
    error = reply.get("error")
    if isinstance(error, Mapping):
        return error
    return reply


def _without_input(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields without what was sent, which FastAPI repeats, all of the body at times."""
    return {name: value for name, value in fields.items() if name != "input"}


def parameters_of(body: Mapping[str, Any]) -> set[str]:
    """The parameters of a body, with those fields of its messages that not every server takes."""
    parameters = set(body)
    for message in body.get("messages") or ():
        for part in (message, *message.get("tool_calls", ())):
            parameters |= _OF_MESSAGES & part.keys()
    return parameters


def _named(param: object, words: str, body: Mapping[str, Any]) -> frozenset[str]:
    """The parameters of a body that an error names: by a path, or in its words."""
    known, named = parameters_of(body), set()
    if isinstance(param, str) and param:
        path = re.findall(r"\w+", param)
        if "messages" in path:  # of which it names a field last
            path.reverse()
        return frozenset({next(filter(known.__contains__, path), param)})
    for name in known:
        apart = r"[`'\"\\]" if name in _USUAL_WORDS else r"\b"
        if re.search(rf"{apart}{re.escape(name)}{apart}", words):
            named.add(name)
    return frozenset(named)
