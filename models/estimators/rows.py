"""A row of the table of estimators: of a function of its own, or of a base times a factor."""

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from models.estimators.information import Undefined
from models.statistics import STATISTICS

# cocoa: the product of a base and of inconsistency, light or not. alternative: other formulas over
# the same. rao_blackwell: ours over CoCoA. The others are methods of their own.
Family = Literal[
    "likelihood",
    "reasoning",
    "inconsistency",
    "cocoa",
    "alternative",
    "rao_blackwell",
    "semantic",
    "relevance",
    "reflection",
    "documents",
]
Base = Literal["sp", "root_sp", "ppl", "mte"]
Unit = Literal["nats", "tokens", "meanings", ""]

# Between which values an estimator lies; None for no end.
Bounds = tuple[float | None, float | None]
FROM_0: Bounds = (0.0, None)
SHARE: Bounds = (0.0, 1.0)
FROM_1: Bounds = (1.0, None)
ANY: Bounds = (None, None)


@dataclass(frozen=True, slots=True)
class Estimator:
    """One row of the table."""

    name: str
    # Of the statistics that its parameters name; of a product, of base and factor.
    function: Callable[..., float]
    family: Family  # the kind of uncertainty
    doc: str  # "Title: formula. Source.", details, and when to use it.
    base: Base | None = None  # the lack of confidence that it is made over; None for none
    range: Bounds = FROM_0  # between which values it lies
    needs: frozenset[str] = frozenset()  # statistics that it reads
    scale: Unit = "nats"  # the unit of its values, where they are no share
    # Base and factor of a product; empty for any other.
    factors: tuple[Callable[..., float], ...] = ()

    def value(
        self,
        statistics: Mapping[str, Any],
        absent: Mapping[str, str],
        known: dict[Callable[..., float], float],
    ) -> float:
        """Its value for these statistics; `known` has the values of functions that others share.

        Raises:
            Undefined: it has none; of a statistic that is missing `absent` may have the reason.
        """
        if missing := sorted(self.needs - statistics.keys()):
            reasons = [absent.get(name, f"{name} is not available") for name in missing]
            raise Undefined("; ".join(dict.fromkeys(reasons)))
        for function in self.factors or (self.function,):
            if function not in known:
                known[function] = function(**{name: statistics[name] for name in read_by(function)})
        if self.factors:
            value = self.function(*map(known.__getitem__, self.factors))
        else:
            value = known[self.function]
        if not math.isfinite(value):
            raise Undefined("not a finite number")
        return value

    @property
    def unit(self) -> Unit:
        """Of its values; "" for a share."""
        if self.range == SHARE:
            return ""
        return self.scale

    @property
    def title(self) -> str:
        """What people read beside its name."""
        return _head(self.doc)[0]

    @property
    def formula(self) -> str:
        return _head(self.doc)[1]

    @property
    def source(self) -> str:
        """Who published it, or "Ours"."""
        return _head(self.doc)[2]

    @property
    def cost(self) -> str:
        """What it costs beyond the answer: samples, and passes of other models."""
        parts: dict[str, None] = {}
        for statistic in sorted(self.needs):
            parts |= dict.fromkeys(filter(None, STATISTICS[statistic].cost.split(", ")))
        return ", ".join(parts) or "nothing beyond the answer"


def row(
    function: Callable[..., float], family: Family, *, bounds: Bounds = FROM_0, unit: Unit = "nats"
) -> Estimator:
    """The row of a function; its facts as in `Estimator`."""
    doc, read = inspect.getdoc(function) or "", read_by(function)
    return Estimator(function.__name__, function, family, doc, None, bounds, read, unit)


@cache
def read_by(function: Callable[..., float]) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


def _head(doc: str) -> tuple[str, str, str]:
    """Title, formula and source; where no source ends the first paragraph, it is the second."""
    first, _, rest = doc.partition("\n\n")
    told = re.fullmatch(r"(.+?): (.+?)\.( [A-Z].*)?", " ".join(first.split()))
    if told is None:
        return "", first, ""
    source = told[3] or rest.partition("\n\n")[0]
    return told[1], told[2], " ".join(source.split()).removesuffix(".")
