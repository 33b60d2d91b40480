"""The meaning of replies without an answer, of servers that nobody here wrote. Pure.

Nothing here quotes what was sent or what came back, but codes and names of parameters.
"""

import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import orjson

from workers.client import Refused, Unreachable

# Statuses and codes of refusals that only the server's operator can end.
_LASTING: Mapping[int | str, str] = {
    401: "it refuses the API key",
    402: "it wants to be paid",
    "insufficient_quota": "its quota is used up",
}
# Parameters whose names count in a message where they are set apart alone.
_USUAL_WORDS = frozenset({"n", "model", "prompt", "messages", "stream", "stop", "tools"})
# Codes as servers have them; another one might quote the request.
_CODE = re.compile(r"[a-z]{1,20}(_[a-z]{1,20}){1,5}|[A-Z][A-Za-z]{1,30}Error")


class Rejected(Exception):
    """The server refuses this very body, and will again.

    Attributes:
        status: of HTTP, below 500, or 501.
        code: that the server gives, or its type; "" for none.
        named: parameters of the body that it names.
    """

    def __init__(self, status: int, code: str, named: frozenset[str] = frozenset()) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.code = code
        self.named = named


class Denied(Refused):
    """The key may not have this, or may nothing at all."""

    status, code, named = 403, "", frozenset[str]()


class Failed(Exception):
    """The server had the call and failed; it may be repeated."""


class Unreadable(Unreachable):
    """It answers, and not in the form that was requested."""


class NoSuccess(Exception):
    """A reply that brings no answer.

    Attributes:
        status: of HTTP.
        code: that it gives, where it is one as servers have them, which quotes nothing.
        named: parameters of the body that it names.
        patience_s: seconds of patience that it requests; None for none.
        error: the exception that it means.
    """

    def __init__(
        self,
        status: int,
        content: bytes,
        body: Mapping[str, Any],
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(f"status {status}")
        fields = _error_in(content)
        codes = [code for code in (fields.get("code"), fields.get("type")) if isinstance(code, str)]
        self.status = status
        self.code = next(filter(_CODE.fullmatch, codes), "none")
        self.named = _named(fields, body)
        self.patience_s = _seconds(headers.get("retry-after"))
        self.error = _meaning(status, codes, self.named, fields.get("metadata"))


def check_no_error(reply: Any, body: Mapping[str, Any]) -> None:
    """Raise the error that a reply with status 200 brings all the same, as routers' do.

    They had sent their status before it happened: the true one stands in the error, or nowhere.
    """
    if not isinstance(reply, Mapping) or not (error := reply.get("error")):
        return
    code = error.get("code") if isinstance(error, Mapping) else None
    status = code if type(code) is int and code in range(400, 600) else 502
    raise NoSuccess(status, orjson.dumps(reply), body).error


def _meaning(status: int, codes: list[str], named: frozenset[str], metadata: object) -> Exception:
    for sign in _LASTING.keys() & {status, *codes}:
        return Refused(f"{_LASTING[sign]} (status {status})")
    if status == 403 and isinstance(metadata, Mapping) and "flagged_input" in metadata:
        return Rejected(status, "content_filter")  # as OpenRouter says it
    if status == 403:
        return Denied(f"it refuses the API key (status {status})")
    if status in (429, 502, 503, 504) or status < 400 or status in range(520, 530):
        return Unreachable(f"status {status}")
    if status >= 500 and status != 501:  # which is for what it does not know
        return Failed(f"status {status}")
    return Rejected(status, codes[0] if codes else "", named)


def _error_in(content: bytes) -> Mapping[str, Any]:
    """The fields of an error, in OpenAI's form or in FastAPI's; empty where it has none."""
    try:
        reply = orjson.loads(content)
    except ValueError:
        return {}
    if isinstance(reply, list) and reply:  # Gemini's form
        reply = reply[0]
    if not isinstance(reply, Mapping):
        return {}
    error = reply.get("error")
    return error if isinstance(error, Mapping) else reply


def _named(fields: Mapping[str, Any], body: Mapping[str, Any]) -> frozenset[str]:
    """The parameters of a body that an error names: by itself, or in its message."""
    if isinstance(param := fields.get("param"), str) and param:
        return frozenset({param.split(".")[0]})
    others = {name: value for name, value in fields.items() if name != "input"}
    words = orjson.dumps(others).decode()
    named = set()
    for name in body:
        apart = r"[`'\"\\]" if name in _USUAL_WORDS else r"\b"
        if re.search(rf"{apart}{re.escape(name)}{apart}", words):
            named.add(name)
    return frozenset(named)


def _seconds(header: str | None) -> float | None:
    """Seconds of a Retry-After; its other form, a date, means nothing where clocks differ."""
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < math.inf else None
