"""Prometheus metrics of one gateway, on a registry of its own; labels come from fixed sets only."""

from collections.abc import Callable, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from app.schemas import Timing
from models.records import Generation

# 5 ms to 2 minutes: from a cached answer to the slowest that a deadline leaves room for.
_LATENCY_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
# Scores spread over decades, sure answers near 0: 1, 2, 5 per decade from 1e-5 to 500 nats.
_SCORES = tuple(float(f"{digit}e{exponent}") for exponent in range(-5, 3) for digit in (1, 2, 5))
_CONSISTENCIES = tuple(round(0.05 * step, 2) for step in range(21))

SCORE_NAMES = (
    "cocoa_sp",
    "cocoa_ppl",
    "cocoa_mte",
    "cocoa_sp_light",
    "cocoa_ppl_light",
    "cocoa_mte_light",
)
CONSISTENCY_NAMES = ("consistency", "consistency_light")
STAGES = tuple(
    stage for stage in Timing.model_fields if stage != "total"
)  # request_seconds has the total


class Telemetry:
    """Counters and histograms; nothing here ever sees a prompt, an answer or a key.

    Children of every fixed label set exist from the start, so that `rate` sees the first event as a
    step from 0.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._counter(
            "requests", "HTTP requests by route and status.", ["route", "status"]
        )
        self.errors = self._counter("errors", "Typed errors by code.", ["code"])
        self.joined = self._counter(
            "joined_requests", "Requests that shared the work of an identical one."
        )
        self.tokens = self._counter(
            "tokens", "Tokens by kind.", ["kind"], ("prompt", "answer", "sample")
        )
        self.samples = self._counter("samples", "Samples of scored answers.")
        self.distinct_samples = self._counter(
            "distinct_samples", "Different texts among the samples of each answer."
        )
        self.pairs = self._counter(
            "pairs", "Text pairs by kind.", ["kind"], ("asked", "cached", "computed")
        )
        self.lookups = self._counter(
            "cache_lookups", "Statistics looked up.", ["result"], ("hit", "miss")
        )
        self.breaker_openings = self._counter(
            "cache_breaker_openings", "Times that the cache was given up for a while."
        )
        self.probe_readings = self._counter(
            "probe_readings", "Answers read by a probe.", ["domain"], ("in", "out")
        )
        self.missing_scores = self._counter(
            "missing_scores",
            "Scores without a value.",
            ["estimator"],
            SCORE_NAMES + CONSISTENCY_NAMES,
        )
        self.request_seconds = self._histogram(
            "request_seconds", "HTTP latency.", ["route"], _LATENCY_S
        )
        self.stage_seconds = self._histogram(
            "stage_seconds", "Latency by stage.", ["stage"], _LATENCY_S, STAGES
        )
        self.batch_rows = self._histogram(
            "decode_batch_rows", "Rows decoded in one step.", [], _SIZES
        )
        self.batch_pairs = self._histogram(
            "similarity_batch_pairs", "Pairs scored in one call.", [], _SIZES
        )
        self.scores = self._histogram(
            "score_nats", "CoCoA scores; higher is less sure.", ["estimator"], _SCORES, SCORE_NAMES
        )
        self.consistency = self._histogram(
            "consistency",
            "Dissimilarity of an answer to its samples, drawn or predicted.",
            ["estimator"],
            _CONSISTENCIES,
            CONSISTENCY_NAMES,
        )
        self.running_rows = self._gauge("running_rows", "Rows of the last decoding step.")
        self.ready = self._gauge("ready", "1 while requests are accepted.")
        self.admitted = self._gauge("admitted_requests", "Requests under way.")
        self.admission_limit = self._gauge(
            "admission_limit_requests", "Requests under way before one is refused."
        )
        self.waiting = self._gauge("waiting_requests", "Admitted requests without a token.")
        self.breaker_open = self._gauge("cache_breaker_open", "1 while the cache is not asked.")

    def observe_generation(self, generation: Generation, timing: Timing) -> None:
        """Tokens and stages of one answer that was computed."""
        self.tokens.labels("prompt").inc(generation.prompt_tokens)
        self.tokens.labels("answer").inc(len(generation.answer.token_ids))
        self.tokens.labels("sample").inc(
            sum(len(sample.token_ids) for sample in generation.samples)
        )
        for stage in STAGES:
            if (milliseconds := getattr(timing, stage)) is not None:
                self.stage_seconds.labels(stage).observe(milliseconds / 1000)

    def observe_samples(self, num: int, num_distinct: int) -> None:
        """Samples of one served answer, and how many of them differ."""
        self.samples.inc(num)
        self.distinct_samples.inc(num_distinct)

    def observe_scores(self, scores: Mapping[str, float | None]) -> None:
        """The scores of one served answer; estimators without a histogram are ignored."""
        for histogram, names in ((self.scores, SCORE_NAMES), (self.consistency, CONSISTENCY_NAMES)):
            for name in names:
                if (value := scores.get(name)) is not None:
                    histogram.labels(name).observe(value)
                elif name in scores:
                    self.missing_scores.labels(name).inc()

    def observe_probe(self, out_of_domain: bool) -> None:
        """One answer read by a probe, and whether it lies outside what the probe was trained on."""
        self.probe_readings.labels("out" if out_of_domain else "in").inc()

    def observe_lookup(self, hit: bool) -> None:
        """One request's statistics looked up in the cache."""
        self.lookups.labels("hit" if hit else "miss").inc()

    def observe_joined(self) -> None:
        """One request that joined an identical one under way."""
        self.joined.inc()

    def observe_pairs(self, asked: int, cached: int) -> None:
        """Distinct pairs that one request asked for, and those of them found in the cache."""
        self.pairs.labels("asked").inc(asked)
        self.pairs.labels("cached").inc(cached)

    def observe_batch(self, num_pairs: int) -> None:
        """One call of a pair model."""
        self.batch_pairs.observe(num_pairs)
        self.pairs.labels("computed").inc(num_pairs)

    def set_breaker(self, open: bool) -> None:
        """Told at each change of whether the cache is given up for now."""
        self.breaker_open.set(open)
        if open:
            self.breaker_openings.inc()

    def observe_step(self, num_rows: int) -> None:
        """One decoding step; 0 when the batch has run empty."""
        self.running_rows.set(num_rows)
        if num_rows:
            self.batch_rows.observe(num_rows)

    def read_gauges(
        self,
        ready: Callable[[], float],
        admitted: Callable[[], float],
        waiting: Callable[[], float],
    ) -> None:
        """Take these gauges from their owners whenever they are scraped."""
        self.ready.set_function(ready)
        self.admitted.set_function(admitted)
        self.waiting.set_function(waiting)

    def exposition(self) -> bytes:
        """The text that Prometheus scrapes."""
        return generate_latest(self.registry)

    def _counter(
        self, name: str, text: str, labels: Sequence[str] = (), values: Sequence[str] = ()
    ) -> Counter:
        counter = Counter(f"cocoa_{name}", text, labels, registry=self.registry)
        for value in values:
            counter.labels(value)
        return counter

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"cocoa_{name}", text, registry=self.registry)

    def _histogram(
        self,
        name: str,
        text: str,
        labels: Sequence[str],
        buckets: Sequence[float],
        values: Sequence[str] = (),
    ) -> Histogram:
        histogram = Histogram(
            f"cocoa_{name}", text, labels, buckets=buckets, registry=self.registry
        )
        for value in values:
            histogram.labels(value)
        return histogram
