"""Replies of workers of ours: tokens and a result, or an error."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le, MaxLen

from models import errors
from models.codec import reader
from models.errors import CocoaError, EngineError, NotReady, Unauthorized
from models.ranges import Exact
from models.records import OnToken, Token
from workers.calling import Listener
from workers.remote import wire
from workers.remote.client import Response, Unreachable, body_of, lines

# Bound of a description of a worker, or of its refusal.
MAX_INFO_BYTES = 1_048_576
# Bound of the message of an error.
_MOST_CHARACTERS = 4096

_ERRORS = {kind.code: kind for kind in errors.answered()}


@dataclass(frozen=True, slots=True)
class _Error(Exact):
    code: str
    message: Annotated[str, MaxLen(_MOST_CHARACTERS)]
    field: Annotated[str, MaxLen(_MOST_CHARACTERS)] | None
    retry_after_s: Annotated[int, Ge(0), Le(3600)] | None


@dataclass(frozen=True, slots=True)
class _Refusal(Exact):
    error: _Error


_error, _refusal = reader(_Error), reader(_Refusal)


def decode_error(content: bytes) -> CocoaError:
    """The error of this code; raises `Garbled` where it is none."""
    with wire.garbled("no error"):
        return _as_ours(_error(content))


def _as_ours(error: _Error) -> CocoaError:
    return _ERRORS[error.code](error.message, field=error.field, retry_after_s=error.retry_after_s)


def bounded(on_token: OnToken, most: int) -> OnToken:
    """Reports at most so many tokens, and the rest of a reasoning; raises `Garbled` beyond."""
    num_tokens = 0

    def tell(token: Token) -> None:
        nonlocal num_tokens
        num_tokens += 1
        if num_tokens > most + 1:
            raise wire.Garbled("longer than what was asked for")
        on_token(token)

    return tell


async def result_of(response: Response, listener: Listener, digest: bytes) -> bytes:
    """The result at the end of the lines, not yet decoded; tokens are reported as they come.

    It is read to its end: a connection with unread bytes cannot be used again.

    Raises:
        Unreachable: the lines end without one, or the worker has stopped.
        Garbled: a line is none of ours or of another call, or comes after the result.
        CocoaError: as the worker raised it.
    """
    result = None
    async for line in lines(response):
        if result is not None:
            raise wire.Garbled("longer than its result")
        kind, content = wire.decode_line(line, digest)
        if kind == "token":
            listener.tell(wire.decode_token(content))
        elif kind == "error":
            raise _of_worker(decode_error(content))
        else:
            result = content
    if result is None:
        raise Unreachable("its answer ends in the middle")
    return result


async def refusal_of(response: Response) -> Exception:
    """The error that a reply without an answer means.

    A worker that is not ready, or a proxy without one, is passed over like one that cannot be
    reached.
    """
    body = await body_of(response, MAX_INFO_BYTES)
    try:
        return _of_worker(_as_ours(_refusal(body).error))
    except (ValueError, LookupError):
        return Unreachable(f"{response.asked}: status {response.status}")


def _of_worker(error: CocoaError) -> Exception:
    """The gateway's error for a worker's error; its clients know of no worker.

    One whose model has stopped, or that wants another key, is passed over; a defect of it is its
    model's failure.
    """
    if isinstance(error, NotReady):
        return Unreachable("its model is not ready")
    if isinstance(error, Unauthorized):
        return Unreachable("it wants another key")
    if type(error) is errors.InternalError:
        return EngineError(error.message)
    return error
