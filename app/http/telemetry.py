"""Prometheus metrics of one gateway, on a registry of its own; labels come from fixed sets only."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from app.cache.breaker import State
from app.feedback.collecting import AnswerOutcome, LabelOutcome
from app.http.logs import places_of
from app.keys.buckets import LIMITS, LimitName
from app.scoring.observer import Observer
from app.scoring.result import STAGES, Result
from workers.config import Role
from workers.hooks import Outcome

logger = logging.getLogger(__name__)
Params = ParamSpec("Params")

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
    "rb_cocoa_sp",
    "rb_cocoa_ppl",
    "rb_cocoa_mte",
)
CONSISTENCY_NAMES = ("consistency", "consistency_light", "rb_consistency")


def _harmless(
    observe: "Callable[Concatenate[Telemetry, Params], None]",
) -> "Callable[Concatenate[Telemetry, Params], None]":
    """Have an observation that raises counted, and what was observed go on."""

    @wraps(observe)
    def observed(self: "Telemetry", /, *args: Params.args, **kwargs: Params.kwargs) -> None:
        try:
            observe(self, *args, **kwargs)
        except Exception as error:
            self.fail(observe.__name__, error)

    return observed


class Telemetry(Observer):
    """Counters and histograms; nothing here ever sees a prompt, an answer or a key.

    A metric that raises is counted, logged once, and left out: it fails no request, and no other
    metric.

    Children of every fixed label set exist from the start, so that `rate` sees the first event as a
    step from 0.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._collectors: list[Counter | Gauge | Histogram] = []
        self._failed: set[str] = set()
        self.metric_failures = Counter(
            "cocoa_metric_failures",
            "Times that a metric could not be told or exposed.",
            registry=self.registry,
        )
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
        self.corrupt_entries = self._counter(
            "cache_corrupt_entries", "Entries that were not what was stored under their names."
        )
        self.breaker_openings = self._counter(
            "cache_breaker_openings", "Times that the cache was given up for a while."
        )
        self.redis_suspicions = self._counter(
            "redis_suspicions",
            "Exchanges with Redis that failed or were late after a calm; a probe decides.",
            ["use"],
            ("cache", "limits"),
        )
        self.worker_calls = self._counter(
            "worker_calls",
            "Calls of workers in other processes; a typed error is an answer, too.",
            ["worker", "outcome"],
        )
        self.worker_call_seconds = self._histogram(
            "worker_call_seconds", "Calls of workers in other processes.", ["worker"], _LATENCY_S
        )
        for worker in get_args(Role):
            self.worker_call_seconds.labels(worker)
            for outcome in get_args(Outcome):
                self.worker_calls.labels(worker, outcome)
        self.probe_readings = self._counter(
            "probe_readings", "Answers read by a probe.", ["domain"], ("in", "out")
        )
        self.closed_connections = self._counter(
            "closed_connections",
            "Connections that were closed before their clients wanted that.",
            ["reason"],
            ("slow_request", "slow_reader", "evicted", "refused"),
        )
        self.lost_log_lines = self._counter(
            "lost_log_lines", "Lines of the log that could not be written."
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
        self.first_token_seconds = self._histogram(
            "first_token_seconds",
            "From a request to the first token of its stream.",
            ["route"],
            _LATENCY_S,
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
            "Dissimilarity of an answer to its samples, drawn, weighed or predicted.",
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
        self.calibration_shift = self._gauge(
            "calibration_shift_ratio",
            "Distance of the latest scores from those of the calibration, 0 to 1.",
            ["group", "estimator"],
        )
        # From 0, as before a window of scores is full, so that a dashboard knows it.
        self.calibration_shift.labels("all", "rb_cocoa_sp").set(0)
        self.decisions = self._counter(
            "decisions",
            "Answers that were asked to keep a target error.",
            ["outcome"],
            ("accepted", "given", "held_back", "escalated", "escalation_failed"),
        )
        self.feedback_answers = self._counter(
            "feedback_answers", "Answers for labels to come.", ["outcome"], ("remembered", "lost")
        )
        self.feedback_labels = self._counter(
            "feedback_labels", "Labels.", ["outcome"], ("kept", "unknown", "failed")
        )
        self.breaker_open = self._gauge("cache_breaker_open", "1 while the cache is not asked.")
        self.key_requests = self._counter(
            "key_requests", "Requests by the name of their key.", ["key"]
        )
        self.key_tokens = self._counter(
            "key_tokens", "Tokens that were computed, by the name of the key.", ["key"]
        )
        self.key_refusals = self._counter(
            "key_refusals", "Requests beyond a limit of their key.", ["key", "limit"]
        )
        self.keys = self._gauge("keys", "Keys that are good.")
        self.keys_broken = self._gauge(
            "keys_file_broken", "1 while the file of keys cannot be used, and the earlier ones are."
        )
        self.limits_breaker_open = self._gauge(
            "key_limits_breaker_open", "1 while limits of keys are those of this process alone."
        )

    @_harmless
    def observe_request(self, route: str, status: int, seconds: float) -> None:
        """One response over HTTP."""
        self.requests.labels(route, str(status)).inc()
        self.request_seconds.labels(route).observe(seconds)

    @_harmless
    def observe_first_token(self, route: str, seconds: float) -> None:
        """The first token of one stream."""
        self.first_token_seconds.labels(route).observe(seconds)

    @_harmless
    def observe_error(self, code: str) -> None:
        """One typed error."""
        self.errors.labels(code).inc()

    @_harmless
    def observe_closed(self, reason: str) -> None:
        """One connection that was closed before its client wanted that."""
        self.closed_connections.labels(reason).inc()

    @_harmless
    def observe_lost_line(self) -> None:
        """One line of the log that could not be written."""
        self.lost_log_lines.inc()

    @_harmless
    def observe_result(self, result: Result) -> None:
        """One served answer: its samples, its scores, its probe, and what computing it cost."""
        if result.source == "computed":  # whoever joined cost nothing
            self._observe_work(result)
        self.samples.inc(len(result.evidence.subject.samples))
        self.distinct_samples.inc(result.num_distinct_samples)
        self._observe_scores(result.scores)
        if (outcome := result.outcome) is not None:
            self.decisions.labels(outcome).inc()
        if result.probe is not None:
            _, reading = result.probe
            self.probe_readings.labels("out" if reading.out_of_domain else "in").inc()

    @_harmless
    def observe_failure(self, estimator: str, error: Exception) -> None:
        """One score that is null for a defect of its estimator; its error's text may quote."""
        places = " > ".join(places_of(error)) or "an unknown place"
        logger.error("estimator %s failed: %s at %s", estimator, type(error).__name__, places)

    @_harmless
    def observe_shift(self, group: str, estimator: str, distance: float) -> None:
        """How far the latest scores lie from the reference of their calibration."""
        self.calibration_shift.labels(group, estimator).set(distance)

    @_harmless
    def observe_remembered(self, outcome: AnswerOutcome) -> None:
        """One served answer that can be labelled, or no longer can before its time."""
        self.feedback_answers.labels(outcome).inc()

    @_harmless
    def observe_label(self, outcome: LabelOutcome) -> None:
        """What became of one label."""
        self.feedback_labels.labels(outcome).inc()

    @_harmless
    def observe_lookup(self, hit: bool) -> None:
        """One request's statistics looked up in the cache."""
        self.lookups.labels("hit" if hit else "miss").inc()

    @_harmless
    def observe_corrupt(self) -> None:
        """One entry of the cache that was not what was stored under its name."""
        self.corrupt_entries.inc()

    @_harmless
    def observe_joined(self) -> None:
        """One request that joined an identical one under way."""
        self.joined.inc()

    @_harmless
    def observe_pairs(self, asked: int, cached: int) -> None:
        """Distinct pairs that one request asked for, and those of them found in the cache."""
        self.pairs.labels("asked").inc(asked)
        self.pairs.labels("cached").inc(cached)

    @_harmless
    def observe_batch(self, num_pairs: int) -> None:
        """One call of a pair model."""
        self.batch_pairs.observe(num_pairs)
        self.pairs.labels("computed").inc(num_pairs)

    @_harmless
    def observe_call(self, worker: Role, outcome: Outcome, seconds: float) -> None:
        """One call of a worker in another process."""
        self.worker_calls.labels(worker, outcome).inc()
        self.worker_call_seconds.labels(worker).observe(seconds)

    @_harmless
    def set_breaker(self, state: State) -> None:
        """Told at each change of whether the cache is asked."""
        self.breaker_open.set(state == "open")
        if state == "open":
            self.breaker_openings.inc()
        elif state == "suspect":
            self.redis_suspicions.labels("cache").inc()

    @_harmless
    def set_keys(self, names: Sequence[str]) -> None:
        """Told at the start and at each change of which keys there are."""
        self.keys.set(len(names))
        for name in names:
            self.key_requests.labels(name)
            self.key_tokens.labels(name)
            for limit in LIMITS:
                self.key_refusals.labels(name, limit)

    @_harmless
    def set_keys_broken(self, broken: bool) -> None:
        """Told at each change of the file of keys whether it cannot be used."""
        self.keys_broken.set(broken)

    @_harmless
    def observe_key(self, name: str) -> None:
        """One request with a key that is good."""
        self.key_requests.labels(name).inc()

    @_harmless
    def observe_charge(self, name: str, tokens: int) -> None:
        """What was computed for one key."""
        self.key_tokens.labels(name).inc(tokens)

    @_harmless
    def observe_refusal(self, name: str, limit: LimitName) -> None:
        """One request beyond a limit of its key."""
        self.key_refusals.labels(name, limit).inc()

    @_harmless
    def set_limits_breaker(self, state: State) -> None:
        """Told at each change of whether limits are shared."""
        self.limits_breaker_open.set(state == "open")
        if state == "suspect":
            self.redis_suspicions.labels("limits").inc()

    @_harmless
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
        """The text that Prometheus scrapes, of every metric that can be read."""
        texts = []
        for collector in self._collectors:
            try:
                texts.append(generate_latest(collector))
            except Exception as error:
                self.fail(collector._name, error)
        return b"".join([*texts, generate_latest(self.metric_failures)])

    def fail(self, name: str, error: Exception) -> None:
        """Count a metric that raises; the log gets type and place of the first time."""
        self.metric_failures.inc()
        if name not in self._failed:
            self._failed.add(name)
            logger.error("a metric cannot be told: %s", name, exc_info=error)

    def _observe_work(self, result: Result) -> None:
        """Tokens and stages of one answer that was computed."""
        if (generation := result.generation) is not None:
            sampled = sum(sample.num_tokens for sample in generation.samples)
            self.tokens.labels("prompt").inc(generation.prompt_tokens)
            self.tokens.labels("answer").inc(generation.answer.num_tokens)
            self.tokens.labels("sample").inc(sampled)
        for stage, seconds in result.stage_s.items():
            self.stage_seconds.labels(stage).observe(seconds)

    def _observe_scores(self, scores: Mapping[str, float | None]) -> None:
        """The scores of one served answer; estimators without a histogram are ignored."""
        for histogram, names in ((self.scores, SCORE_NAMES), (self.consistency, CONSISTENCY_NAMES)):
            for name in names:
                if (value := scores.get(name)) is not None:
                    histogram.labels(name).observe(value)
                elif name in scores:
                    self.missing_scores.labels(name).inc()

    def _counter(
        self, name: str, text: str, labels: Sequence[str] = (), values: Sequence[str] = ()
    ) -> Counter:
        counter = Counter(f"cocoa_{name}", text, labels, registry=self.registry)
        self._collectors.append(counter)
        for value in values:
            counter.labels(value)
        return counter

    def _gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
        gauge = Gauge(f"cocoa_{name}", text, labels, registry=self.registry)
        self._collectors.append(gauge)
        return gauge

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
        self._collectors.append(histogram)
        for value in values:
            histogram.labels(value)
        return histogram


_: type[Observer] = Telemetry  # mypy holds the class to its protocol
