"""What the benchmarks print and write: figures beside their limits."""

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number.

    `limit` is its upper bound, its lower bound with `at_least`, None where there is none.
    """

    name: str
    value: float
    unit: str
    limit: float | None = None
    at_least: bool = False

    @property
    def met(self) -> bool | None:
        """Whether the number keeps its limit; None where there is none."""
        if self.limit is None:
            return None
        return self.value >= self.limit if self.at_least else self.value <= self.limit


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with its quartiles."""

    median: float
    quartile_1: float
    quartile_3: float
    count: int


def spread(values: Sequence[float]) -> Spread:
    """Median and quartiles of some measurements."""
    low, middle, high = np.percentile(values, (25, 50, 75)).tolist()
    return Spread(middle, low, high, len(values))


def machine(num_cores: int) -> dict[str, Any]:
    """What the figures depend on, and nothing that names a host."""
    return {
        "cpu": _cpu_model(),
        "cores": num_cores,
        "torch": torch.__version__,
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def figures_table(title: str, figures: Sequence[Figure]) -> Table:
    """Figure, measured, wanted, met."""
    table = Table(title=title, title_justify="left")
    table.add_column("figure")
    table.add_column("measured", justify="right")
    table.add_column("wanted", justify="right")
    table.add_column("met")
    for figure in figures:
        wanted = ""
        if figure.limit is not None:
            wanted = f"{'≥' if figure.at_least else '≤'} {figure.limit:g} {figure.unit}"
        met = {None: "", True: "yes", False: "[bold red]no"}[figure.met]
        table.add_row(figure.name, f"{figure.value:.3g} {figure.unit}", wanted, met)
    return table


def publish(tables: Sequence[Table], report: dict[str, Any], path: Path) -> None:
    """Print the tables and write the report."""
    console = Console()
    for table in tables:
        console.print(table)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    console.print(f"written: {path.name}")


def figure_records(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """Figures as JSON objects."""
    return [asdict(figure) | {"met": figure.met} for figure in figures]


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
