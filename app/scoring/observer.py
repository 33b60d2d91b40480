"""The interface to metrics: called at each event while asks are scored."""

from app.scoring.result import Result


class Observer:
    """Ignores everything; metrics override what they count."""

    def observe_one(self, counter: str, *labels: str, by: float = 1) -> None:
        """Count an event in a counter of `app.http.metrics`, once or `by` times."""

    def observe_failure(self, estimator: str, error: Exception) -> None:
        """An estimator failed on its input; its score is null, the others are served."""

    def observe_result(self, result: Result) -> None:
        """An ask has its result."""

    def observe_shift(self, group: str, estimator: str, shift: float) -> None:
        """The latest scores lie so far from the calibration's; above 1 it is more than chance."""
