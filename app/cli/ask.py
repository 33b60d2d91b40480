"""`cocoa ask`: one prompt, its answer and scores, for a person or as JSON.

One request, to a running service or the same application here.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import httpx
import typer
from pydantic import JsonValue, ValidationError
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from app.cli.clients import client_of, ready_here
from app.cli.environment import ApiKey, as_url, fail, settings_or_exit
from app.http.described import ABSENT
from app.http.schemas import ErrorResponse, GenerateResponse
from models.estimators import ESTIMATORS


def ask(
    prompt: Annotated[str | None, typer.Argument(help="The prompt, continued as it is.")] = None,
    messages: Annotated[
        str | None,
        typer.Option(help="A chat in place of the prompt: JSON as in the API, or a file of it."),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            callback=as_url, help="A service. Default: at COCOA_PORT, else the models load here."
        ),
    ] = None,
    key: ApiKey = None,
    mode: Annotated[
        Literal["full", "light"], typer.Option(help="light draws no samples, and asks a probe.")
    ] = "full",
    estimator: Annotated[
        list[str] | None,
        typer.Option(help="What to score; may be repeated. The first is the uncertainty."),
    ] = None,
    num_samples: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="M, the number of sampled answers; 10 in full mode."),
    ] = None,
    max_new_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Upper bound of an answer's tokens; 256, or what fits."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Makes the samples repeatable.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the HTTP response.")] = False,
) -> None:
    """Answer one prompt and say how sure the model is."""
    body = {
        "prompt": prompt,
        "messages": messages and _json_of(messages),
        "mode": mode,
        "estimators": estimator or None,
        "estimator": next(iter(estimator or ()), None),
        "num_samples": num_samples,
        "max_new_tokens": max_new_tokens,
        "seed": seed,
        "return_samples": mode == "full",
        "return_tokens": True,
    }
    _ask_and_print(body, url, key, as_json=as_json)


def _ask_and_print(
    body: Mapping[str, object], url: str | None, key: str | None, *, as_json: bool
) -> None:
    """Send one request and print its response; the command ends where it failed."""
    if url is None and (url := asyncio.run(ready_here(settings_or_exit()))):
        typer.echo(f"asked the service at {url}", err=True)
    try:
        response = asyncio.run(_post(body, url, key))
        if response.status_code != httpx.codes.OK:
            error = ErrorResponse.model_validate_json(response.content).error
            place = f" (field {error.field})" if error.field else ""
            fail(f"{error.code}: {error.message}{place}")
        answered = GenerateResponse.model_validate_json(response.content)
    except (httpx.HTTPError, httpx.InvalidURL) as failure:
        fail(f"{url}: {str(failure) or type(failure).__name__}")
    except ValidationError:
        kind = response.headers.get("content-type", "no content type")
        fail(f"{url}: no cocoa service answers there ({response.status_code}, {kind})")
    if as_json:
        typer.echo(response.text)
    else:
        _print(answered, Console())


def _json_of(messages: str) -> JsonValue:
    text: str | bytes = messages
    try:
        if not messages.lstrip().startswith("[") and (path := Path(messages)).is_file():
            text = path.read_bytes()
        value: JsonValue = json.loads(text)
    except (OSError, ValueError) as error:
        what = "is neither a file nor JSON"
        if messages.endswith(".json"):
            what = "cannot be read"
        raise typer.BadParameter(
            f"{what} ({type(error).__name__}): "
            """'[{"role": "user", "content": "Hello"}]' would do""",
            param_hint="--messages",
        ) from None
    return value


async def _post(body: Mapping[str, object], url: str | None, key: str | None) -> httpx.Response:
    async with client_of(url, key) as client:
        return await client.post("/generate-with-uncertainty", content=json.dumps(body))


def _print(response: GenerateResponse, console: Console) -> None:
    text, provenance, usage = "(held back)", response.provenance, response.usage
    if response.refusal is not ABSENT:
        text = f"(refused) {response.refusal}"
    elif response.text is not None:
        text = response.text.strip() or "(empty)"

    def line(name: str, value: str, style: str = "") -> None:
        console.print(Text.assemble((f"{name:12}", "dim"), (value, style)))

    line("answer", text, "bold")
    uncertainty, called = _number(response.uncertainty), response.estimator
    if (known := ESTIMATORS.get(called)) is not None:
        uncertainty, called = f"{uncertainty} {known.unit}".rstrip(), f"{known.title} ({called})"
    line("uncertainty", f"{uncertainty}, {called}")
    if response.confidence is not None:
        share = f"{100 * response.confidence:.0f} % right"
        line("confidence", f"{share}, by the calibrator {provenance.calibrator}")
    for warning in response.warnings:
        line("warning", warning, "yellow")
    scores = Table("score (higher: less sure)", Column("value", justify="right"))
    for name, value in response.scores.items():
        scores.add_row(name, response.reasons.get(name) or _number(value))
    console.print(scores)
    if response.samples is not ABSENT:
        console.print(_samples(response))
    about = [provenance.model.id]
    if provenance.seed is not ABSENT:
        about.append(f"seed {provenance.seed}")
    about.append(
        f"{usage.prompt_tokens} prompt, {usage.completion_tokens} answer, "
        f"{usage.sample_tokens} sampled tokens"
    )
    about.append(f"{response.timing_ms.total:.0f} ms")
    console.print(Text(" · ".join(about), style="dim"))


def _samples(response: GenerateResponse) -> Table:
    samples = response.samples or []
    counts = Counter(sample.text.strip() for sample in samples)
    similarity = {sample.text.strip(): sample.similarity for sample in samples}
    numbers = [Column(name, justify="right") for name in ("samples", "similarity")]
    table = Table(*numbers, f"{len(counts)} distinct texts")
    for text, count in counts.most_common():
        table.add_row(str(count), _number(similarity[text]), Text(text or "(empty)"))
    return table


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}"
