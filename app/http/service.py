"""What all routes share: the scorer, once its workers are loaded, and what goes with it."""

import time

from app.feedback.collecting import Feedback
from app.http.access import Access
from app.http.labels import to_answer
from app.http.telemetry import Telemetry
from app.scoring.ask import Ask
from app.scoring.result import Result
from app.scoring.scorer import Scorer
from models.errors import NotReady
from models.records import OnToken
from workers.supervision import Supervisor


class Service:
    """One deployment.

    Attributes:
        supervisor: of its workers.
        telemetry: its metrics.
        feedback: labels; None where none are collected.
        access: keys and their limits; None where everybody may ask.
        scorer: None until the workers are loaded.
        began_at: seconds since 1970.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        telemetry: Telemetry,
        feedback: Feedback | None = None,
        access: Access | None = None,
    ) -> None:
        self.supervisor = supervisor
        self.telemetry = telemetry
        self.feedback = feedback
        self.access = access
        self.scorer: Scorer | None = None
        self.began_at = int(time.time())

    def ready_scorer(self) -> Scorer:
        """The scorer, once its workers are warm.

        Raises:
            NotReady: models are loading, have died, or are stopping.
        """
        if self.supervisor.state != "ready" or self.scorer is None:
            raise NotReady(f"the service is {self.supervisor.state}")
        return self.scorer

    async def run(self, ask: Ask, answer_id: str, on_token: OnToken | None = None) -> Result:
        """What `Scorer.run` gives; the answer can be labelled under this id.

        Raises:
            CocoaError: as of `Scorer.run` and `ready_scorer`.
        """
        result = await self.ready_scorer().run(ask, on_token=on_token)
        if (feedback := self.feedback) is not None:
            feedback.remember(lambda: to_answer(result, answer_id, keeps_text=feedback.keeps_texts))
        return result
