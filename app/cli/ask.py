"""`cocoa ask`: one prompt, its answer and scores, for a person or as JSON."""

import asyncio
import os
from collections import Counter
from typing import Annotated

import httpx
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.cli.environment import settings_or_exit
from app.http.schemas import ErrorResponse, GenerateResponse
from app.main import create_app

_TIMEOUT_S = 90  # above the request's own deadline, which answers first


def ask(
    prompt: Annotated[str, typer.Argument(help="The prompt, continued as it stands.")],
    url: Annotated[
        str | None, typer.Option(help="Ask a running service instead of loading the models here.")
    ] = None,
    num_samples: Annotated[
        int, typer.Option(min=1, max=64, help="M, the number of sampled answers.")
    ] = 10,
    max_new_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Upper bound of an answer's tokens; 256, or what fits."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Makes the samples repeatable.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the HTTP response's object.")
    ] = False,
) -> None:
    """Answer one prompt and say how sure the model is."""
    body = {
        "prompt": prompt,
        "num_samples": num_samples,
        "max_new_tokens": max_new_tokens,
        "seed": seed,
        "return_samples": True,
        "return_tokens": True,
    }
    try:
        response = asyncio.run(_post(body, url))
    except httpx.TransportError as failure:
        typer.echo(f"{url}: {failure}", err=True)
        raise typer.Exit(1) from None
    if response.status_code != httpx.codes.OK:
        error = ErrorResponse.model_validate_json(response.content).error
        typer.echo(
            f"{error.code}: {error.message}" + (f" (field {error.field})" if error.field else ""),
            err=True,
        )
        raise typer.Exit(1)
    if as_json:
        typer.echo(response.text)
    else:
        _print(GenerateResponse.model_validate_json(response.content), Console())


async def _post(body: dict[str, object], url: str | None) -> httpx.Response:
    path = "/generate-with-uncertainty"
    if url is not None:
        async with httpx.AsyncClient(base_url=url, timeout=_TIMEOUT_S) as client:
            return await client.post(path, json=body)
    # The same application as `cocoa serve`, without a socket: one path for every answer.
    app = create_app(settings_or_exit(), on_death=lambda: os._exit(1))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://cocoa", timeout=_TIMEOUT_S
        ) as client,
    ):
        await app.state.service.supervisor.ready.wait()
        return await client.post(path, json=body)


def _print(response: GenerateResponse, console: Console) -> None:
    console.print(Text.assemble(("answer      ", "dim"), (_shown_text(response), "bold")))
    console.print(
        Text.assemble(
            ("uncertainty ", "dim"), f"{_number(response.uncertainty)} nats ({response.estimator})"
        )
    )
    if response.confidence is not None:
        console.print(
            Text.assemble(
                ("confidence  ", "dim"),
                f"{100 * response.confidence:.0f} % right, by the calibrator {response.calibrator}",
            )
        )
    for warning in response.warnings:
        console.print(Text(f"warning     {warning}", style="yellow"))
    console.print(_scores(response))
    console.print(_samples(response))
    console.print(
        Text(
            f"{response.model.id if response.model else '-'} · seed {response.seed} · "
            f"{response.usage.prompt_tokens} prompt, {response.usage.completion_tokens} answer, "
            f"{response.usage.sample_tokens} sampled tokens · {response.timing_ms.total:.0f} ms",
            style="dim",
        )
    )


def _shown_text(response: GenerateResponse) -> str:
    return "(held back)" if response.text is None else response.text.strip() or "(empty)"


def _scores(response: GenerateResponse) -> Table:
    table = Table()
    table.add_column("score (higher: less sure)")
    table.add_column("value", justify="right")
    for name, value in response.scores.items():
        table.add_row(name, response.reasons.get(name, "") if value is None else _number(value))
    return table


def _samples(response: GenerateResponse) -> Table:
    samples = response.samples or []
    counts = Counter(sample.text.strip() for sample in samples)
    similarity = {sample.text.strip(): sample.similarity for sample in samples}
    table = Table()
    table.add_column("samples", justify="right")
    table.add_column("similarity", justify="right")
    table.add_column(f"{len(counts)} distinct texts")
    for text, count in counts.most_common():
        table.add_row(str(count), _number(similarity[text]), Text(text or "(empty)"))
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
