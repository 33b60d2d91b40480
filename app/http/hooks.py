"""Hooks of workers in a process that serves HTTP: its metrics, and the request's id and trace."""

from collections.abc import Callable, Mapping, Sequence

from app.http.logs import current_request_id
from app.http.telemetry import Telemetry
from app.scoring.ask import current_caller
from workers.hooks import Hooks


def hooks_of(telemetry: Telemetry, more: Sequence[Callable[[], Mapping[str, str]]]) -> Hooks:
    """Hooks whose calls have these headers, too."""

    def headers() -> Mapping[str, str]:
        sent: dict[str, str] = {}
        if (request_id := current_request_id.get()) is not None:
            sent["X-Request-ID"] = request_id
        for others in more:
            sent |= others()
        return sent

    return Hooks(
        on_step=telemetry.observe_step,
        on_batch=telemetry.observe_batch,
        on_call=telemetry.observe_call,
        on_server=telemetry.set_server,
        headers=headers,
        tenant=lambda: current_caller.get().namespace,
    )
