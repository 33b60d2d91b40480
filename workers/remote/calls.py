"""Calls of a server that nobody here wrote: JSON both ways, and every way in which that can fail.

No exception and no line of the log quotes what was sent or what came back; of a call that failed
the log has status, code, and the parameters that the server names.
"""

import json
import logging
from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, TypeVar

import orjson
from pydantic import TypeAdapter

from workers.remote.client import (
    MAX_REPLY_BYTES,
    Client,
    Refused,
    Response,
    Unreachable,
    body_of,
    lines,
)
from workers.remote.refusals import (
    Denied,
    Failed,
    NoSuccess,
    Rejected,
    Unreadable,
    check_no_error,
    is_error,
)
from workers.remote.retries import patiently

logger = logging.getLogger(__name__)

Reply = TypeVar("Reply")
Structure = TypeVar("Structure")
Read = Callable[[Response], Awaitable[Reply]]

# The longest wait for a reply: whoever waits for longer has had an error by now.
_SILENCE_S = 600.0
_MOST_ERROR_BYTES = 65_536
_EVENT = b"data:"
# The least cost of an event: one that was read takes memory however short it is.
_EVENT_BYTES = 512
_END = b"[DONE]"
_ANSWERED = "POST %s was answered with status %d: code %s; parameters that it names: %s"
_NO_LIST = (Denied, Rejected, Unreadable, LookupError, TypeError, ValueError, StopIteration)


class Calls:
    """Calls of one server, for one request or for its trial.

    Each raises:
        Unreachable: the server answers no JSON, asks for patience, or breaks off.
        Refused: it wants another key.
        Rejected, Failed: see there.
        Overloaded: it asks for more patience than the deadline has (`workers.remote.retries`).

    They have time until the monotonic second of the deadline. `doubt` is called where a new
    connection was needed, or a call has failed: another server may answer there by now.
    """

    def __init__(
        self,
        client: Client,
        until: float | None = None,
        *,
        doubt: Callable[[], None] = lambda: None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.num_posts = 0
        self.level_of_rejections = logging.WARNING  # of replies that refuse a body
        self._client = client
        self._until = until
        self._doubt = doubt
        self._headers = {"Content-Type": "application/json", **(headers or {})}

    async def get(self, path: str) -> Any:
        async with self._client.stream("GET", path) as response:
            content = await body_of(response)
            if response.status == 200:
                return _parsed(content)
            # From within: uvicorn closes a connection once it has told of a failure there.
            error = NoSuccess(response.asked, response.status, content, {}).error
            if isinstance(error, Failed):
                raise Unreadable(str(error))
            raise error

    async def post(
        self, path: str, body: Mapping[str, Any], max_bytes: int = MAX_REPLY_BYTES
    ) -> Any:
        """The reply to a POST."""
        self.num_posts += 1
        max_bytes = min(max_bytes, MAX_REPLY_BYTES)
        reply = _parsed(await self._posted(path, body, partial(body_of, max_bytes=max_bytes)))
        check_no_error(reply, f"POST {path}", body)
        return reply

    async def post_for_events(
        self, path: str, body: Mapping[str, Any], on_event: Callable[[Any], None], max_bytes: int
    ) -> tuple[list[Any], bool]:
        """All server-sent events that a POST answers, each reported at once; whether it has ended.

        They are read to their end: a connection with unread bytes cannot be used again.
        """
        streamed = {**body, "stream": True, "stream_options": {"include_usage": True}}
        max_bytes = min(max_bytes, MAX_REPLY_BYTES)
        all_events = partial(_events, on_event=on_event, max_bytes=max_bytes)
        events, has_ended, failure = await self._posted(path, streamed, all_events)
        if failure is not None:
            check_no_error(failure, f"POST {path}", body)
            raise Unreachable("its stream ends in an error")
        return events, has_ended

    async def _posted(self, path: str, body: Mapping[str, Any], read: Read[Reply]) -> Reply:
        """The parsed reply of a success; any other is logged."""
        content = json.dumps(body).encode()  # orjson knows no integer beyond 64 bits

        async def send() -> Reply:
            async with self._client.stream(
                "POST",
                path,
                content,
                headers=self._headers,
                silence_s=_SILENCE_S,
                on_connection=self._doubt,
            ) as response:
                if response.status == 200:
                    return await read(response)
                beginning = await _first_bytes(response)
            raise NoSuccess(response.asked, response.status, beginning, body, response.headers)

        try:
            return await patiently(send, self._until)
        except NoSuccess as failure:
            level = self.level_of_rejections if failure.status < 500 else logging.WARNING
            named = ", ".join(sorted(failure.named & body.keys()))  # others might quote the request
            logger.log(level, _ANSWERED, path, failure.status, failure.code, named)
            if failure.status >= 500:
                self._doubt()
            raise failure.error from None

    async def _as_reply(self, read: Read[Reply], content: bytes) -> Reply:
        """A reply of JSON that nobody sent."""

        async def chunks() -> AsyncIterator[bytes]:
            yield content

        return await read(Response("", 200, {"content-type": "application/json"}, chunks()))


async def listed_model(calls: Calls, wanted: str, path: str = "/v1/models") -> dict[str, Any]:
    """The entry of a list of models for the named model, or the first one where "" is wanted.

    Where there is no such list, an empty one or another answer, the named one is taken as it
    stands: the trial shows whether it is there.

    Raises:
        Unreachable: it is not there yet, or lists none where none is named.
        Refused: it lists others.
    """
    try:
        reply = await calls.get(path)
        listed = reply if isinstance(reply, list) else reply["data"]  # a list at Together's
        entries = {entry["id"]: dict(entry) for entry in listed}
        first = next(name for name in entries if isinstance(name, str))
        wanted = wanted or first
    except _NO_LIST as error:
        if wanted:
            return {"id": wanted}
        if isinstance(error, Denied):
            raise
        words = "it lists no models"
        if isinstance(error, Rejected | Unreadable):
            words += f" ({error})"
        raise Unreachable(words) from None
    # Ollama completes a name by a tag, and Gemini's list has a prefix.
    for name in (wanted, f"{wanted}:latest", f"models/{wanted}"):
        if name in entries:
            return entries[name]
    if (plain := wanted.rpartition(":")[0]) in entries:  # OpenRouter's way of serving it
        return {**entries[plain], "id": wanted}
    if any(fnmatchcase(wanted, str(name)) for name in entries):  # LiteLLM's list has patterns
        return {"id": wanted}
    if wanted.startswith(("/", ".", "~")):  # a folder there; `transformers serve` lists the hub's
        return {"id": wanted}
    names = ", ".join(map(str, entries))
    raise Refused(f"it has no model of the name that the settings say; it lists {names:.500}")


def shaped(structure: TypeAdapter[Structure], reply: Any, what: str) -> Structure:
    """A reply, or a part of it, as the structure that it should have; named `what` in the error."""
    try:
        return structure.validate_python(reply)
    except ValueError:
        raise Unreadable(f"{what} cannot be understood") from None


async def _events(
    response: Response, on_event: Callable[[Any], None], max_bytes: int
) -> tuple[list[Any], bool, Any]:
    """The events of a stream, whether its end was marked, and its error; None for none.

    Raises:
        Unreachable: it has more events than were requested, or one is no JSON.
    """
    events: list[Any] = []
    has_ended = False
    # Some stream nothing, and answer at once.
    is_whole = response.headers.get("content-type", "").startswith("application/json")
    stream = _body_as_event(response, max_bytes) if is_whole else lines(response, max_bytes)
    async for line in stream:
        line = line.removeprefix(BOM_UTF8)  # where there is one, the first line begins with it
        if has_ended or not line.startswith(_EVENT):
            continue
        data = line.removeprefix(_EVENT).strip()
        has_ended = data == _END
        if has_ended or not data:
            continue
        event = _parsed(data)
        if not isinstance(event, Mapping) or is_error(event):
            return events, has_ended, event
        if len(events) * _EVENT_BYTES > max_bytes:
            raise Unreachable("its stream has more events than were asked for")
        events.append(event)
        on_event(event)
    return events, has_ended, None


async def _body_as_event(response: Response, max_bytes: int) -> AsyncIterator[bytes]:
    """A body as the one event of a stream."""
    yield _EVENT + await body_of(response, max_bytes)


async def _first_bytes(response: Response) -> bytes:
    """The beginning of an error's body, which has its code."""
    content = b""
    async for piece in response.chunks:
        content += piece
        if len(content) > _MOST_ERROR_BYTES:
            break
    return content


def _parsed(content: bytes) -> Any:
    with suppress(ValueError):
        return orjson.loads(content)
    try:  # null in place of NaN, which servers in Python write
        return orjson.loads(orjson.dumps(json.loads(content)))
    except (TypeError, ValueError, RecursionError):
        raise Unreadable("it answers no JSON") from None
