"""The table of all metrics: names without `cocoa_`, labels from fixed sets, buckets."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, get_args

from app.scoring import result as results
from app.scoring.ask import MAX_TIMEOUT_S
from app.scoring.result import STAGES
from workers.config import Role
from workers.hooks import Outcome

# From a cached answer to the slowest that a deadline leaves room for.
_LATENCY_S = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, MAX_TIMEOUT_S,
)  # fmt: skip
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
# Scores spread over decades, sure answers near 0: 1, 2, 5 per decade from 1e-5 to 500 nats.
_SCORES = tuple(float(f"{digit}e{exponent}") for exponent in range(-5, 3) for digit in (1, 2, 5))
_CONSISTENCIES = tuple(round(0.05 * step, 2) for step in range(21))

SCORE_NAMES = (
    "cocoa_sp", "cocoa_ppl", "cocoa_mte", "cocoa_sp_light", "cocoa_ppl_light", "cocoa_mte_light",
    "cocoa_root_sp", "rb_cocoa_root_sp", "rb_cocoa_sp", "rb_cocoa_ppl", "rb_cocoa_mte",
)  # fmt: skip
INCONSISTENCY_NAMES = ("inconsistency", "inconsistency_light", "rb_inconsistency")


class Row(NamedTuple):
    """One metric."""

    text: str
    labels: Sequence[str] = ()
    # Of each label; children exist from the start, as `rate` needs a step from 0.
    values: Sequence[Sequence[str]] = ()
    buckets: Sequence[float] = ()


COUNTERS = {
    # HTTP
    "requests": Row("HTTP requests by route and status.", ["route", "status"]),
    "errors": Row("Typed errors by code.", ["code"]),
    "closed_connections": Row(
        "Connections closed before their clients wanted that.",
        ["reason"],
        [("slow_request", "slow_reader", "evicted", "refused")],
    ),
    "lost_log_lines": Row("Lines of the log that could not be written."),
    # the core
    "joined_requests": Row("Requests that shared the work of an identical one."),
    "tokens": Row("Tokens by kind.", ["kind"], [("prompt", "answer", "sample")]),
    "samples": Row("Samples of scored answers."),
    "distinct_samples": Row("Different texts among the samples of each answer."),
    "pairs": Row("Text pairs by kind.", ["kind"], [("asked", "cached", "computed")]),
    "probe_readings": Row("Answers read by a probe.", ["domain"], [("in", "out")]),
    "missing_scores": Row(
        "Scores without a value.", ["estimator"], [SCORE_NAMES + INCONSISTENCY_NAMES]
    ),
    "decisions": Row(
        "Answers that were asked to keep a target error.", ["outcome"], [get_args(results.Outcome)]
    ),
    # the cache
    "cache_lookups": Row("Statistics looked up.", ["result"], [("hit", "miss")]),
    "cache_corrupt_entries": Row("Entries that were not what was stored under their names."),
    "cache_breaker_openings": Row("Times that the cache was given up for a while."),
    "redis_suspicions": Row(
        "Exchanges with Redis that failed or were late after a calm; a probe decides.",
        ["use"],
        [("cache", "limits")],
    ),
    # workers
    "worker_calls": Row(
        "Calls of workers in other processes; a typed error is an answer, too.",
        ["worker", "outcome"],
        [get_args(Role), get_args(Outcome)],
    ),
    # keys
    "key_requests": Row("Requests by the name of their key.", ["key"]),
    "key_tokens": Row("Tokens that were computed, by the name of the key.", ["key"]),
    "key_refusals": Row("Requests beyond a limit of their key.", ["key", "limit"]),
}
GAUGES = {
    # the process
    "build_info": Row("1; its labels say which version runs.", ["version", "python"]),
    "model_info": Row(
        "1 for each model; its labels say which one is served, and are empty until that is known.",
        ["worker", "model", "revision", "identity"],
    ),
    "capability": Row(
        "1 for what this deployment can; `configured` where its settings ask for it.",
        ["name", "configured"],
    ),
    # HTTP
    "ready": Row("1 while requests are accepted."),
    # the core
    "admitted_requests": Row("Requests under way."),
    "admission_limit_requests": Row("Requests under way before one is refused."),
    "waiting_requests": Row("Admitted requests without a token."),
    "calibration_shift_ratio": Row(
        "Distance of the latest scores from the calibration's; above 1 it is more than chance.",
        ["group", "estimator"],
        [["all"], ["rb_cocoa_root_sp"]],
    ),
    # the cache
    "cache_breaker_open": Row("1 while the cache is not asked."),
    # workers
    "server_up": Row("1 while a server of a model answers.", ["worker", "server"]),
    "running_rows": Row("Rows of the last decoding step."),
    # keys
    "keys": Row("Keys that are good."),
    "keys_file_broken": Row("1 while the file of keys cannot be used, and the earlier ones are."),
    "key_limits_breaker_open": Row("1 while limits of keys are those of this process alone."),
}
HISTOGRAMS = {
    # HTTP
    "request_seconds": Row("HTTP latency.", ["route"], buckets=_LATENCY_S),
    "first_token_seconds": Row(
        "From a request to the first token of its stream.", ["route"], buckets=_LATENCY_S
    ),
    # the core
    "stage_seconds": Row("Latency by stage.", ["stage"], [STAGES], _LATENCY_S),
    "score_nats": Row("CoCoA scores; higher is less sure.", ["estimator"], [SCORE_NAMES], _SCORES),
    "inconsistency": Row(
        "Dissimilarity of an answer to its samples, drawn, weighed or predicted.",
        ["estimator"],
        [INCONSISTENCY_NAMES],
        _CONSISTENCIES,
    ),
    "confidence": Row(
        "P(correct) of calibrated answers by what became of them; `none` where no target was set.",
        ["decision"],
        [(*get_args(results.Outcome), "none")],
        _CONSISTENCIES,
    ),
    # workers
    "worker_call_seconds": Row(
        "Calls of workers in other processes.", ["worker"], [get_args(Role)], _LATENCY_S
    ),
    "decode_batch_rows": Row("Rows decoded in one step.", buckets=_SIZES),
    "similarity_batch_pairs": Row("Pairs scored in one call.", buckets=_SIZES),
}

# Metrics that workers have; a gateway has all of them.
_PROCESS = frozenset({"build_info", "model_info", "ready"})
_HTTP = frozenset({"requests", "request_seconds", "errors", "closed_connections", "lost_log_lines"})
OF_WORKERS: Mapping[Role, frozenset[str]] = {
    "generation": _PROCESS | _HTTP | {"waiting_requests", "running_rows", "decode_batch_rows"},
    "similarity": _PROCESS | _HTTP | {"pairs", "similarity_batch_pairs"},
}
