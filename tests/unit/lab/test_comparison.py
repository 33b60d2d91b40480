"""Values, their mean and their differences, on scores whose order is known."""

import numpy as np
import pytest

from cocoa_lab import comparison
from cocoa_lab.comparison import MEAN, Column, Measured
from cocoa_lab.metrics import Interval, auroc, prr

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
    rows = np.random.default_rng(0).integers(400, size=(200, 400))
    resampled = [prr(GOOD[i], CORRECT[i]) - prr(FAIR[i], CORRECT[i]) for i in rows]
    assert ours.value == prr(GOOD, CORRECT) - prr(FAIR, CORRECT)
    assert (ours.low, ours.high) == pytest.approx(np.percentile(resampled, [2.5, 97.5]), abs=1e-12)
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


def test_pooled_answers_are_one_task_of_those_that_rank_something():
    shifted = {"sp": GOOD + 10.0}  # each task well ranked, and both together badly
    empty = Column("empty", np.ones(30), is_binary=True, scores={"sp": NOISE[0][:30]})
    pooled = comparison.pooled([a_column("a", sp=GOOD), a_column("b", **shifted), empty])
    assert len(pooled.quality) == 800
    assert prr(pooled.scores["sp"], pooled.quality) == pytest.approx(
        prr(np.concatenate([GOOD, GOOD + 10.0]), np.concatenate([CORRECT, CORRECT]))
    )
    assert prr(pooled.scores["sp"], pooled.quality) < prr(GOOD, CORRECT)
    graded = Column("graded", NOISE[0], is_binary=False, scores={"sp": GOOD})
    for columns in ([a_column("a", sp=GOOD), empty], [a_column("a", sp=GOOD), graded]):
        assert comparison.pooled(columns) is None


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


def answers(right, wrong):
    return np.array([1.0] * right + [0.0] * wrong)


@pytest.mark.parametrize(
    ("quality", "why"),
    [
        pytest.param(answers(10, 10), None, id="ten of each"),
        pytest.param(answers(9, 200), "9 right, 200 wrong", id="nine right"),
        pytest.param(answers(200, 9), "200 right, 9 wrong", id="nine wrong"),
        pytest.param(answers(40, 0), "40 right, 0 wrong", id="all right"),
        pytest.param(np.append(answers(9, 20), np.nan), "9 right, 20 wrong", id="one undefined"),
        pytest.param(np.full(40, 0.25), "quality 0.250 throughout", id="one degree"),
        pytest.param(np.linspace(0, 0.9, 40), None, id="degrees"),
        pytest.param(np.array([0.1, 0.2, 0.3]), "3 prompts", id="too few for PRR"),
        pytest.param(np.full(5, np.nan), "no quality", id="none defined"),
    ],
)
def test_a_task_that_ranks_nothing_says_why(quality, why):
    assert comparison.why_left_out(a_column(quality=quality)) == why


def test_a_task_that_ranks_nothing_keeps_its_column_and_stays_out_of_the_mean():
    quality = answers(1, 399)
    table = a_table(
        a_column("a", sp=FAIR), a_column("b", sp=GOOD), a_column("c", quality=quality, sp=-quality)
    )
    assert table["c"]["sp"].value == 1.0
    assert table[MEAN]["sp"].value == pytest.approx((prr(FAIR, CORRECT) + prr(GOOD, CORRECT)) / 2)
    left_out = comparison.table(
        prr, [a_column("a", sp=FAIR), a_column("b", sp=GOOD)], left_out={"b"}, num_resamples=5
    )
    assert MEAN not in left_out


def test_undefined_resamples_are_those_of_every_estimator():
    quality = np.append(answers(1, 39), np.nan)
    column = a_column(quality=quality, sp=RNG.random(41), ppl=RNG.random(41))
    undefined = comparison.undefined_resamples(column, num_resamples=300, seed=4)
    assert 0.2 < undefined / 300 < 0.5  # (39 / 40)^40 = .363
    for measured in comparison.measure(prr, column, num_resamples=300, seed=4).values():
        assert np.isnan(measured.resampled).sum() == undefined
    constant = a_column(quality=np.ones(40), sp=FAIR[:40])
    assert comparison.undefined_resamples(constant, num_resamples=300) == 300
