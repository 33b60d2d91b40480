"""`cocoa run-batch`: sends each line of a file once, a few at a time, until all are answered."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import httpx
import orjson
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from app.cli.batch_files import Answers, BadFile, BadLine, Line, Unwritten, count_lines, read_lines
from app.cli.clients import client_of
from app.cli.environment import ApiKey, Url, fail
from workers.calling import together

# RFC 9218: in the background. The service lets the key's other requests go first.
_HEADERS = {"Priority": "u=7"}
# Trouble of the service, not of the line, which is sent again until patience ends.
_BUSY = frozenset({429, 502, 503})
_DEADLINE = 504
_MAX_DEADLINES = 3
_FAILED = 3  # how the command ends then
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 15.0


class GivenUp(Exception):
    """The service does not answer, or refuses this key; unanswered lines can be sent later."""


def run_batch(
    input_file: Annotated[
        Path,
        typer.Option(
            "--input-file",
            "-i",
            exists=True,
            dir_okay=False,
            help="Requests, a JSON object a line.",
        ),
    ],
    output_file: Annotated[
        Path,
        typer.Option("--output-file", "-o", dir_okay=False, help="Answers; a run goes on with it."),
    ],
    url: Url = None,
    key: ApiKey = None,
    concurrency: Annotated[
        int, typer.Option(min=1, max=256, help="Requests under way at once.")
    ] = 8,
    patience_s: Annotated[
        float,
        typer.Option(
            min=0, help="Seconds without an answer after which a service that refuses is given up."
        ),
    ] = 300,
) -> None:
    """Answer a file of requests, in OpenAI's format, and write each answer as it comes.

    A run that was stopped goes on where it was: give the same two files. The command ends with 1
    where lines are left that could not be asked, with 2 where the files do not belong together, and
    with 3 where lines have an error in place of an answer.
    """
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    outcomes: Counter[str] = Counter()
    try:
        total = count_lines(input_file)
        with (
            Answers(output_file) as answers,
            input_file.open("rb") as file,
            Progress(*columns, console=console, disable=not console.is_terminal) as progress,
        ):
            task = progress.add_task("", total=total, completed=answers.num_known)

            def on_outcome(outcome: str) -> None:
                outcomes[outcome] += 1
                progress.advance(task)

            lines = (line for line in read_lines(file) if not answers.has(line))
            asyncio.run(_Batch(answers, patience_s, on_outcome).run(lines, url, key, concurrency))
    except (BadFile, OSError) as error:
        fail(str(error), 2)
    except (GivenUp, Unwritten) as reason:
        left = total - answers.num_known - outcomes.total()
        fail(f"{reason}; {left} lines are left: run the same command to go on")
    counts = [f"{count} {outcome}" for outcome, count in sorted(outcomes.items())]
    if answers.num_known:
        counts.append(f"{answers.num_known} before")
    typer.echo(f"{total} lines: {', '.join(counts) or 'nothing to ask'}", err=True)
    if answers.num_failed:
        fail(f"{answers.num_failed} have an error in {output_file.name}", _FAILED)


@dataclass(slots=True)
class _Batch:
    """One run over the lines that are not answered yet."""

    answers: Answers
    patience_s: float
    on_outcome: Callable[[str], None]
    _answered_at: float = 0.0

    async def run(
        self, lines: Iterator[Line], url: str | None, key: str | None, concurrency: int
    ) -> None:
        async with client_of(url, key) as client:
            self._answered_at = asyncio.get_running_loop().time()
            await together(*(self._answer_some(lines, client) for _ in range(concurrency)))

    async def _answer_some(self, lines: Iterator[Line], client: httpx.AsyncClient) -> None:
        """Send lines one after another; several such tasks share the lines."""
        for line in lines:
            if line.fault is not None:
                self.answers.write(line, error=line.fault)
                self.on_outcome("not sent")
                continue
            response = await self._response(line, client)
            try:
                body = orjson.loads(response.content)
            except orjson.JSONDecodeError:
                message = f"status {response.status_code} without JSON"
                self.answers.write(line, error=BadLine("unexpected_response", message))
                self.on_outcome("not understood")
                continue
            reply = {
                "status_code": response.status_code,
                "request_id": response.headers.get("x-request-id"),
                "body": body,
            }
            self.answers.write(line, response=reply)
            self.on_outcome("answered" if response.is_success else "refused")

    async def _response(self, line: Line, client: httpx.AsyncClient) -> httpx.Response:
        """The response to a line, which is sent again where the service was busy or away."""
        now = asyncio.get_running_loop().time
        wait_s, num_deadlines = _FIRST_WAIT_S, 0
        while True:
            try:
                response = await client.post(line.path, json=line.body, headers=_HEADERS)
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
