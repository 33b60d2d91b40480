"""Pure: how many pods a traffic wants, from the seconds that each unit of its work takes."""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np
from annotated_types import Ge
from pydantic import AllowInfNan, ConfigDict, TypeAdapter, ValidationError

from app.spelling import closest, did_you_mean
from models.engines.protocol import EngineConfig

Part = Literal["gateway", "generation", "similarity"]
Kind = Literal["full", "light", "cached"]
# Units of work that are counted, by who does them.
UNITS: Mapping[Part, Sequence[str]] = {
    "gateway": ("request", "sample", "cached_request"),
    "generation": ("prompt_token", "step", "generated_token"),
    "similarity": ("pair", "pair_token"),
}
Unit = Literal[
    "request",
    "sample",
    "cached_request",
    "prompt_token",
    "step",
    "generated_token",
    "pair",
    "pair_token",
]
SHIPPED = Path(__file__).with_name("costs.toml")
# Of ten samples, as benchmarks/waves.py found on the testbed.
_AUTO = 0.815
_REPEATED = 0.1
# That the chart lets a worker have, less what requests take for a moment.
_CHART_MB = 2_000
Work = Mapping[str, float]
Amount = Annotated[float, Ge(0), AllowInfNan(False)]


class CostsInvalid(ValueError):
    """A file of costs cannot be used; says where and why."""


@dataclass(frozen=True, slots=True)
class Row:
    """What the work of one part of a deployment costs.

    Attributes:
        seconds: of one processor, or of one server with a GPU that is kept busy, by units of work.
        measured: when, on what, and by which command.
        device: whose seconds they are.
        resident_mb: memory of a process that holds the model and has no work.
        cache_token_bytes: keys and values of one token.
        settings: of the model in the chart's group of that name.
    """

    seconds: Mapping[Unit, Amount]
    measured: str
    device: Literal["cpu", "gpu"] = "cpu"
    resident_mb: Amount = 0.0
    cache_token_bytes: Amount = 0.0
    settings: Mapping[str, Any] = field(default_factory=dict)

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    def cost(self, work: Work) -> float:
        """Seconds of this work; what the row does not know costs nothing."""
        return sum(work.get(unit, 0.0) * seconds for unit, seconds in self.seconds.items())


_ROWS = TypeAdapter(dict[Part, dict[str, Row]])


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is asked of a deployment.

    Attributes:
        rate: requests per second.
        mix: shares of the kinds of requests; together 1.
        num_samples: M of a full request, as a mean.
        prompt_tokens, answer_tokens: of a request; a sample is as long as the answer.
        distinct: share of the samples that differ from the answer and from each other.
        further_pairs: that a full request has compared beside answer and samples, such as by NLI.
    """

    rate: float
    mix: Mapping[Kind, float]
    num_samples: float = 10.0
    prompt_tokens: float = 64.0
    answer_tokens: float = 32.0
    distinct: float = 1.0
    further_pairs: float = 0.0

    def work(self) -> Work:
        """Units of work of a request, as a mean over the mix."""
        full, light, cached = (self.mix.get(kind, 0.0) for kind in get_args(Kind))
        samples = full * self.num_samples
        pairs = 2 * samples * self.distinct + full * self.further_pairs
        return {
            "request": full + light,
            "sample": samples,
            "cached_request": cached,
            "prompt_token": (full + light) * self.prompt_tokens,
            "step": (full + light) * self.answer_tokens,
            "generated_token": (full + light + samples) * self.answer_tokens,
            "pair": pairs,
            "pair_token": pairs * 2 * self.answer_tokens,
        }


@dataclass(frozen=True, slots=True)
class Need:
    """What one part of a deployment needs.

    Attributes:
        seconds: of a request, as a mean, on the row's device.
        pod_rate: requests per second of one pod that is never idle; infinite without work.
        pods: how many keep their devices at most so busy as was wanted.
        cpus: of a pod.
        memory_mb: of a pod at its fullest.
    """

    row: Row
    seconds: float
    pod_rate: float
    pods: int
    cpus: float
    memory_mb: float


def needs_of(
    traffic: Traffic, rows: Mapping[Part, Row], cpus: float, busy: float
) -> dict[Part, Need]:
    """What each part needs for a traffic.

    Args:
        traffic: what is asked.
        rows: what it costs.
        cpus: of a worker's pod; a gateway's event loop uses one at most.
        busy: share of the time for which devices may be busy, so that requests hardly wait.
    """
    work, needs = traffic.work(), {}
    for part, row in rows.items():
        seconds, devices = row.cost(work), 1.0
        if part != "gateway" and row.device == "cpu":
            devices = cpus
        memory_mb = row.resident_mb + EngineConfig().max_cache_tokens * row.cache_token_bytes / 1e6
        # Rounded, so that what fits exactly needs no further pod.
        pods = max(1, math.ceil(round(traffic.rate * seconds / (devices * busy), 9)))
        pod_rate = devices / seconds if seconds else math.inf
        needs[part] = Need(row, seconds, pod_rate, pods, devices, memory_mb)
    return needs


def bottleneck(needs: Mapping[Part, Need]) -> Part:
    """The part of which one pod serves the fewest requests."""
    return min(needs, key=lambda part: needs[part].pod_rate)


def requests_at_once(traffic: Traffic) -> int:
    """Full requests that a worker of ours decodes together by its default bounds; 0 for none."""
    engine, rows = EngineConfig(), traffic.num_samples + 1
    tokens = rows * (traffic.prompt_tokens + traffic.answer_tokens)
    return int(min(engine.max_rows // rows, engine.max_cache_tokens // max(tokens, 1)))


def savings(traffic: Traffic) -> dict[str, Traffic]:
    """What the traffic would be with fewer samples, and with a part of it from the cache."""
    mix = {kind: share * (1 - _REPEATED) for kind, share in traffic.mix.items()}
    mix["cached"] = mix.get("cached", 0.0) + _REPEATED
    fewer = replace(traffic, num_samples=traffic.num_samples * _AUTO)
    return {
        f'num_samples "auto", {_AUTO:.0%} of the samples, steps of its waves not counted': fewer,
        f"{_REPEATED:.0%} of the requests from the cache": replace(traffic, mix=mix),
    }


def chart_values(needs: Mapping[Part, Need]) -> dict[str, Any]:
    """Values of the chart for these needs; memory only where the chart's own limit is too low."""
    values: dict[str, Any] = {}
    for part, need in needs.items():
        group: str = part if part == "gateway" else f"{part}Worker"
        if part == "generation" and need.row.device == "gpu":
            group, values["vllm"] = "vllm", {"enabled": True}
        resources: dict[str, Any] = {"requests": {"cpu": need.cpus}}
        if need.memory_mb > _CHART_MB:
            resources["limits"] = {"memory": f"{math.ceil(need.memory_mb / 256) * 256}Mi"}
        if need.row.device == "gpu":
            resources = {"limits": {"nvidia.com/gpu": 1}}
        values.setdefault(group, {}).update(replicas=need.pods, resources=resources)
        if need.row.settings:
            values[part] = dict(need.row.settings) | values.get(part, {})
    return values


def fitted(
    work: Sequence[Work], seconds: Sequence[float], units: Sequence[str]
) -> dict[str, float]:
    """Seconds of each unit, none below 0, that explain the seconds of measured blocks of work.

    Least squares of relative errors; a unit that would have to cost less than nothing is left out.

    Args:
        work: of each block.
        seconds: that each took.
        units: that may cost something.
    """
    chosen = list(units)
    while chosen:
        columns = [[one.get(unit, 0.0) for unit in chosen] for one in work]
        weights = 1 / np.array(seconds)
        scale = np.array(columns).max(axis=0).clip(1e-9)
        matrix = np.array(columns) / scale * weights[:, None]
        found = np.linalg.lstsq(matrix, np.ones(len(work)))[0] / scale
        if (found >= 0).all():
            return dict(zip(chosen, found.tolist(), strict=True))
        chosen.pop(int((found * scale).argmin()))
    return {}


def rows_in(text: str) -> dict[Part, dict[str, Row]]:
    """The rows of a file of costs, by parts and names.

    Raises:
        CostsInvalid: no TOML, or not of this form; names the entry.
    """
    try:
        return _ROWS.validate_python(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise CostsInvalid(f"no TOML: {error}") from None
    except ValidationError as invalid:
        first = invalid.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise CostsInvalid(f"{where}: {first['msg']}") from None


def chosen_row(rows: Mapping[str, Row], name: str | None) -> Row:
    """The row of this name, or the first one.

    Raises:
        CostsInvalid: there is none; names those that there are.
    """
    if name is None:
        return next(iter(rows.values()))
    if name not in rows:
        meant = did_you_mean(closest(name, rows)) or ";"
        raise CostsInvalid(f"no row {name}{meant} there are {', '.join(rows)}")
    return rows[name]


def mix_of(text: str) -> dict[Kind, float]:
    """Shares of kinds of requests, as `full:.8,light:.2`; one without a share is all of it.

    Raises:
        ValueError: a kind is unknown, or the shares are not together 1.
    """
    mix: dict[Kind, float] = {}
    for one in text.split(","):
        kind, _, share = one.strip().partition(":")
        if kind not in get_args(Kind) or kind in mix:
            raise ValueError(f"{kind!r} must be one of {', '.join(get_args(Kind))}, each once")
        mix[kind] = float(share or 1)  # type: ignore[index]
    if not all(share >= 0 for share in mix.values()) or abs(sum(mix.values()) - 1) > 1e-6:
        raise ValueError("the shares must be together 1")
    return mix
