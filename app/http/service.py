"""The state that all routes share: the scorer, its workers, keys and metrics."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from app.http.access import Access
from app.http.telemetry import Telemetry
from app.scoring.ask import Ask
from app.scoring.capabilities import Capability
from app.scoring.result import Result
from app.scoring.scorer import Scorer
from app.settings import Settings
from models.errors import NotReady
from models.records import OnToken
from workers.config import Role
from workers.supervision import Supervisor

if TYPE_CHECKING:
    from app.plugin import Around

# What the reasons of faults mean to somebody who looks for the fault.
_NOBODY = "nobody listens there, the name is unknown or its certificate not trusted"
_MEANS = {
    "no connection can be made": _NOBODY,
    "ConnectError": _NOBODY,  # of httpx, which asks a service
    "no connection is answered": "a network policy, or a host that is gone",
    "it ends connections": "TLS on one side only, or another protocol",
    "it speaks no HTTP": "TLS on one side only, or another protocol",
    "it wants another key": "set the api_key of this server",
    "it does not answer": "something listens and hangs, or its model is not loaded yet",
    "authentication refused": "set its password",
    "unreachable": "nobody listens there, or the name is unknown",
    "TLS failed": "rediss:// and redis:// are mixed up, or the authority is another one",
}


@dataclass(eq=False)
class Service:
    """One deployment."""

    settings: Settings
    supervisor: Supervisor
    telemetry: Telemetry
    access: Access | None = None  # keys and their limits; None where no key is needed
    # What plugins await each ask within, the later around the earlier.
    around: Sequence["Around"] = ()
    reads_texts: bool = False  # whether one of them reads texts of asks and results
    scorer: Scorer | None = None  # None until the workers are loaded
    git_revision: str | None = None  # of the sources; None where it is unknown
    began_at: int = field(default_factory=lambda: int(time.time()))  # seconds since 1970
    # What is wrong with the server of each model, by its latest check; "" where it is well.
    troubles: dict[Role, str] = field(default_factory=dict)

    def ready_scorer(self) -> Scorer:
        """The scorer, once its workers are warm.

        Raises:
            NotReady: models are loading, have died, or are stopping.
        """
        if self.supervisor.state != "ready" or self.scorer is None:
            raise NotReady(self._state())
        return self.scorer

    def _state(self) -> str:
        words = f"the service is {self.supervisor.state}"
        for role, trouble in self.troubles.items():
            if trouble:
                words += f"; it waits for the server of {role}: {meaning(trouble)}"
        return words

    def set_server(self, role: Role, url: str, trouble: str) -> None:
        self.troubles[role] = trouble
        self.telemetry.set_server(role, url, trouble)

    def capabilities(self) -> dict[str, Capability]:
        """Capabilities of this deployment by name; none until the workers are loaded."""
        if self.scorer is None:
            return {}
        return self.scorer.capabilities(self.settings.workers)

    def unmet(self) -> dict[str, str]:
        """Why a requested capability is not available, by the variable that requests it."""
        capabilities = self.capabilities().values()
        return {one.setting: one.lacks for one in capabilities if one.setting and one.lacks}

    def check_ready(self) -> None:
        self.ready_scorer()
        if self.settings.require_configured:
            for setting, reason in self.unmet().items():
                raise NotReady(f"{setting} is set, and cannot be had: {reason}")

    def tell_served(self) -> None:
        """Set the metrics of the models and capabilities that are served now."""
        if self.scorer is not None:
            self.telemetry.set_models(self.scorer.workers.by_name())
            self.telemetry.set_capabilities(self.capabilities())

    async def run(self, ask: Ask, answer_id: str, on_token: OnToken | None = None) -> Result:
        """The result of `Scorer.run`; its answer can be labelled under this id."""
        ask = replace(ask, timeout_s=self.deadline_s(ask.timeout_s))
        return await self._run(ask, answer_id, partial(self.ready_scorer().run, ask, on_token))

    def deadline_s(self, wanted_s: float | None) -> float:
        """Seconds within which a result is of use: those that are wanted, or by the settings."""
        return wanted_s or self.settings.limits.timeout_s

    async def again(self, earlier: Result, entry: bytes, answer_id: str) -> Result | None:
        """The result of `Scorer.again`; None where the cache no longer has the same entry."""
        began_at, scorer = time.monotonic(), self.ready_scorer()
        if scorer.memory is None or not await scorer.memory.holds(earlier.name, entry):
            return None
        return await self._run(earlier.ask, answer_id, partial(scorer.again, earlier, began_at))

    async def _run(self, ask: Ask, answer_id: str, run: Callable[[], Awaitable[Result]]) -> Result:
        for around in self.around:
            model = self.ready_scorer().workers.generator.info.model_id
            run = partial(around, ask, model, answer_id, run)
        return await run()


def meaning(reason: str) -> str:
    """A reason as in the log, and what it means."""
    if means := _MEANS.get(reason.partition(":")[0]):
        return f"{reason} ({means})"
    return reason
