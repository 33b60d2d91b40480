"""`cocoa size`: how many pods a traffic wants, by costs that were measured."""

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.environment import ApiKey, as_url, settings_or_exit

if TYPE_CHECKING:
    from app.cli.sizing import Part, Row, Traffic


def size(
    rate: Annotated[float, typer.Option(min=0, help="Requests per second at the peak.")] = 1.0,
    mix: Annotated[
        str, typer.Option(help="Shares of full and light requests and of those from the cache.")
    ] = "full:1",
    samples: Annotated[float, typer.Option(min=0, max=64, help="M of a full request.")] = 10.0,
    prompt_tokens: Annotated[int, typer.Option(min=1, help="Of a request.")] = 64,
    answer_tokens: Annotated[
        int, typer.Option(min=1, help="Of a request; a sample is as long.")
    ] = 32,
    distinct: Annotated[
        float, typer.Option(min=0, max=1, help="Share of samples unlike the answer and each other.")
    ] = 1.0,
    further_pairs: Annotated[
        float, typer.Option(min=0, help="Of a full request, such as for estimators that ask NLI.")
    ] = 0.0,
    generation: Annotated[
        str | None, typer.Option(help="Row of the language model; by default the first one.")
    ] = None,
    similarity: Annotated[
        str | None, typer.Option(help="Row of the similarity model; by default the first one.")
    ] = None,
    costs: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Rows before the shipped ones.")
    ] = None,
    cpus: Annotated[float, typer.Option(min=0.1, help="Of a worker's pod.")] = 1.0,
    busy: Annotated[
        float, typer.Option(min=0.05, max=1, help="Share of the time that a device may be busy.")
    ] = 0.7,
    values: Annotated[bool, typer.Option(help="Print nothing but values for the chart.")] = False,
    measure: Annotated[
        str | None,
        typer.Option(callback=as_url, help="Print the rows of a running service, and leave."),
    ] = None,
    api_key: ApiKey = None,
    seconds: Annotated[float, typer.Option(min=1, help="Of each of eleven blocks of load.")] = 10.0,
    clients: Annotated[int, typer.Option(min=1, help="That send it.")] = 4,
) -> None:
    """Pods, memory and values of the chart for a traffic (docs/deploy.md, "Sizes")."""
    from app.cli.sizing import SHIPPED, CostsInvalid, Traffic, chosen_row, mix_of, rows_in

    if not all(map(isfinite, (rate, samples, distinct, further_pairs, cpus, busy, seconds))):
        raise typer.BadParameter("numbers must be finite")
    try:
        shares = mix_of(mix)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--mix") from None
    traffic = Traffic(rate, shares, samples, prompt_tokens, answer_tokens, distinct, further_pairs)
    if measure is not None:
        _measure(measure, api_key, traffic, seconds, clients)
        return
    try:
        known = rows_in(SHIPPED.read_text(encoding="utf-8"))
        for part, rows in rows_in(costs.read_text(encoding="utf-8") if costs else "").items():
            known[part] = rows | known[part]
        names: dict[Part, str | None] = {
            "gateway": None,
            "generation": generation,
            "similarity": similarity,
        }
        chosen = {part: chosen_row(known[part], name) for part, name in names.items()}
    except (CostsInvalid, UnicodeDecodeError) as error:
        typer.echo(f"costs: {error}", err=True)
        raise typer.Exit(2) from None
    _tell(traffic, chosen, cpus, busy, only_values=values)


def _measure(url: str, key: str | None, traffic: "Traffic", seconds: float, clients: int) -> None:
    import asyncio

    from app.cli.doctor import own_url
    from app.cli.measuring import NotMeasured, measure

    settings = settings_or_exit()
    urls = url, url if settings.ops_port is None else own_url(settings)
    work = measure(settings, urls, key, traffic, seconds=seconds, num_clients=clients)
    try:
        typer.echo(asyncio.run(work))
    except NotMeasured as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


def _tell(
    traffic: "Traffic", rows: "dict[Part, Row]", cpus: float, busy: float, *, only_values: bool
) -> None:
    import json

    from rich.console import Console
    from rich.table import Table

    from app.cli import sizing

    needs = sizing.needs_of(traffic, rows, cpus, busy)
    values = json.dumps(sizing.chart_values(needs), indent=2)
    if only_values:
        typer.echo(values)
        return
    table = Table("", "seconds a request", "a pod serves", "pods", "memory", "measured")
    for part, need in needs.items():
        memory = f"{need.pods} of {need.memory_mb:,.0f} MB" if need.memory_mb else "not measured"
        rate = f"{need.pod_rate:.3g}/s"
        table.add_row(part, f"{need.seconds:.3g}", rate, str(need.pods), memory, need.row.measured)
    console = Console()
    console.print(table)
    at_once = sizing.requests_at_once(traffic)
    lines = [f"Bottleneck: {sizing.bottleneck(needs)}."]
    if at_once < 1:
        lines.append("One full request exceeds generation.maxRows or .maxCacheTokens of a worker.")
    else:
        lines.append(f"A worker of ours decodes {at_once} full requests at once.")
    for words, other in sizing.savings(traffic).items():
        saved = sizing.needs_of(other, rows, cpus, busy)
        pods = ", ".join(f"{part} {need.pods}" for part, need in saved.items())
        shares = ", ".join(
            f"{part} {saved[part].seconds / need.seconds - 1:+.0%}"
            for part, need in needs.items()
            if need.seconds
        )
        lines.append(f"With {words}: {pods} (work: {shares}).")
    console.print("\n".join(lines), highlight=False)
    console.print("Values for the chart:", values, highlight=False, sep="\n")
