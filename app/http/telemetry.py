"""Prometheus metrics of one process; labels come from fixed sets only.

Nothing here ever sees a prompt, an answer or a key.
"""

import logging
from collections.abc import Callable, Sequence
from functools import wraps
from itertools import product
from typing import Any, NamedTuple, TypeVar, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from app.cache.breaker import State
from app.feedback.collecting import AnswerOutcome, LabelOutcome
from app.http.logs import places_of
from app.keys.buckets import LIMITS, LimitName
from app.scoring import result as results
from app.scoring.observer import Observer
from app.scoring.result import STAGES, Result
from workers.config import Role
from workers.hooks import Outcome

logger = logging.getLogger(__name__)
Write = Callable[[Any], bytes]
Kind = TypeVar("Kind", Counter, Gauge, Histogram)

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


class _Row(NamedTuple):
    """One metric.

    Attributes:
        text: its help.
        labels: their names.
        values: of each label; children exist from the start, as `rate` needs a step from 0.
        buckets: of a histogram.
    """

    text: str
    labels: Sequence[str] = ()
    values: Sequence[Sequence[str]] = ()
    buckets: Sequence[float] = ()


_COUNTERS = {
    # HTTP
    "requests": _Row("HTTP requests by route and status.", ["route", "status"]),
    "errors": _Row("Typed errors by code.", ["code"]),
    "closed_connections": _Row(
        "Connections closed before their clients wanted that.",
        ["reason"],
        [("slow_request", "slow_reader", "evicted", "refused")],
    ),
    "lost_log_lines": _Row("Lines of the log that could not be written."),
    # the core
    "joined_requests": _Row("Requests that shared the work of an identical one."),
    "tokens": _Row("Tokens by kind.", ["kind"], [("prompt", "answer", "sample")]),
    "samples": _Row("Samples of scored answers."),
    "distinct_samples": _Row("Different texts among the samples of each answer."),
    "pairs": _Row("Text pairs by kind.", ["kind"], [("asked", "cached", "computed")]),
    "probe_readings": _Row("Answers read by a probe.", ["domain"], [("in", "out")]),
    "missing_scores": _Row(
        "Scores without a value.", ["estimator"], [SCORE_NAMES + CONSISTENCY_NAMES]
    ),
    "decisions": _Row(
        "Answers that were asked to keep a target error.", ["outcome"], [get_args(results.Outcome)]
    ),
    # the cache
    "cache_lookups": _Row("Statistics looked up.", ["result"], [("hit", "miss")]),
    "cache_corrupt_entries": _Row("Entries that were not what was stored under their names."),
    "cache_breaker_openings": _Row("Times that the cache was given up for a while."),
    "redis_suspicions": _Row(
        "Exchanges with Redis that failed or were late after a calm; a probe decides.",
        ["use"],
        [("cache", "limits")],
    ),
    # workers
    "worker_calls": _Row(
        "Calls of workers in other processes; a typed error is an answer, too.",
        ["worker", "outcome"],
        [get_args(Role), get_args(Outcome)],
    ),
    # feedback
    "feedback_answers": _Row("Answers for labels to come.", ["outcome"], [get_args(AnswerOutcome)]),
    "feedback_labels": _Row("Labels.", ["outcome"], [get_args(LabelOutcome)]),
    # keys
    "key_requests": _Row("Requests by the name of their key.", ["key"]),
    "key_tokens": _Row("Tokens that were computed, by the name of the key.", ["key"]),
    "key_refusals": _Row("Requests beyond a limit of their key.", ["key", "limit"]),
}
_GAUGES = {
    # HTTP
    "ready": _Row("1 while requests are accepted."),
    # the core
    "admitted_requests": _Row("Requests under way."),
    "admission_limit_requests": _Row("Requests under way before one is refused."),
    "waiting_requests": _Row("Admitted requests without a token."),
    "calibration_shift_ratio": _Row(
        "Distance of the latest scores from the calibration's; above 1 it is more than chance.",
        ["group", "estimator"],
        [["all"], ["rb_cocoa_sp"]],
    ),
    # the cache
    "cache_breaker_open": _Row("1 while the cache is not asked."),
    # workers
    "running_rows": _Row("Rows of the last decoding step."),
    # keys
    "keys": _Row("Keys that are good."),
    "keys_file_broken": _Row("1 while the file of keys cannot be used, and the earlier ones are."),
    "key_limits_breaker_open": _Row("1 while limits of keys are those of this process alone."),
}
_HISTOGRAMS = {
    # HTTP
    "request_seconds": _Row("HTTP latency.", ["route"], buckets=_LATENCY_S),
    "first_token_seconds": _Row(
        "From a request to the first token of its stream.", ["route"], buckets=_LATENCY_S
    ),
    # the core
    "stage_seconds": _Row("Latency by stage.", ["stage"], [STAGES], _LATENCY_S),
    "score_nats": _Row("CoCoA scores; higher is less sure.", ["estimator"], [SCORE_NAMES], _SCORES),
    "consistency": _Row(
        "Dissimilarity of an answer to its samples, drawn, weighed or predicted.",
        ["estimator"],
        [CONSISTENCY_NAMES],
        _CONSISTENCIES,
    ),
    # workers
    "worker_call_seconds": _Row(
        "Calls of workers in other processes.", ["worker"], [get_args(Role)], _LATENCY_S
    ),
    "decode_batch_rows": _Row("Rows decoded in one step.", buckets=_SIZES),
    "similarity_batch_pairs": _Row("Pairs scored in one call.", buckets=_SIZES),
}


def _harmless(telemetry: type["Telemetry"]) -> type["Telemetry"]:
    """Have observations that raise counted and logged; whoever observes goes on."""
    for name, observe in list(vars(telemetry).items()):
        if name.startswith(("observe_", "set_")):
            setattr(telemetry, name, _guarded(observe))
    return telemetry


def _guarded(observe: Callable[..., None]) -> Callable[..., None]:
    @wraps(observe)
    def observed(self: "Telemetry", *args: Any, **kwargs: Any) -> None:
        try:
            observe(self, *args, **kwargs)
        except Exception as error:
            self.fail(observe.__name__, error)

    return observed


@_harmless
class Telemetry(Observer):
    """Metrics, by names without `cocoa_`; no method `observe_…` or `set_…` ever raises."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.counters = self._made(Counter, _COUNTERS)
        self.gauges = self._made(Gauge, _GAUGES)
        self.histograms = self._made(Histogram, _HISTOGRAMS)
        text = "Times that a metric could not be told or exposed."
        self._failures = Counter("cocoa_metric_failures", text, registry=self.registry)
        self._failed: set[str] = set()
        self.exemplar: Callable[[], dict[str, str] | None] = lambda: None

    # HTTP
    def observe_request(self, route: str, status: int, seconds: float) -> None:
        self.counters["requests"].labels(route, str(status)).inc()
        self.histograms["request_seconds"].labels(route).observe(seconds, self.exemplar())

    def observe_first_token(self, route: str, seconds: float) -> None:
        self.histograms["first_token_seconds"].labels(route).observe(seconds)

    def observe_error(self, code: str) -> None:
        self.counters["errors"].labels(code).inc()

    def observe_closed(self, reason: str) -> None:
        self.counters["closed_connections"].labels(reason).inc()

    def observe_lost_line(self) -> None:
        self.counters["lost_log_lines"].inc()

    # the core
    def observe_result(self, result: Result) -> None:
        if result.source == "computed":  # the others cost nothing
            if (generation := result.generation) is not None:
                tokens = self.counters["tokens"]
                tokens.labels("prompt").inc(generation.prompt_tokens)
                tokens.labels("answer").inc(generation.answer.num_written)
                tokens.labels("sample").inc(sum(one.num_written for one in generation.samples))
            for stage, seconds in result.stage_s.items():
                self.histograms["stage_seconds"].labels(stage).observe(seconds)
        self.counters["samples"].inc(len(result.evidence.subject.samples))
        self.counters["distinct_samples"].inc(result.num_distinct_samples)
        for metric, names in (("score_nats", SCORE_NAMES), ("consistency", CONSISTENCY_NAMES)):
            for name in result.scores.keys() & set(names):
                if (value := result.scores[name]) is not None:
                    self.histograms[metric].labels(name).observe(value)
                else:
                    self.counters["missing_scores"].labels(name).inc()
        if (outcome := result.outcome) is not None:
            self.counters["decisions"].labels(outcome).inc()
        if result.probe is not None:
            domain = "out" if result.probe[1].out_of_domain else "in"
            self.counters["probe_readings"].labels(domain).inc()

    def observe_failure(self, estimator: str, error: Exception) -> None:
        """A score is null for a defect of its estimator; the error's text may quote a prompt."""
        places = " > ".join(places_of(error)) or "an unknown place"
        logger.error("estimator %s failed: %s at %s", estimator, type(error).__name__, places)

    def observe_shift(self, group: str, estimator: str, shift: float) -> None:
        self.gauges["calibration_shift_ratio"].labels(group, estimator).set(shift)

    def observe_lookup(self, hit: bool) -> None:
        self.counters["cache_lookups"].labels("hit" if hit else "miss").inc()

    def observe_corrupt(self) -> None:
        self.counters["cache_corrupt_entries"].inc()

    def observe_joined(self) -> None:
        self.counters["joined_requests"].inc()

    def observe_pairs(self, asked: int, cached: int) -> None:
        self.counters["pairs"].labels("asked").inc(asked)
        self.counters["pairs"].labels("cached").inc(cached)

    # the cache

    def set_breaker(self, state: State) -> None:
        self.gauges["cache_breaker_open"].set(state == "open")
        if state == "open":
            self.counters["cache_breaker_openings"].inc()
        elif state == "suspect":
            self.counters["redis_suspicions"].labels("cache").inc()

    # workers

    def observe_step(self, num_rows: int) -> None:
        self.gauges["running_rows"].set(num_rows)
        if num_rows:  # 0 once the batch has run empty
            self.histograms["decode_batch_rows"].observe(num_rows)

    def observe_batch(self, num_pairs: int) -> None:
        self.histograms["similarity_batch_pairs"].observe(num_pairs)
        self.counters["pairs"].labels("computed").inc(num_pairs)

    def observe_call(self, worker: Role, outcome: Outcome, seconds: float) -> None:
        self.counters["worker_calls"].labels(worker, outcome).inc()
        self.histograms["worker_call_seconds"].labels(worker).observe(seconds)

    # feedback

    def observe_remembered(self, outcome: AnswerOutcome) -> None:
        self.counters["feedback_answers"].labels(outcome).inc()

    def observe_label(self, outcome: LabelOutcome) -> None:
        self.counters["feedback_labels"].labels(outcome).inc()

    # keys

    def set_keys(self, names: Sequence[str]) -> None:
        self.gauges["keys"].set(len(names))
        for name in names:
            self.counters["key_requests"].labels(name)
            self.counters["key_tokens"].labels(name)
            for limit in LIMITS:
                self.counters["key_refusals"].labels(name, limit)

    def set_keys_broken(self, broken: bool) -> None:
        self.gauges["keys_file_broken"].set(broken)

    def observe_key(self, name: str) -> None:
        self.counters["key_requests"].labels(name).inc()

    def observe_charge(self, name: str, tokens: int) -> None:
        self.counters["key_tokens"].labels(name).inc(tokens)

    def observe_refusal(self, name: str, limit: LimitName) -> None:
        self.counters["key_refusals"].labels(name, limit).inc()

    def set_limits_breaker(self, state: State) -> None:
        """Told at each change of whether limits are shared."""
        self.gauges["key_limits_breaker_open"].set(state == "open")
        if state == "suspect":
            self.counters["redis_suspicions"].labels("limits").inc()

    def read_gauges(self, **owners: Callable[[], float]) -> None:
        """Take gauges, by their names, from their owners whenever they are scraped."""
        for name, owner in owners.items():
            self.gauges[name].set_function(owner)

    def exposition(self, write: Write = generate_latest, *, shows_keys: bool = True) -> bytes:
        """What Prometheus scrapes, of every metric that can be read, as `write` writes one.

        What is counted by the names of keys is in it where it `shows_keys`.
        """
        texts = []
        for metrics in (self.counters, self.gauges, self.histograms):
            for name, metric in metrics.items():
                # Of gauges none has the name of a key.
                if metrics is self.counters and name.startswith("key_") and not shows_keys:
                    continue
                try:
                    texts.append(write(metric).removesuffix(b"# EOF\n"))
                except Exception as error:
                    self.fail(f"cocoa_{name}", error)
        return b"".join([*texts, write(self._failures)])

    def fail(self, name: str, error: Exception) -> None:
        """Count a metric that raises; the log gets type and place of the first time."""
        self._failures.inc()
        if name not in self._failed:
            self._failed.add(name)
            logger.error("a metric cannot be told: %s", name, exc_info=error)

    def _made(self, kind: type[Kind], rows: dict[str, _Row]) -> dict[str, Kind]:
        made = {}
        for name, row in rows.items():
            options: dict[str, Any] = {"registry": self.registry}
            if row.buckets:
                options["buckets"] = row.buckets
            made[name] = kind(f"cocoa_{name}", row.text, row.labels, **options)
            if row.values:
                for values in product(*row.values):
                    made[name].labels(*values)
        return made
