"""What differences of PRR say about the paper's claims."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cocoa_lab.comparison import (
    MEAN,
    ByEstimator,
    Measured,
    Table,
    difference,
    is_cocoa,
    is_compared,
    is_rao_blackwell,
    overall,
)
from cocoa_lab.metrics import Interval
from models.estimators import known_estimators

Verdict = Literal["supported", "refuted", "undecided"]
# The formulations that the paper sets beside the product, by the prefix of their names.
ALTERNATIVES = ("prob_", "additive_", "full_sample_")


@dataclass(frozen=True, slots=True)
class Claim:
    """What the difference of two methods' PRR says about one claim, on one task or on their mean.

    Attributes:
        num_above: rivals that the method's interval lies above.
        num_below: rivals that it lies below.
        rival: the strongest of them.
    """

    claim: str
    strategy: str
    column: str
    method: str
    rival: str
    difference: Interval
    verdict: Verdict
    num_rivals: int = 1
    num_above: int = 0
    num_below: int = 0


def verdict(interval: Interval) -> Verdict:
    """Whether "the difference is above zero" is supported, refuted or left open by its interval."""
    if interval.low > 0:
        return "supported"
    if interval.high < 0:
        return "refuted"
    return "undecided"


def claims(strategy: str, prrs: Table) -> list[Claim]:
    """All three of the paper's claims under one strategy."""
    return (
        above_base(strategy, prrs)
        + above_baselines(strategy, prrs)
        + best_on_average(strategy, prrs)
    )


def above_base(strategy: str, prrs: Table) -> list[Claim]:
    """CoCoA against its own base, on every task and on their mean."""
    found = []
    for column, values in prrs.items():
        for name in filter(is_cocoa, values):
            base = known_estimators()[name].base
            if base is not None and base in values:
                found += _claim("above its base", strategy, column, name, base, values)
    return found


def above_baselines(strategy: str, prrs: Table) -> list[Claim]:
    """CoCoA against every other method.

    Supported where it is above all of them, refuted where it is below any.
    """
    found = []
    for column, values in prrs.items():
        for name in filter(is_cocoa, values):
            found += _above_all(strategy, column, name, values)
    return found


def best_on_average(strategy: str, prrs: Table) -> list[Claim]:
    """The best CoCoA against the best other method by the mean over tasks.

    Both are chosen anew in each resample.
    """
    values = prrs.get(MEAN, {})
    ours = list(filter(is_cocoa, values))
    others = [name for name in values if _is_baseline(name)]
    if not ours or not others:
        return []
    interval = difference(_best(values, ours), _best(values, others))
    if interval is None:
        return []
    name, rival = _top(values, ours), _top(values, others)
    return [Claim("best on average", strategy, MEAN, name, rival, interval, verdict(interval))]


def alternatives(strategy: str, prrs: Table) -> list[Claim]:
    """The product against its alternative formulations over the same base."""
    found = []
    for column, values in prrs.items():
        for name in filter(is_cocoa, values):
            for prefix in ALTERNATIVES:
                if (rival := prefix + name) in values:
                    found += _claim("above the alternative", strategy, column, name, rival, values)
    return found


def rao_blackwell(strategy: str, prrs: Table) -> list[Claim]:
    """Each Rao-Blackwellised method against what it is made of."""
    found = []
    for column, values in prrs.items():
        for name in filter(is_rao_blackwell, values):
            plain = name.removeprefix("rb_")
            if plain in values:
                found += _claim("Rao-Blackwellised", strategy, column, name, plain, values)
    return found


def above_other(claim: str, strategy: str, ours: Table, theirs: Table) -> list[Claim]:
    """CoCoA, as such and Rao-Blackwellised, against the same of another similarity or draw.

    Compared on the mean over tasks, or on the only task.
    """
    column = overall(ours)
    if column is None:
        return []
    our_values, their_values = ours[column], theirs.get(column, {})
    found = []
    for name in our_values:
        if name not in their_values or not is_compared(name):
            continue
        interval = difference(our_values[name], their_values[name])
        if interval is not None:
            found.append(Claim(claim, strategy, column, name, name, interval, verdict(interval)))
    return found


def _claim(
    claim: str, strategy: str, column: str, name: str, rival: str, values: ByEstimator
) -> list[Claim]:
    """The claim that one method is above another; none where their difference is undefined."""
    interval = difference(values[name], values[rival])
    if interval is None:
        return []
    return [Claim(claim, strategy, column, name, rival, interval, verdict(interval))]


def _above_all(strategy: str, column: str, name: str, values: ByEstimator) -> list[Claim]:
    found: dict[str, Interval] = {}
    for rival in values:
        if _is_baseline(rival):
            interval = difference(values[name], values[rival])
            if interval is not None:
                found[rival] = interval
    if not found:
        return []
    verdicts = list(map(verdict, found.values()))
    above, below = verdicts.count("supported"), verdicts.count("refuted")
    overall: Verdict = "undecided"
    if below:
        overall = "refuted"
    elif above == len(found):
        overall = "supported"
    strongest = _top(values, list(found))
    claim = Claim(
        claim="above every baseline",
        strategy=strategy,
        column=column,
        method=name,
        rival=strongest,
        difference=found[strongest],
        verdict=overall,
        num_rivals=len(found),
        num_above=above,
        num_below=below,
    )
    return [claim]


def _best(values: ByEstimator, names: Sequence[str]) -> Measured:
    """The largest value of these methods, and the largest of each resample."""
    resampled = [values[name].resampled for name in names]
    return Measured(values[_top(values, names)].value, np.max(resampled, axis=0))


def _top(values: ByEstimator, names: Sequence[str]) -> str:
    return max(names, key=lambda name: values[name].value)


def _is_baseline(name: str) -> bool:
    """True of an estimator that is neither CoCoA nor made of it."""
    estimator = known_estimators()[name]
    return estimator.base is None and estimator.family != "rao_blackwell"
