"""`cocoa doctor`: tries each connection from a gateway to a server that it depends on.

The gateway's clients are used, with its settings, so that they meet the faults that it meets.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Annotated, Any, NamedTuple

import httpx
import typer

from app.cache.connection import FAULTS, Connection, kind_of_fault
from app.cache.protocol import RedisServer
from app.cli.clients import client_of, own_url, told_by
from app.cli.environment import ApiKey, as_url, settings_or_exit
from app.http.responses import weights_of
from app.http.service import meaning
from app.settings import Settings
from models.errors import ModelNotLoaded
from workers.build import connect
from workers.config import Role, WorkerConfig, variable
from workers.hooks import Hooks


def doctor(
    url: Annotated[
        str | None,
        typer.Option(callback=as_url, help="The service. Default: at COCOA_OPS_PORT, COCOA_PORT."),
    ] = None,
    api_key: ApiKey = None,
    patience_s: Annotated[
        float, typer.Option(min=1, help="Seconds that the server of a model is waited for.")
    ] = 15.0,
) -> None:
    """Look at a gateway and all that it depends on, by its settings; 1 if something is wrong.

    A server of others is tried out as at the gateway's start (docs/servers.md).
    """
    logging.getLogger().addHandler(logging.NullHandler())  # faults that clients log are findings
    settings = settings_or_exit()
    is_well = asyncio.run(_print(settings, url or own_url(settings), api_key, patience_s))
    raise typer.Exit(0 if is_well else 1)


async def _print(settings: Settings, url: str, key: str | None, patience_s: float) -> bool:
    is_well = True
    async for finding in examine(settings, url, key, patience_s):
        is_well &= finding.is_well
        verdict = "ok" if finding.is_well else "WRONG"
        typer.echo(f"{verdict:6}{finding.what:11} {finding.words}")
    return is_well


class Finding(NamedTuple):
    """A result of one check."""

    is_well: bool
    what: str
    words: str


async def examine(
    settings: Settings, url: str, key: str | None, patience_s: float
) -> AsyncIterator[Finding]:
    """Findings as they come, none of checks that could not be made."""
    findings, served = await _service(url, key)
    for finding in findings:
        yield finding
    for role in ("generation", "similarity"):
        for finding in await _server(role, settings.workers, patience_s, served):
            yield finding
    for name, config in vars(settings).items():
        if isinstance(config, RedisServer) and (whole_url := config.whole_url()):
            yield await _redis(name, config, whole_url)


async def _service(url: str, key: str | None) -> tuple[list[Finding], dict[str, Any]]:
    try:
        async with client_of(url, key) as client:
            ready, about = await client.get("/readyz"), await client.get("/version")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        words = f"{url}: {meaning(type(error).__name__)}; --url names a service elsewhere"
        return [Finding(False, "service", words)], {}
    told, words = told_by(ready), "is ready"
    if role := told.get("worker"):
        words = f"{url} is a {role} worker, which gateways ask; --url names a service elsewhere"
        return [Finding(False, "service", words)], {}
    is_ready = told.get("status") == "ready"
    if not is_ready:
        words = f"is not ready: {_message_of(ready)}"
    findings = [Finding(is_ready, "service", f"{url} {words}")]
    findings += [Finding(True, "service", detail) for detail in told.get("details", ())]
    if "unmet" not in (served := told_by(about)):
        words = "something else than Cocoa answers there; --url names a service elsewhere"
        if about.status_code in (401, 403):
            words = f"GET /version says {_message_of(about)}: give --api-key, or ask COCOA_OPS_PORT"
        return [*findings, Finding(False, "service", words)], {}
    runs, ours = served["version"], version("cocoa-serve")
    revision = served["git_revision"] or "of an unknown revision"
    words = f"the service is {runs} ({revision}), this command {ours}"
    findings.append(Finding(runs == ours, "version", words))
    for setting, reason in served["unmet"].items():
        findings.append(Finding(False, "settings", f"{setting} cannot be had: {reason}"))
    if served["model"] is not None:
        calibrator = (served["calibrator"] or {}).get("id", "none is served")
        findings.append(Finding(True, "calibrator", calibrator))
        findings.append(Finding(True, "probes", ", ".join(served["probes"]) or "none is read"))
    return findings, served


async def _server(
    role: Role, config: WorkerConfig, patience_s: float, served: dict[str, Any]
) -> list[Finding]:
    """Findings on the server of one model: that it answers, and holds the served model."""
    group = config.generation if role == "generation" else config.similarity
    if not group.url:
        if not served.get("model"):
            return []
        return [Finding(True, role, "the service holds the model itself, and serves it")]
    try:
        trouble, workers = await _tried(role, config, patience_s)
    except ModelNotLoaded as error:
        return [Finding(False, role, str(error))]
    if not workers:
        return [Finding(False, role, f"{group.base_url}: {meaning(trouble)}")]
    findings = [Finding(True, role, f"{group.base_url} answers")]
    await workers[0].close()
    if role == "generation":  # capabilities of a server of others, as it was tried out
        for name, value in workers[0].info.capabilities.items():
            if value is None:
                value = "-"
            findings.append(Finding(True, "server", f"{name:26}{value}"))
    return [*findings, *_identities(role, workers, served)]


async def _tried(role: Role, config: WorkerConfig, patience_s: float) -> tuple[str, Sequence[Any]]:
    """The trouble with the server, and workers over it; none while it is not well."""
    trouble = "it does not answer"

    def on_server(role: Role, url: str, found: str) -> None:
        nonlocal trouble
        trouble = found

    workers: Sequence[Any] = ()
    with suppress(TimeoutError):
        async with asyncio.timeout(patience_s):
            workers = await connect(role, config, Hooks(on_server=on_server))
    return trouble, workers


def _identities(role: Role, workers: Sequence[Any], served: dict[str, Any]) -> list[Finding]:
    findings: list[Finding] = []
    shown = [served.get("model"), *served.get("similarity_models", {}).values()]
    if not any(shown):  # the service did not answer
        return findings
    models = {worker.info.model_id: weights_of(worker.info) for worker in workers}
    for model in models.values():
        if model["revision"] is None:  # a function of two texts
            continue
        words, is_served = f"{role}: {model['id']}, revision {model['revision']}", True
        if model not in shown:
            words, is_served = f"{words}, and the service serves another one", False
        findings.append(Finding(is_served, "identity", words))
    return findings


async def _redis(name: str, config: RedisServer, url: str) -> Finding:
    """The finding on a Redis: that it can be written."""
    connection = Connection(url, config.ca_file)
    try:
        key = f"{getattr(config, 'namespace', 'cocoa')}:probe"
        await connection.execute([("SET", key, b"", "EX", 1)])
        return Finding(True, "redis", f"{variable(f'{name}.url')} answers, and can be written")
    except FAULTS as error:
        words = f"{variable(f'{name}.url')}: {meaning(kind_of_fault(error))}"
        return Finding(False, "redis", words)
    finally:
        await connection.close()


def _message_of(response: httpx.Response) -> str:
    with suppress(ValueError, LookupError, TypeError):
        return str(response.json()["error"]["message"])
    return f"status {response.status_code}"
