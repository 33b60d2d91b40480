"""`cocoa-batch`: sends each line of a file once, a few at a time, until all are answered."""

import argparse
import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from cocoa_client import core
from cocoa_client.batch_files import (
    Answers,
    BadFile,
    BadLine,
    Line,
    Unwritten,
    count_lines,
    read_lines,
)
from cocoa_client.results import Progress

# RFC 9218: in the background. The service lets the key's other requests go first.
_HEADERS = {"Priority": "u=7", "Content-Type": "application/json"}
# Trouble of the service, not of the line, which is sent again until patience ends.
_BUSY = frozenset({429, 502, 503})
_DEADLINE = 504
_MAX_DEADLINES = 3
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 15.0
_TIMEOUT_S = 90  # above the request's own deadline, which answers first
_MAX_CONCURRENCY = 256
# How the command ends: with lines that could not be asked, and with lines that have an error.
_LEFT, _FAILED = 1, 3
_KEY_VARIABLE = "COCOA_ASK_KEY"


class GivenUp(Exception):
    """The service does not answer, or refuses this key; unanswered lines can be sent later."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns what it exits with."""
    options = _parser().parse_args(arguments)
    try:
        total = count_lines(options.input_file)
        with Answers(options.output_file) as answers, options.input_file.open("rb") as file:
            lines = (line for line in read_lines(file) if not answers.has(line))
            batch = _Batch(answers, options.patience_s, options.input_file.name, total)
            try:
                asyncio.run(batch.run(lines, options.url, options.key, options.concurrency))
            except KeyboardInterrupt:
                raise GivenUp("stopped") from None
            finally:
                batch.end_line()
    except (BadFile, OSError) as error:
        return _end(str(error), 2)
    except (GivenUp, Unwritten) as reason:
        num_left = total - answers.num_known - batch.outcomes.total()
        return _end(f"{reason}; {num_left} lines are left: run the same command to go on", _LEFT)
    counts = [f"{count} {outcome}" for outcome, count in sorted(batch.outcomes.items())]
    if answers.num_known:
        counts.append(f"{answers.num_known} before")
    status = _end(f"{total} lines: {', '.join(counts) or 'nothing to ask'}", 0)
    if answers.num_failed:
        status = _end(f"{answers.num_failed} have an error in {options.output_file.name}", _FAILED)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "cocoa-batch",
        description="Answer a file of requests, in OpenAI's format, and write each answer as it "
        "comes. A run that was stopped goes on where it was: give the same two files.",
        epilog="Ends with 1 where lines are left that could not be asked, with 2 where the files "
        "do not belong together, and with 3 where lines have an error in place of an answer.",
    )
    add = parser.add_argument
    add("-i", "--input-file", type=Path, required=True, help="requests, a JSON object a line")
    add("-o", "--output-file", type=Path, required=True, help="answers; a run goes on with it")
    add("--url", type=_url, default="http://localhost:8000", help="of the service; %(default)s")
    add("--key", type=_key, default=os.environ.get(_KEY_VARIABLE), help=f"or {_KEY_VARIABLE}")
    add("--concurrency", type=_concurrency, default=8, help="requests under way at once; 8")
    patience = "seconds without an answer after which a service that refuses is given up; 300"
    add("--patience-s", type=float, default=300.0, help=patience)
    return parser


def _url(given: str) -> str:
    try:
        return core.checked_url(given)
    except (ValueError, httpx.InvalidURL) as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _key(given: str) -> str:
    if not (given.isascii() and given.isprintable()):
        raise argparse.ArgumentTypeError("has characters that no key has")
    return given


def _concurrency(given: str) -> int:
    if not given.isdecimal() or not 1 <= int(given) <= _MAX_CONCURRENCY:
        raise argparse.ArgumentTypeError(f"should be from 1 to {_MAX_CONCURRENCY}")
    return int(given)


def _end(message: str, status: int) -> int:
    print(message, file=sys.stderr)
    return status


def _client_of(url: str, key: str | None, concurrency: int) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=concurrency)
    headers = core.headers_of(key)
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=_TIMEOUT_S, limits=limits)


@dataclass(slots=True)
class _Batch:
    """One run over the lines that are not answered yet.

    Attributes:
        outcomes: how many lines of this run have which.
    """

    answers: Answers
    patience_s: float
    name: str
    total: int
    outcomes: Counter[str] = field(default_factory=Counter)
    _answered_at: float = 0.0

    async def run(self, lines: Iterator[Line], url: str, key: str | None, concurrency: int) -> None:
        """Send the lines; the first trouble that no later line can be without ends all."""
        async with _client_of(url, key, concurrency) as client:
            self._answered_at = asyncio.get_running_loop().time()
            tasks = []
            for _ in range(concurrency):
                tasks.append(asyncio.create_task(self._answer_some(lines, client)))
            try:
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def end_line(self) -> None:
        """End the line on the terminal that counts."""
        if sys.stderr.isatty():
            print(file=sys.stderr)

    async def _answer_some(self, lines: Iterator[Line], client: httpx.AsyncClient) -> None:
        """Send lines one after another; several such tasks share the lines."""
        for line in lines:
            if line.fault is not None:
                self._write(line, "not sent", error=line.fault)
                continue
            response = await self._response(line, client)
            try:
                body = json.loads(response.content)
            except (ValueError, RecursionError):
                message = f"status {response.status_code} without JSON"
                fault = BadLine("unexpected_response", message)
                self._write(line, "not understood", error=fault)
                continue
            reply = {
                "status_code": response.status_code,
                "request_id": response.headers.get("x-request-id"),
                "body": body,
            }
            outcome = "answered" if response.is_success else "refused"
            self._write(line, outcome, response=reply)

    def _write(
        self,
        line: Line,
        outcome: str,
        *,
        response: dict[str, object] | None = None,
        error: BadLine | None = None,
    ) -> None:
        self.answers.write(line, response=response, error=error)
        self.outcomes[outcome] += 1
        if sys.stderr.isatty():
            num_known = self.answers.num_known + self.outcomes.total()
            progress = Progress(self.name, "answered", num_known, self.total)
            print(f"\r{progress}", end="", file=sys.stderr, flush=True)

    async def _response(self, line: Line, client: httpx.AsyncClient) -> httpx.Response:
        """The response to a line, which is sent again where the service was busy or away."""
        now = asyncio.get_running_loop().time
        wait_s, num_deadlines = _FIRST_WAIT_S, 0
        while True:
            try:
                response = await client.post(line.path, content=line.body, headers=_HEADERS)
            except httpx.TransportError as error:
                trouble, retry_after_s = type(error).__name__, 0.0
            else:
                status = response.status_code
                if status == httpx.codes.UNAUTHORIZED:
                    raise GivenUp("the service does not know this key")
                if status == httpx.codes.NOT_FOUND and b"model_not_found" not in response.content:
                    raise GivenUp(f"{line.path} is not served at this URL")
                num_deadlines += status == _DEADLINE
                is_late = status == _DEADLINE and num_deadlines < _MAX_DEADLINES
                if status not in _BUSY and not is_late:
                    self._answered_at = now()
                    return response
                trouble, retry_after_s = f"status {status}", _seconds(response)
            if now() - self._answered_at > self.patience_s:
                raise GivenUp(f"no answer for {self.patience_s:g} s ({trouble})")
            await asyncio.sleep(max(retry_after_s, wait_s))
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)


def _seconds(response: httpx.Response) -> float:
    """The seconds of `Retry-After`; 0 where the response has none."""
    value = response.headers.get("retry-after", "")
    if value.isdigit():
        return float(value)
    return 0.0


if __name__ == "__main__":
    sys.exit(main())
