"""An observer that remembers what it was told."""

from app.scoring.observer import Observer


class Told(Observer):
    """Counts by name and labels, in their order; results and failures as they were."""

    def __init__(self):
        self.counted, self.results, self.failures = [], [], []

    def observe_one(self, counter, *labels, by=1):
        self.counted.append((counter, *labels, by))

    def observe_failure(self, estimator, error):
        self.failures.append((estimator, str(error)))

    def observe_result(self, result):
        self.results.append(result)

    @property
    def lookups(self):
        return [one[1] == "hit" for one in self.counted if one[0] == "cache_lookups"]

    @property
    def num_corrupt(self):
        return sum(one[0] == "cache_corrupt_entries" for one in self.counted)

    @property
    def pairs(self):
        """How many were looked up and found, of each lookup."""
        told = [one[2] for one in self.counted if one[0] == "pairs"]
        return list(zip(told[::2], told[1::2], strict=True))
