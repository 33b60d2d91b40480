"""The seam to metrics: told what happens while asks are scored."""

from app.scoring.result import Result


class Observer:
    """Ignores everything; metrics override what they count."""

    def observe_lookup(self, hit: bool) -> None:
        """An ask's statistics were looked up in the cache."""

    def observe_corrupt(self) -> None:
        """An entry of the cache was not what was stored under its name."""

    def observe_joined(self) -> None:
        """An ask shares the work of an identical one under way."""

    def observe_pairs(self, asked: int, cached: int) -> None:
        """Distinct pairs of one ask were looked up, and that many were found."""

    def observe_failure(self, estimator: str, error: Exception) -> None:
        """An estimator failed on what it was given; its score is null, the others are served."""

    def observe_result(self, result: Result) -> None:
        """An ask has its result."""

    def observe_shift(self, group: str, estimator: str, shift: float) -> None:
        """The latest scores lie so far from the calibration's; above 1 it is more than chance."""
