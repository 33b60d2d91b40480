"""What the benchmarks measure, in rounds: printed and stored as it comes, resumed after a stop.

A round gives numbers by name, of sides that were measured in turn. They stand in
`benchmarks/results/` as soon as it is done, under a name made of commit, machine and settings.
"""

import json
import os
import platform
import signal
import subprocess
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

_RESULTS = Path(__file__).parent / "results"
_BOUNDS = Path(__file__).with_name("bounds.toml")
_ROOT = Path(__file__).parents[1]
# Long enough for every other process's threads to stop spinning, and for what the last side left.
REST_S = 1.0
_NUM_RESAMPLES = 2000

Values = dict[str, float]
# Numbers of the round of this number, all sides of it.
Round = Callable[[int], Values]
Found = TypeVar("Found")


def check_installed(packages: Sequence[str], remedy: str) -> None:
    """End, before anything is measured, where a package is missing that a later part needs."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise SystemExit(f"{', '.join(missing)} not installed, nothing was measured: {remedy}")


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of all rounds: their median.

    `low` and `high` bound its 95 % bootstrap interval over the rounds. `limit` is its upper bound,
    its lower bound with `at_least`, None where there is none.
    """

    name: str
    value: float
    unit: str
    limit: float | None = None
    at_least: bool = False
    low: float | None = None
    high: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the number keeps its limit; None where there is none."""
        if self.limit is None:
            return None
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def __str__(self) -> str:
        told = f"{self.name}: {self.value:.3g} {self.unit}".rstrip()
        if self.low is not None:
            told += f" [{self.low:.3g}, {self.high:.3g}]"
        if self.limit is None:
            return told
        verdict = "met" if self.met else "NOT MET"
        return f"{told}, wanted {'≥' if self.at_least else '≤'} {self.limit:g}: {verdict}"


def figure(
    name: str, values: Sequence[float], unit: str, limit: float | None = None, **options: bool
) -> Figure:
    """The median of the rounds' values, with its interval where there are several."""
    median = float(np.median(values))
    if len(values) == 1:
        return Figure(name, median, unit, limit, **options)
    drawn = np.random.default_rng(0).choice(values, (_NUM_RESAMPLES, len(values)))
    low, high = np.percentile(np.median(drawn, axis=1), (2.5, 97.5)).tolist()
    return Figure(name, median, unit, limit, **options, low=low, high=high)


def ratio(
    rounds: Sequence[Values],
    above: str,
    below: str,
    limit: float | None = None,
    *,
    name: str | None = None,
    at_least: bool = False,
) -> Figure:
    """Of two sides: the median over the rounds of the ratio within a round."""
    ratios = [values[above] / values[below] for values in rounds]
    return figure(name or f"{above} / {below}", ratios, "x", limit, at_least=at_least)


def bounded(program: str, rounds: Sequence[Values], above: str, below: str) -> Figure:
    """The ratio of two sides, with its bound in `bounds.toml`."""
    bounds = tomllib.loads(_BOUNDS.read_text(encoding="utf-8"))[program]
    [(kind, limit)] = bounds[f"{above} / {below}"].items()
    return ratio(rounds, above, below, limit, at_least=kind == "at_least")


def in_turn(
    sides: Mapping[str, Callable[[], Found]], number: int, rest_s: float = REST_S
) -> dict[str, Found]:
    """What each side gives, after a rest each; who goes first takes turns with the rounds."""
    found = {}
    for name in list(sides)[:: -1 if number % 2 else 1]:
        time.sleep(rest_s)
        found[name] = sides[name]()
    return {name: found[name] for name in sides}


class Report:
    """Parts of a benchmark that are measured, and what is known of them from earlier."""

    def __init__(self, name: str, cores: int, settings: Mapping[str, object]) -> None:
        of = {"commit": _commit(), "machine": machine(cores), "settings": settings}
        said = json.dumps(of, sort_keys=True, default=str)
        self.path = _RESULTS / f"{name}-{sha256(said.encode()).hexdigest()[:8]}.json"
        self._report: dict[str, Any] = json.loads(said) | {"parts": {}}
        if self.path.exists():
            self._report = json.loads(self.path.read_text("utf-8"))
        self.exit_code = 0  # 1 once a figure has missed its limit

    def measure(
        self,
        part: str,
        num_rounds: int,
        start: Callable[[], AbstractContextManager[Round]],
        figures: Callable[[Sequence[Values]], Sequence[Figure]],
    ) -> list[Values]:
        """The rounds of a part; those that are not stored are measured, printed and stored.

        Args:
            part: its name.
            num_rounds: how many there are to be.
            start: starts what is measured and warms it up, unless nothing is left to measure.
            figures: what the rounds so far say.
        """
        kept = self._report["parts"].setdefault(part, {"rounds": [], "others": []})
        rounds: list[Values] = kept["rounds"]
        try:
            if len(rounds) < num_rounds:
                with start() as measure:
                    for number in range(len(rounds), num_rounds):
                        others, began_at = _others_share(), time.perf_counter()
                        rounds.append(measure(number))
                        kept["others"].append(others)
                        kept["figures"] = [asdict(one) for one in figures(rounds)]
                        self._write()
                        took = f"{time.perf_counter() - began_at:.0f} s; others: {others:.0%}"
                        _say(f"{part}, round {number + 1} of {num_rounds}: {took}")
        finally:  # those of the rounds so far, if it is stopped
            for one in figures(rounds) if rounds else ():
                _say(f"  {one}")
                if one.met is False:
                    self.exit_code = 1
        return rounds

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".tmp")
        beside.write_text(json.dumps(self._report, indent=1) + "\n", encoding="utf-8")
        beside.replace(self.path)  # a stop leaves the old one or the new one


class _TimeIsUp(Exception):
    pass


@contextmanager
def reporting(
    name: str, minutes: float = 60.0, cores: int = 2, **settings: object
) -> Iterator[Report]:
    """A report of a program that ends within `minutes`, on these cores.

    Args:
        name: of the program.
        minutes: until it ends, whatever is left; the same command goes on there.
        cores: for everything, services and clients together.
        settings: what else the numbers depend on.
    """
    import torch  # seconds, which what stores the rounds does without

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    torch.set_num_threads(cores)
    report = Report(name, cores, settings)
    _say(f"{name} on {cores} cores of {machine(cores)['cpu']}; others: what others use of them")
    signal.signal(signal.SIGALRM, _end)
    signal.setitimer(signal.ITIMER_REAL, 60 * minutes)
    try:
        yield report
    except _TimeIsUp:
        _say(f"{minutes:g} minutes are over: the same command goes on from here")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        _say(f"stored: {report.path.relative_to(_ROOT)}")


def machine(num_cores: int) -> dict[str, Any]:
    """What the figures depend on, and nothing that names a host."""
    import torch

    return {
        "cpu": _cpu_model(),
        "cores": num_cores,
        "torch": torch.__version__,
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def _end(*_: object) -> None:
    raise _TimeIsUp


def _say(line: str) -> None:
    print(line, flush=True)


def _commit() -> str:
    """Of the checkout, with a digest of what is not committed."""
    commit, changes = _git("rev-parse", "--short=12", "HEAD"), _git("diff", "HEAD")
    return f"{commit}+{sha256(changes.encode()).hexdigest()[:8]}" if changes else commit


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True)
    return done.stdout.strip()


def _others_share(seconds: float = 0.5) -> float:
    """Share of all cores that is busy while this program rests."""
    busy, every = _ticks()
    time.sleep(seconds)
    busy_after, every_after = _ticks()
    return (busy_after - busy) / max(1, every_after - every)


def _ticks() -> tuple[int, int]:
    """Of /proc/stat: not idle, and all."""
    _, *counts = Path("/proc/stat").read_text("utf-8").splitlines()[0].split()
    every = sum(map(int, counts[:8]))
    return every - int(counts[3]) - int(counts[4]), every


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
