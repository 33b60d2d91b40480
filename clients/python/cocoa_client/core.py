"""What both clients do, without I/O: calls, attempts, responses, streams."""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Required, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from cocoa_client.errors import (
    CocoaError,
    DeadlineExceeded,
    UnexpectedResponse,
    Unreachable,
    error_of,
)
from cocoa_client.models import (
    ErrorResponse,
    EstimatorList,
    FeedbackKept,
    GenerateResponse,
    ScoreResults,
    Status,
    Token,
    Version,
)
from cocoa_client.options import GenerateOptions, ScoreOptions

Answer = TypeVar("Answer", bound=BaseModel)

DEFAULT_TIMEOUT_S = 60.0
MAX_ITEMS = 64  # that a service scores in one call
# The service gives up at the deadline; so long is waited for it to say so.
_GRACE_S = 0.5
_LONGEST_S = 600.0
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 8.0
_REPEATED = (429, 503)


class ScoreItem(ScoreOptions):
    """One of several answers that are scored in one call."""

    answer: Required[str]


@dataclass(frozen=True)
class Call(Generic[Answer]):
    """One request, and what its response is read as."""

    method: str
    path: str
    kind: type[Answer]
    body: Mapping[str, Any] | None = None
    timeout_s: float | None = None

    def body_within(self, remaining_s: float) -> Mapping[str, Any] | None:
        """The body, whose deadlines are those of the call."""
        if self.body is None or self.kind is FeedbackKept:
            return self.body
        deadline = {"timeout_s": min(remaining_s, _LONGEST_S)}
        if "items" in self.body:
            return {"items": [deadline | item for item in self.body["items"]]}
        return {**self.body, **deadline}


def generate(prompt: str | None, options: GenerateOptions) -> Call[GenerateResponse]:
    """The call of `POST /generate-with-uncertainty`."""
    path = "/generate-with-uncertainty"
    return Call("POST", path, GenerateResponse, *_of_options(options, prompt=prompt))


def stream(prompt: str | None, options: GenerateOptions) -> Call[GenerateResponse]:
    """The same, as a stream."""
    path = "/generate-with-uncertainty"
    return Call("POST", path, GenerateResponse, *_of_options(options, prompt=prompt, stream=True))


def score(answer: str, options: ScoreOptions) -> Call[GenerateResponse]:
    """The call of `POST /score` for one answer."""
    return Call("POST", "/score", GenerateResponse, *_of_options(options, answer=answer))


def score_all(items: Sequence[ScoreItem], timeout_s: float | None) -> Call[ScoreResults]:
    """The call of `POST /score` for several."""
    return Call("POST", "/score", ScoreResults, {"items": list(items)}, timeout_s)


def batches(items: Sequence[ScoreItem], num_at_once: int) -> list[Sequence[ScoreItem]]:
    """The items of each call.

    Raises:
        ValueError: a call takes no such number.
    """
    if not 1 <= num_at_once <= MAX_ITEMS:
        raise ValueError(f"num_at_once must be from 1 to {MAX_ITEMS}")
    starts = range(0, len(items), num_at_once)
    return [items[start : start + num_at_once] for start in starts]


# Whether each field is right, by its path, or labels as the API takes them.
Units = Mapping[str, bool] | Sequence[Mapping[str, Any]]


def feedback(
    id: str,
    correct: bool | None,
    quality: float | None,
    task: str | None,
    units: Units | None,
) -> Call[FeedbackKept]:
    """The call of `POST /feedback`; units as in the API, or by the paths of fields."""
    given: dict[str, Any] = {"id": id, "correct": correct, "quality": quality, "task": task}
    if isinstance(units, Mapping):
        given["units"] = [{"path": path, "correct": right} for path, right in units.items()]
    elif units is not None:
        given["units"] = list(units)
    body = {name: value for name, value in given.items() if value is not None}
    return Call("POST", "/feedback", FeedbackKept, body)


VERSION = Call("GET", "/version", Version)
ESTIMATORS = Call("GET", "/estimators", EstimatorList)
LIVEZ = Call("GET", "/livez", Status)
READYZ = Call("GET", "/readyz", Status)


def _of_options(
    options: GenerateOptions | ScoreOptions, **named: Any
) -> tuple[dict[str, Any], float | None]:
    """Body and time-out of options."""
    body: dict[str, Any] = {**options, **named}
    timeout_s = body.pop("timeout_s", None)
    return body, timeout_s


@dataclass
class Attempts:
    """The attempts of one call, within its deadline.

    Attributes:
        timeout_s: of all attempts together, and of the waits between them.
        max_retries: repetitions at most.
    """

    timeout_s: float
    max_retries: int
    clock: Callable[[], float] = time.monotonic
    num_failed: int = 0
    began_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.began_at = self.clock()

    def remaining_s(self) -> float:
        """Seconds that are left.

        Raises:
            DeadlineExceeded: there are none.
        """
        left_s = self.began_at + self.timeout_s - self.clock()
        if left_s <= 0:
            raise self._too_late()
        return left_s

    def http_timeout(self) -> httpx.Timeout:
        """Of one attempt, for connections and for silence."""
        return httpx.Timeout(self.remaining_s() + _GRACE_S)

    def check(self) -> None:
        """Between two pieces of a response.

        Raises:
            DeadlineExceeded: they come too slowly.
        """
        if self.clock() > self.began_at + self.timeout_s + _GRACE_S:
            raise self._too_late()

    def wait_s(self, error: CocoaError) -> float:
        """Seconds to wait before the next attempt.

        Without word from the service they double, and are drawn, so that many clients do not
        return together.

        Raises:
            CocoaError: the error, where a repetition cannot help or does not fit the deadline.
        """
        self.num_failed += 1
        is_passing = error.status in _REPEATED or isinstance(error, Unreachable)
        if not is_passing or self.num_failed > self.max_retries:
            raise error
        wait_s = error.retry_after_s
        if wait_s is None:
            longest_s = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2 ** (self.num_failed - 1))
            wait_s = longest_s * random.uniform(0.5, 1)  # noqa: S311 - no secret
        if self.clock() + wait_s >= self.began_at + self.timeout_s:
            raise error
        return wait_s

    def failure(self, error: httpx.TransportError) -> CocoaError:
        """What a fault of the connection means."""
        if isinstance(error, httpx.TimeoutException):
            return self._too_late()
        return Unreachable(f"{type(error).__name__}: {error}")

    def _too_late(self) -> DeadlineExceeded:
        return DeadlineExceeded(f"no result within timeout_s = {self.timeout_s:g} s")


def checked_url(url: str) -> str:
    """The URL, which begins a path of the service.

    Raises:
        ValueError: it has no scheme, or is that of the endpoints for OpenAI's clients.
    """
    if not url.startswith(("http://", "https://")):
        raise ValueError("url must begin with http:// or https://, as http://localhost:8000 does")
    if httpx.URL(url).path.rstrip("/").endswith("/v1"):
        raise ValueError(
            "url must not end in /v1, where the endpoints for OpenAI's clients are: this client"
            " calls /generate-with-uncertainty and /score, which are beside it"
        )
    return url


def headers_of(api_key: str | None) -> dict[str, str]:
    """Of every request."""
    headers = {"User-Agent": "cocoa-client"}
    if api_key is not None:
        headers["Authorization"] = f"Bearer {api_key}"
    return headers


@dataclass(frozen=True)
class Response:
    """A response that was read."""

    status: int
    headers: httpx.Headers
    content: bytes


def read_answer(kind: type[Answer], response: Response) -> Answer:
    """What a response says.

    Raises:
        CocoaError: the error that it tells.
        UnexpectedResponse: it is not one of this service.
    """
    if not 200 <= response.status < 300:
        raise failure_of(response)
    return _parsed(kind, response.content)


def failure_of(response: Response) -> CocoaError:
    """The error that a response tells."""
    status, retry_after_s = response.status, _retry_after_s(response.headers)
    try:
        told = ErrorResponse.model_validate_json(response.content).error
    except ValidationError:
        message = f"HTTP {status} without an error of this service"
        return UnexpectedResponse(message, status=status, retry_after_s=retry_after_s)
    return error_of(told, status, retry_after_s)


def _parsed(kind: type[Answer], content: bytes) -> Answer:
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        message = f"what came is not a {kind.__name__}: {place}: {first['msg']}"
        raise UnexpectedResponse(message) from None


def _retry_after_s(headers: httpx.Headers) -> float | None:
    """Seconds of Retry-After; the service sends no dates."""
    try:
        return max(0.0, float(headers["retry-after"]))
    except (KeyError, ValueError):
        return None


class Reading:
    """A stream of events as far as it was read.

    Attributes:
        result: None until its event was read.
    """

    def __init__(self) -> None:
        self.result: GenerateResponse | None = None
        self._rest = b""

    def tokens(self, data: bytes) -> Iterator[Token]:
        """The tokens that the next bytes complete.

        Raises:
            CocoaError: the error that the stream ended in.
        """
        *blocks, self._rest = (self._rest + data).split(b"\n\n")
        for block in blocks:
            fields = dict(line.partition(b": ")[::2] for line in block.split(b"\n"))
            name, told = fields.get(b"event"), fields.get(b"data", b"")
            if name == b"token":
                yield _parsed(Token, told)
            elif name == b"result":
                self.result = _parsed(GenerateResponse, told)
            elif name == b"error":
                raise error_of(_parsed(ErrorResponse, told).error)

    def ended(self) -> GenerateResponse:
        """The result, after the last byte.

        Raises:
            Unreachable: the stream broke off before it.
        """
        if self.result is None:
            raise Unreachable("the stream ended before its result")
        return self.result
