"""Values, their mean and their differences, on scores whose order is known."""

import numpy as np
import pytest

from app.lab import comparison
from app.lab.comparison import MEAN, Column, Measured, base_of
from models.metrics import Interval, auroc, paired_difference, prr

RNG = np.random.default_rng(0)
CORRECT = (RNG.random(400) < 0.6).astype(float)
NOISE = RNG.random((3, 400))
WRONG = 1 - CORRECT
GOOD, FAIR, BLIND = 2.0 * WRONG + NOISE[0], 0.4 * WRONG + NOISE[1], 0.0 * WRONG + NOISE[2]


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
    ("name", "base"),
    [
        ("cocoa_sp", "sp"),
        ("full_sample_cocoa_mte", "mte"),
        ("cocoa_ppl_light", "ppl"),
        ("rb_cocoa_mte", "mte"),
        ("rb_consistency", None),
        ("consistency", None),
        ("sp", None),
    ],
)
def test_the_base_of_a_name(name, base):
    assert base_of(name) == base
