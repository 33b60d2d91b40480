"""Calls of a server that nobody here wrote: JSON both ways, and every way in which that can fail.

A reply that asks for patience (429, or a failure with Retry-After) is heeded for as long as the
deadline allows, and one that says no more than that it failed is followed by one more try. No
exception and no line of the log quotes what was sent or what came back; of a call that failed the
log has status, code, and the parameters that the server names.
"""

import asyncio
import json
import logging
import math
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx
import orjson
from pydantic import TypeAdapter

from models.errors import Overloaded
from workers.client import MAX_REPLY_BYTES, POOL_S, Client, Refused, Unreachable, body_of, lines

logger = logging.getLogger(__name__)

Structure = TypeVar("Structure")

# The longest wait for a reply: whoever waits for longer has had an error by now.
_TIMEOUT = httpx.Timeout(600.0, connect=5.0, pool=POOL_S)
# The longest wait for a reply by which a known server is asked again, and all its users with it.
# A first one may be for a model that is loaded only then.
TRIAL_S = 20.0
_FIRST_WAIT_S = 0.5
_MOST_PATIENCE_S = 60.0
_MOST_ERROR_BYTES = 65_536
# Failures that may pass: of the server, and of what stands in front of a hosted one.
_PASSING = frozenset({408, 500, 502, 503, *range(520, 530)})
# Where a status or a code says that only its operator can change it.
_LASTING: Mapping[int | str, str] = {
    401: "it refuses the API key",
    402: "it wants to be paid",
    "insufficient_quota": "its quota is used up",
}
_EVENT = b"data:"
# What an event costs at least: what was read of it takes memory however short it is.
_EVENT_BYTES = 512
_END = b"[DONE]"
# Parameters whose names count in a message where they are set apart alone.
_USUAL_WORDS = frozenset({"n", "model", "prompt", "messages", "stream", "stop", "tools"})
_ANSWERED = "POST %s was answered with status %d: code %s; parameters that it names: %s"
# Codes as servers have them; another one might quote the request.
_CODE = re.compile(r"[a-z]{1,20}(_[a-z]{1,20}){1,5}|[A-Z][A-Za-z]{1,30}Error")
_OPENED = "connection.connect_tcp.complete"


class Rejected(Exception):
    """The server refuses this very body, and will again.

    Attributes:
        status: of HTTP, below 500.
        code: that the server gives, or its type; "" for none.
        named: parameters of the body that it names.
    """

    def __init__(self, status: int, code: str, named: frozenset[str] = frozenset()) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.code = code
        self.named = named


class Denied(Refused):
    """The key may not have this, or may nothing at all (403)."""


class Failed(Exception):
    """The server had the call and failed; it may be repeated."""


class Hung(Unreachable):
    """A call by which a server is tried out had no answer in time."""


class Calls:
    """Calls of one server, for one request or to find out what it is.

    Each raises:
        Unreachable: the server answers no JSON, asks for patience, or breaks off.
        Refused: it wants another key.
        Rejected, Failed: see there.
        Overloaded: it asks for more patience than the deadline has.

    Where no request waits for them (`is_trial`), each raises `Hung` after `TRIAL_S`; else they have
    time until the monotonic second of the deadline. `on_open` is told where a new connection was
    needed: another server may answer there by now.

    Attributes:
        num_posts: calls that were sent.
    """

    def __init__(
        self,
        client: Client,
        model: str = "",
        until: float | None = None,
        *,
        on_open: Callable[[], None] = lambda: None,
        headers: Mapping[str, str] | None = None,
        is_trial: bool = False,
    ) -> None:
        self.num_posts = 0
        self._client = client
        self._model = {"model": model} if model else {}
        self._until = until
        self._on_open = on_open
        self._timeout_s: float | None = None
        if is_trial:
            self._timeout_s = TRIAL_S
        self._headers = {"Content-Type": "application/json", **(headers or {})}

    async def get(self, path: str) -> Any:
        async with self._in_time(), self._client.stream("GET", path) as response:
            content = await body_of(response)
        if response.status_code != 200:
            raise _error_of(response.status_code, content, {})
        return _parsed(content)

    async def post(
        self,
        path: str,
        body: Mapping[str, Any],
        max_bytes: int = MAX_REPLY_BYTES,
        *,
        may_be_rejected: bool = False,
    ) -> Any:
        """What a POST answers.

        What it says in place of an answer is logged; that it does not take the body is no news
        where it `may_be_rejected`.
        """
        self.num_posts += 1
        posted = self._posted(path, body, may_be_rejected=may_be_rejected)
        async with self._in_time(), posted as response:
            reply = _parsed(await body_of(response, max_bytes))
        _check_told(reply, body)
        return reply

    async def post_for_events(
        self, path: str, body: Mapping[str, Any], on_event: Callable[[Any], None], max_bytes: int
    ) -> tuple[list[Any], bool]:
        """All server-sent events that a POST answers, each told as it comes; whether it says so.

        They are read to their end: a connection with unread bytes cannot be used again.
        """
        events: list[Any] = []
        has_ended = False
        failure: Any = None
        streamed = {**body, "stream": True, "stream_options": {"include_usage": True}}
        async with self._posted(path, streamed) as response:
            # Some stream nothing, and answer at once.
            is_whole = response.headers.get("content-type", "").startswith("application/json")
            said = _whole(response, max_bytes) if is_whole else lines(response, max_bytes)
            async for line in said:
                if has_ended or not line.startswith(_EVENT):
                    continue
                data = line.removeprefix(_EVENT).strip()
                has_ended = data == _END
                if has_ended or not data:
                    continue
                event = _parsed(data)
                if not isinstance(event, Mapping) or event.get("error"):
                    failure = event
                    break
                if len(events) * _EVENT_BYTES > max_bytes:
                    raise Unreachable("its stream has more events than were asked for")
                events.append(event)
                on_event(event)
        if failure is not None:  # here, since what is raised within is taken for the head's
            _check_told(failure, body)
            raise Unreachable("its stream ends in an error")
        return events, has_ended

    @asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._timeout_s) as deadline:
                yield
        except TimeoutError:
            if not deadline.expired():
                raise
            raise Hung(f"it answers no trial call within {TRIAL_S:g} s") from None

    @asynccontextmanager
    async def _posted(
        self, path: str, body: Mapping[str, Any], *, may_be_rejected: bool = False
    ) -> AsyncIterator[httpx.Response]:
        """A response that is a success, its body not yet read; what else comes is logged."""

        async def trace(name: str, info: object) -> None:
            if name == _OPENED:
                self._on_open()

        content = json.dumps({**self._model, **body})  # orjson knows no integer beyond 64 bits
        patience = _Patience(self._until)
        while True:
            async with self._client.stream(
                "POST",
                path,
                content=content,
                headers=self._headers,
                timeout=_TIMEOUT,
                extensions={"trace": trace},
            ) as response:
                if (status := response.status_code) == 200:
                    yield response
                    return
                told = await _first_bytes(response)
                error = _error_of(status, told, body)
                wait_s = None
                if not isinstance(error, Refused):
                    wait_s = patience.wait_s(status, response.headers)
                if wait_s is None:
                    level = logging.WARNING
                    if may_be_rejected and status < 500:
                        level = logging.DEBUG
                    codes, named = _codes_and_named(told, body)
                    named &= body.keys()
                    code = next(filter(_CODE.fullmatch, codes), "none")
                    logger.log(level, _ANSWERED, path, status, code, ", ".join(sorted(named)))
                    raise error
            await asyncio.sleep(wait_s)


async def listed_model(calls: Calls, wanted: str) -> dict[str, Any]:
    """What `/v1/models` says of a model: of the named one, or of the first where "" is wanted.

    Where there is no such list, the named one is taken as it stands.

    Raises:
        Unreachable: it lists none.
        Refused: it lists others.
    """
    try:
        reply = await calls.get("/v1/models")
        listed = reply if isinstance(reply, list) else reply["data"]  # a list at Together's
        entries = {entry["id"]: dict(entry) for entry in listed}
        first = next(iter(entries))
        wanted = wanted or first
    except (Rejected, Failed, LookupError, TypeError, ValueError, StopIteration) as error:
        if wanted and isinstance(error, Rejected):  # it has no such list
            return {"id": wanted}
        raise Unreachable("it lists no models") from None
    if not isinstance(first, str):
        raise Unreachable("it lists no models")
    # As Ollama completes a name, and as Gemini's list has it.
    for name in (wanted, f"{wanted}:latest", f"models/{wanted}"):
        if name in entries:
            return entries[name]
    if (plain := wanted.rpartition(":")[0]) in entries:  # OpenRouter's way of serving it
        return {**entries[plain], "id": wanted}
    names = ", ".join(map(str, entries))
    raise Refused(f"it has no model of the name that the settings say; it lists {names:.500}")


def read(structure: TypeAdapter[Structure], reply: Any, what: str) -> Structure:
    """A reply, or a part of it, as the structure that it should have; `what` it is is told."""
    try:
        return structure.validate_python(reply)
    except ValueError:
        raise Unreachable(f"{what} cannot be understood") from None


class _Patience:
    """How long to wait for a server that has no room, within a deadline."""

    def __init__(self, until: float | None) -> None:
        if until is None:
            until = time.monotonic() + _MOST_PATIENCE_S
        self._until = until
        self._next_s = _FIRST_WAIT_S
        self._has_tried = False

    def wait_s(self, status: int, headers: httpx.Headers) -> float | None:
        """Seconds to wait before the next try; None where the reply asks for none.

        Raises:
            Overloaded: there is no time for that.
        """
        asked_s = _seconds(headers.get("retry-after"))
        if status != 429 and status not in _PASSING:
            return None
        if status != 429 and asked_s is None:
            if self._has_tried or time.monotonic() + _FIRST_WAIT_S >= self._until:
                return None
            self._has_tried = True
        wait_s = self._next_s
        if asked_s is not None:
            wait_s = max(asked_s, 0.05)
        self._next_s = min(2 * self._next_s, 8.0)
        if time.monotonic() + wait_s >= self._until:
            message = "the server of the model has no room, and asks to be left alone for longer"
            raise Overloaded(f"{message} than there is time", retry_after_s=math.ceil(wait_s))
        return wait_s


def _seconds(header: str | None) -> float | None:
    """Of a Retry-After; its other form, a date, says nothing where clocks differ."""
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < math.inf else None


async def _whole(response: httpx.Response, max_bytes: int) -> AsyncIterator[bytes]:
    """A body as the one event of a stream."""
    yield _EVENT + await body_of(response, max_bytes)


async def _first_bytes(response: httpx.Response) -> bytes:
    """The beginning of an error's body, which tells its code."""
    found = b""
    async for piece in response.aiter_raw():
        found += piece
        if len(found) > _MOST_ERROR_BYTES:
            break
    return found


def _error_of(status: int, content: bytes, body: Mapping[str, Any]) -> Exception:
    """What a reply to a body means that is no success, and says this."""
    codes, named = _codes_and_named(content, body)
    for sign in _LASTING.keys() & {status, *codes}:
        return Refused(f"{_LASTING[sign]} (status {status})")
    metadata = _error_in(content).get("metadata")
    if status == 403 and isinstance(metadata, Mapping) and "flagged_input" in metadata:
        return Rejected(status, "content_filter")  # as OpenRouter says it
    if status == 403:
        return Denied(f"it refuses the API key (status {status})")
    if status in (429, 502, 503, 504) or status < 400 or status in range(520, 530):
        return Unreachable(f"status {status}")
    if status >= 500:
        return Failed(f"status {status}")
    return Rejected(status, codes[0] if codes else "", named)


def _check_told(reply: Any, body: Mapping[str, Any]) -> None:
    """Raise what a success means that brings an error all the same, as routers' do.

    They had sent their status before it happened: it stands in the error, or nowhere.
    """
    if not isinstance(reply, Mapping) or not (error := reply.get("error")):
        return
    code = error.get("code") if isinstance(error, Mapping) else None
    status = code if type(code) is int and code in range(400, 600) else 502
    raise _error_of(status, orjson.dumps(reply), body)


def _codes_and_named(content: bytes, body: Mapping[str, Any]) -> tuple[list[str], frozenset[str]]:
    """Code and type of an error, as far as it has them, and the parameters that it names."""
    told = _error_in(content)
    codes = [one for one in (told.get("code"), told.get("type")) if isinstance(one, str)]
    return codes, _named(told, body)


def _error_in(content: bytes) -> Mapping[str, Any]:
    """What an error says of itself, in OpenAI's form or in FastAPI's; empty where it does not."""
    try:
        told = orjson.loads(content)
    except ValueError:
        return {}
    if isinstance(told, list) and told:  # Gemini's form
        told = told[0]
    if not isinstance(told, Mapping):
        return {}
    error = told.get("error")
    return error if isinstance(error, Mapping) else told


def _named(told: Mapping[str, Any], body: Mapping[str, Any]) -> frozenset[str]:
    """The parameters of a body that an error names: by itself, or in its message."""
    if isinstance(param := told.get("param"), str) and param:
        return frozenset({param.split(".")[0]})
    words = orjson.dumps({name: one for name, one in told.items() if name != "input"}).decode()
    found = set()
    for name in body:
        apart = r"[`'\"\\]" if name in _USUAL_WORDS else r"\b"
        if re.search(rf"{apart}{re.escape(name)}{apart}", words):
            found.add(name)
    return frozenset(found)


def _parsed(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except ValueError:
        raise Unreachable("it answers no JSON") from None
