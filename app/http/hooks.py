"""What workers are tied to in a process that serves HTTP: its metrics, and the request's id."""

from app.http.logs import current_request_id
from app.http.telemetry import Telemetry
from workers.hooks import Hooks


def hooks_of(telemetry: Telemetry) -> Hooks:
    """Hooks that count on these metrics."""
    return Hooks(
        on_step=telemetry.observe_step,
        on_batch=telemetry.observe_batch,
        on_call=telemetry.observe_call,
        request_id=current_request_id.get,
    )
