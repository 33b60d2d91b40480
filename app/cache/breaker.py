"""Whether Redis is asked at all, and what of that is news.

Pure: time and faults come in from the caller.
"""

import math
from typing import Literal

# A fault after so much calm may be the event loop's own delay: one probe decides, at once and in
# silence.
_CALM_S = 30.0
_PROBE_EVERY_S = 1.0


class Breaker:
    """Open at the first fault and until a probe succeeds; suspected, not yet known, at the start.

    Attributes:
        state: "suspect" and "open" both ask nothing of Redis; only "open" is known to be a fault
            and reported.
    """

    def __init__(self) -> None:
        self.state: Literal["closed", "suspect", "open"] = "suspect"
        self._failed_at = -math.inf

    @property
    def is_open(self) -> bool:
        """Whether every lookup is a miss and nothing is stored."""
        return self.state != "closed"

    @property
    def pause_s(self) -> float:
        """Seconds to wait before the next probe."""
        return _PROBE_EVERY_S if self.state == "open" else 0.0

    def fail(self, now: float) -> bool:
        """An operation or a probe has failed; whether this is to be reported."""
        before, calm = self.state, now - self._failed_at >= _CALM_S
        self.state = "suspect" if before == "closed" and calm else "open"
        self._failed_at = now
        return self.state == "open" and before != "open"

    def succeed(self) -> bool:
        """A probe has succeeded; whether this is to be reported."""
        before, self.state = self.state, "closed"
        return before == "open"
