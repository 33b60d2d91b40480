"""Differences, verdicts and claims, on scores whose order is known."""

import numpy as np
import pytest

from app.lab import comparison
from app.lab.comparison import MEAN, Column, Measured, base_of
from models.metrics import Interval, auroc, paired_difference, prr

RNG = np.random.default_rng(0)
CORRECT = (RNG.random(400) < 0.6).astype(float)
NOISE = RNG.random((3, 400))
GOOD, FAIR, BLIND = (
    weight * (1 - CORRECT) + noise for weight, noise in zip((2.0, 0.4, 0.0), NOISE, strict=True)
)


def a_column(task="facts", quality=CORRECT, **scores):
    return Column(task, quality, is_binary=True, scores=scores)


def a_table(*columns, metric=prr):
    return comparison.table(
        metric, columns or [a_column(sp=FAIR, cocoa_sp=GOOD, degmat=BLIND)], num_resamples=200
    )


def test_values_are_the_metrics_own_and_differences_are_paired():
    row = a_table()["facts"]
    assert row["sp"].value == prr(FAIR, CORRECT)
    ours = comparison.difference(row["cocoa_sp"], row["sp"])
    assert ours == paired_difference(GOOD, FAIR, CORRECT, num_resamples=200)
    assert comparison.difference(row["sp"], row["sp"]) == Interval(0.0, 0.0, 0.0)


def test_the_mean_is_over_tasks_each_resampled_for_itself():
    table = a_table(a_column("a", sp=FAIR), a_column("b", sp=GOOD))
    assert table[MEAN]["sp"].value == pytest.approx((prr(FAIR, CORRECT) + prr(GOOD, CORRECT)) / 2)
    halves = [
        comparison.difference(table["a"]["sp"], Measured(0.0, np.zeros(200))),
        table["a"]["sp"].interval,
    ]
    assert halves[0] == halves[1]
    widths = [one.high - one.low for one in (table[name]["sp"].interval for name in ("a", MEAN))]
    assert widths[1] < widths[0]


def test_one_task_has_no_mean_and_the_mean_holds_what_every_task_has():
    assert MEAN not in a_table()
    table = a_table(a_column("a", sp=FAIR), a_column("b", sp=GOOD, ppl=GOOD))
    assert set(table[MEAN]) == {"sp"}


def test_roc_auc_is_of_binary_tasks_only():
    graded = Column("graded", NOISE[0], is_binary=False, scores={"sp": GOOD})
    table = a_table(a_column("a", sp=FAIR), graded, metric=auroc)
    assert set(table) == {"a"}
    assert set(comparison.metrics_of([graded])) == {"prr"}


def test_a_missing_score_counts_as_least_certain_and_a_missing_quality_not_at_all():
    scores, quality = FAIR.copy(), CORRECT.copy()
    scores[:10], quality[10:20] = np.nan, np.nan
    row = a_table(a_column(quality=quality, sp=scores, ppl=np.full(400, np.nan)))["facts"]
    expected = np.where(np.isnan(scores), np.inf, scores)
    assert row["sp"].value == prr(expected[~np.isnan(quality)], quality[~np.isnan(quality)])
    assert "ppl" not in row


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.01, 0.2, "supported"),
        (-0.2, -0.01, "refuted"),
        (-0.1, 0.1, "undecided"),
        (0.0, 0.1, "undecided"),
    ],
)
def test_a_verdict_is_the_intervals_side_of_zero(low, high, expected):
    assert comparison.verdict(Interval(0.0, low, high)) == expected


def verdicts(claims):
    return {(claim.method, claim.column): claim.verdict for claim in claims}


@pytest.mark.parametrize(
    ("sp", "cocoa", "expected"),
    [(FAIR, GOOD, "supported"), (GOOD, BLIND, "refuted"), (BLIND, NOISE[0], "undecided")],
    ids=["above", "below", "open"],
)
def test_cocoa_against_its_base(sp, cocoa, expected):
    table = a_table(a_column(sp=sp, cocoa_sp=cocoa, cocoa_ppl=GOOD))
    assert verdicts(comparison.above_base("greedy", table)) == {("cocoa_sp", "facts"): expected}


def test_cocoa_against_every_baseline_counts_both_sides_and_names_the_strongest():
    table = a_table(a_column(sp=BLIND, degmat=GOOD, cocoa_sp=FAIR, additive_cocoa_sp=GOOD))
    (claim,) = comparison.above_baselines("greedy", table)
    assert (claim.num_above, claim.num_below, claim.num_rivals) == (1, 1, 2), (
        "alternatives are no baselines"
    )
    assert (claim.rival, claim.verdict) == ("degmat", "refuted")
    (claim,) = comparison.above_baselines(
        "greedy", a_table(a_column(sp=BLIND, degmat=FAIR, cocoa_sp=GOOD))
    )
    assert claim.verdict == "supported"


def test_best_on_average_compares_the_best_of_both_sides():
    columns = [
        a_column(task, sp=BLIND, mte=FAIR, cocoa_sp=BLIND, cocoa_mte=GOOD) for task in ("a", "b")
    ]
    (claim,) = comparison.best_on_average("mbr", a_table(*columns))
    assert (claim.strategy, claim.column) == ("mbr", MEAN)
    assert (claim.method, claim.rival, claim.verdict) == ("cocoa_mte", "mte", "supported")
    assert comparison.best_on_average("mbr", a_table(columns[0])) == [], "one task has no mean"


def test_the_product_against_its_alternatives_over_the_same_base():
    table = a_table(
        a_column(cocoa_sp=GOOD, additive_cocoa_sp=FAIR, prob_cocoa_sp=GOOD, additive_cocoa_ppl=GOOD)
    )
    found = {claim.rival: claim.verdict for claim in comparison.alternatives("greedy", table)}
    assert found == {"prob_cocoa_sp": "undecided", "additive_cocoa_sp": "supported"}


def test_similarity_functions_are_compared_on_what_reads_them():
    ours = a_table(a_column(sp=BLIND, consistency=GOOD, cocoa_sp=GOOD))
    theirs = a_table(a_column(consistency=FAIR, cocoa_sp=GOOD))
    found = comparison.above_similarity("cross_encoder", "jaccard", "greedy", ours, theirs)
    assert verdicts(found) == {
        ("consistency", "facts"): "supported",
        ("cocoa_sp", "facts"): "undecided",
    }
    assert {claim.claim for claim in found} == {"cross_encoder above jaccard"}


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("cocoa_sp", "sp"),
        ("full_sample_cocoa_mte", "mte"),
        ("cocoa_ppl_light", "ppl"),
        ("cocoa_fusion", None),
        ("consistency", None),
        ("sp", None),
    ],
)
def test_the_base_of_a_name(name, base):
    assert base_of(name) == base
