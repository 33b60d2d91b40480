"""Prometheus metrics of one process; labels come from fixed sets only.

Nothing here ever sees a prompt, an answer or a key.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib.metadata import version
from itertools import product
from platform import python_version
from typing import Any, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from app.cache.protocol import State
from app.http.logs import described
from app.http.metrics import (
    COUNTERS,
    GAUGES,
    HISTOGRAMS,
    INCONSISTENCY_NAMES,
    OF_WORKERS,
    SCORE_NAMES,
    Row,
)
from app.scoring.capabilities import Capability
from app.scoring.observer import Observer
from app.scoring.result import Result
from workers.config import Role
from workers.hooks import Outcome
from workers.protocol import Generator, SimilarityScorer

logger = logging.getLogger(__name__)
Kind = TypeVar("Kind", Counter, Gauge, Histogram)


def _harmless(telemetry: type["Telemetry"]) -> type["Telemetry"]:
    """Count and log the errors of observations, so that their callers go on."""
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
    """Metrics, by names without `cocoa_`; no method `observe_…` or `set_…` ever raises.

    A worker exposes the metrics of its role; a gateway, which has none, exposes all.
    """

    def __init__(self, worker: Role | None = None) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each
        self.registry = CollectorRegistry()
        self._worker = worker
        self.counters = self._made(Counter, COUNTERS)
        self.gauges = self._made(Gauge, GAUGES)
        self.histograms = self._made(Histogram, HISTOGRAMS)
        self.gauges["build_info"].labels(version("cocoa-serve"), python_version()).set(1)
        self.gauges["model_info"].labels(worker or "generation", "", "", "").set(1)
        text = "Times that a metric could not be told or exposed."
        self._failures = Counter("cocoa_metric_failures", text, registry=self.registry)
        self._failed: set[str] = set()
        self._process = ProcessCollector(registry=self.registry)

    def add_counters(self, counters: Mapping[str, tuple[str, str, Sequence[str]]]) -> None:
        """Have more counters: each by its text, its label and what values that has."""
        for name, (text, label, values) in counters.items():
            self.counters |= self._made(Counter, {name: Row(text, [label], [values])})

    # the process

    def set_models(self, served: Mapping[str, Generator | SimilarityScorer]) -> None:
        self.gauges["model_info"].clear()
        for name, worker in served.items():
            info = worker.info
            labels = (name, info.model_id, info.revision or "", info.identity[:12])
            self.gauges["model_info"].labels(*labels).set(1)

    def set_capabilities(self, capabilities: Mapping[str, Capability]) -> None:
        for name, capability in capabilities.items():
            configured = str(bool(capability.setting)).lower()
            self.gauges["capability"].labels(name, configured).set(not capability.lacks)

    def observe_one(self, counter: str, *labels: str, by: float = 1) -> None:
        counted = self.counters[counter]
        (counted.labels(*labels) if labels else counted).inc(by)

    # HTTP

    def observe_request(self, route: str, status: int, seconds: float) -> None:
        self.counters["requests"].labels(route, str(status)).inc()
        self.histograms["request_seconds"].labels(route).observe(seconds)

    def observe_first_token(self, route: str, seconds: float) -> None:
        self.histograms["first_token_seconds"].labels(route).observe(seconds)

    # the core

    def observe_result(self, result: Result) -> None:
        if result.source == "computed":  # the others cost nothing
            if (generation := result.evidence.generation) is not None:
                tokens = self.counters["tokens"]
                tokens.labels("prompt").inc(generation.prompt_tokens)
                tokens.labels("answer").inc(generation.answer.num_written)
                tokens.labels("sample").inc(sum(drawn.num_written for drawn in generation.samples))
            for stage, seconds in result.stage_s.items():
                self.histograms["stage_seconds"].labels(stage).observe(seconds)
        self.counters["samples"].inc(len(result.evidence.subject.samples))
        self.counters["distinct_samples"].inc(result.num_distinct_samples)
        for metric, names in (("score_nats", SCORE_NAMES), ("inconsistency", INCONSISTENCY_NAMES)):
            for name in result.scores.keys() & set(names):
                if (value := result.scores[name]) is not None:
                    self.histograms[metric].labels(name).observe(value)
                else:
                    self.counters["missing_scores"].labels(name).inc()
        if (outcome := result.outcome) is not None:
            self.counters["decisions"].labels(outcome).inc()
        if (confidence := result.judgement.confidence) is not None:
            self.histograms["confidence"].labels(outcome or "none").observe(confidence)
        for _, reading in filter(None, (result.probe, result.sentence_probe)):
            domain = "out" if reading.out_of_domain else "in"
            self.counters["probe_readings"].labels(domain).inc()

    def observe_failure(self, estimator: str, error: Exception) -> None:
        """Log that an estimator raised, without the error's text, which may quote a prompt."""
        logger.error("estimator %s failed: %s", estimator, described(error))

    def observe_shift(self, group: str, estimator: str, shift: float) -> None:
        self.gauges["calibration_shift_ratio"].labels(group, estimator).set(shift)

    # the cache

    def set_breaker(self, state: State) -> None:
        self.gauges["cache_breaker_open"].set(state == "open")
        if state == "open":
            self.counters["cache_breaker_openings"].inc()
        elif state == "suspect":
            self.counters["redis_suspicions"].labels("cache").inc()

    # workers

    def set_server(self, worker: Role, url: str, trouble: str) -> None:
        self.gauges["server_up"].labels(worker, url).set(not trouble)

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

    # keys

    def set_keys(self, names: Sequence[str], limits: Sequence[str], *, is_broken: bool) -> None:
        self.gauges["keys_file_broken"].set(is_broken)
        self.gauges["keys"].set(len(names))
        for name in names:
            self.counters["key_requests"].labels(name)
            self.counters["key_tokens"].labels(name)
            for limit in limits:
                self.counters["key_refusals"].labels(name, limit)

    def set_limits_breaker(self, state: State) -> None:
        """Called at each change of whether limits are shared."""
        self.gauges["key_limits_breaker_open"].set(state == "open")
        if state == "suspect":
            self.counters["redis_suspicions"].labels("limits").inc()

    def read_gauges(self, **owners: Callable[[], float]) -> None:
        """Read gauges, by their names, from their owners at each scrape."""
        for name, owner in owners.items():
            self.gauges[name].set_function(owner)

    def exposition(self, *, shows_keys: bool = True) -> bytes:
        """The text that Prometheus scrapes, without metrics that cannot be read.

        Counts by the names of keys are in it where it `shows_keys`.
        """
        texts = []
        for metrics in (self.counters, self.gauges, self.histograms):
            for name, metric in metrics.items():
                # Of gauges none has the name of a key.
                if metrics is self.counters and name.startswith("key_") and not shows_keys:
                    continue
                try:
                    texts.append(generate_latest(metric))
                except Exception as error:
                    self.fail(f"cocoa_{name}", error)
        return b"".join([*texts, *map(generate_latest, (self._process, self._failures))])

    def fail(self, name: str, error: Exception) -> None:
        self._failures.inc()
        if name not in self._failed:
            self._failed.add(name)
            logger.error("a metric cannot be told: %s", name, exc_info=error)

    def _made(self, kind: type[Kind], rows: Mapping[str, Row]) -> dict[str, Kind]:
        made = {}
        for name, row in rows.items():
            if self._worker is not None and name not in OF_WORKERS[self._worker]:
                continue
            options: dict[str, Any] = {"registry": self.registry}
            if row.buckets:
                options["buckets"] = row.buckets
            made[name] = kind(f"cocoa_{name}", row.text, row.labels, **options)
            if row.values:
                for values in product(*row.values):
                    made[name].labels(*values)
        return made
