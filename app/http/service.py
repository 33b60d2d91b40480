"""The state that all routes share: the scorer, its workers, feedback, keys, metrics and traces."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from app.feedback.collecting import Feedback
from app.http.access import Access
from app.http.labels import to_answer
from app.http.requests.feedback import FeedbackRequest
from app.http.schemas import FeedbackKept
from app.http.telemetry import Telemetry
from app.scoring.ask import Ask, current_caller
from app.scoring.capabilities import Capability, capabilities, unmet
from app.scoring.deployment import models_of
from app.scoring.result import Result
from app.scoring.scorer import Scorer
from app.settings import Settings
from models.errors import FeedbackDisabled, NotReady
from models.records import OnToken
from workers.supervision import Supervisor

if TYPE_CHECKING:
    from app.plugin import Around


@dataclass(eq=False)
class Service:
    """One deployment.

    Attributes:
        feedback: labels; None where none are collected.
        access: keys and their limits; None where no key is needed.
        around: what plugins await each ask within, the later around the earlier.
        reads_texts: whether one of them reads texts of asks and results.
        scorer: None until the workers are loaded.
        git_revision: of the sources; None where it is unknown.
        began_at: seconds since 1970.
    """

    settings: Settings
    supervisor: Supervisor
    telemetry: Telemetry
    feedback: Feedback | None = None
    access: Access | None = None
    around: Sequence["Around"] = ()
    reads_texts: bool = False
    scorer: Scorer | None = None
    git_revision: str | None = None
    began_at: int = field(default_factory=lambda: int(time.time()))

    def ready_scorer(self) -> Scorer:
        """The scorer, once its workers are warm.

        Raises:
            NotReady: models are loading, have died, or are stopping.
        """
        if self.supervisor.state != "ready" or self.scorer is None:
            raise NotReady(f"the service is {self.supervisor.state}")
        return self.scorer

    def capabilities(self) -> dict[str, Capability]:
        """Capabilities of this deployment by name; none until the workers are loaded."""
        if self.scorer is None:
            return {}
        config = self.settings.workers
        return capabilities(config, models_of(self.scorer.workers), self.scorer.calibrator)

    def check_ready(self) -> None:
        self.ready_scorer()
        if self.settings.require_configured:
            for setting, reason in unmet(self.capabilities()).items():
                raise NotReady(f"{setting} is set, and cannot be had: {reason}")

    def tell_served(self) -> None:
        """Set the metrics of the models and capabilities that are served now."""
        if self.scorer is not None:
            self.telemetry.set_models(self.scorer.workers.by_name())
            self.telemetry.set_capabilities(self.capabilities())

    async def run(self, ask: Ask, answer_id: str, on_token: OnToken | None = None) -> Result:
        """The result of `Scorer.run`; its answer can be labelled under this id."""
        scorer = self.ready_scorer()
        return await self._run(ask, answer_id, partial(scorer.run, ask, on_token=on_token))

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
        result = await run()
        if (feedback := self.feedback) is not None:
            feedback.remember(
                lambda: to_answer(result, answer_id, keeps_text=feedback.config.keep_texts)
            )
        return result

    async def keep_label(self, body: FeedbackRequest) -> FeedbackKept:
        """Keep the label that an application gives an answer; returns when it is durable.

        Raises:
            FeedbackDisabled: this deployment collects none.
            CocoaError: as of `Feedback.label`.
        """
        if self.feedback is None:
            settings = "COCOA_FEEDBACK__PATH or COCOA_FEEDBACK__URL"
            raise FeedbackDisabled(f"no labels are collected here: set {settings}")
        namespace = current_caller.get().namespace
        parts = [(unit.named, unit.correct) for unit in body.units or ()]
        await self.feedback.label(body.id, body.as_quality, body.task, namespace, parts)
        kept = FeedbackKept(id=body.id, quality=body.as_quality, task=body.task)
        if parts:
            kept.units = len(parts)
        return kept
