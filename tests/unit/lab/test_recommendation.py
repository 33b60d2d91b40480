"""The advice at the top of a report."""

import numpy as np
import pytest

from cocoa_lab import comparison
from cocoa_lab.comparison import Column
from cocoa_lab.metrics import prr
from cocoa_lab.rankings import Rankings
from cocoa_lab.recommendation import Halves, halves, recommend, sentence, why_none

RNG = np.random.default_rng(0)
CORRECT = np.arange(200) % 5 > 1
SURE = np.where(CORRECT, 0.0, 1.0)
GOOD, BLIND = SURE + 0.5 * RNG.random(200), RNG.random(200)


def a_column(task="facts", quality=CORRECT, *, is_binary=True, **scores):
    return Column(task, quality.astype(float), is_binary, scores)


def ranked(*columns, left_out=()):
    tables = {"greedy": comparison.table(prr, columns, left_out=left_out, num_resamples=100)}
    reasons = {task: {"greedy": "1 right, 9 wrong"} for task in left_out}
    return Rankings(
        columns={"greedy": columns},
        tables={"prr": tables},
        controls={"prr": {"greedy": {}}},
        by_similarity={},
        by_draw={},
        left_out=reasons,
        undefined_resamples={},
    )


def test_the_best_by_the_mean_is_recommended_with_what_its_halves_are_worth():
    rankings = ranked(
        a_column("facts", sp=BLIND, cocoa_sp=GOOD), a_column("sums", sp=BLIND, cocoa_sp=GOOD)
    )
    found = recommend(rankings)
    mean = rankings.tables["prr"]["greedy"]["mean"]["cocoa_sp"]
    assert (found.estimator, found.column, found.prr) == ("cocoa_sp", "mean", mean.interval)
    assert found.num_equals == 0
    # 60 of 100 are right, and all of them lie below all others.
    assert (found.halves.right_surest, found.halves.share_surest) == (1.0, 0.5)
    assert found.halves.right_others == pytest.approx(0.2)
    assert sentence(found).startswith(
        "Use cocoa_sp: it ranks greedy answers best by the mean over tasks, PRR 1.000 [1.000, "
    )
    assert sentence(found).endswith(
        "it is unsure: of the half that it is surest of, 100 % are right, of the other half 20 %."
    )


def test_what_cannot_be_told_apart_from_the_best_is_counted():
    near = GOOD + 1e-9 * RNG.random(200)
    found = recommend(ranked(a_column(sp=BLIND, ppl=near, cocoa_sp=GOOD)))
    assert (found.column, found.num_equals) == ("facts", 1)
    assert "on facts" in sentence(found)
    assert "Estimators that cannot be told apart from it: 1." in sentence(found)


def test_a_task_that_is_left_out_recommends_nothing():
    few = np.arange(200) == 0
    rankings = ranked(
        a_column("poems", few, sp=1 - few, cocoa_sp=BLIND),
        a_column("facts", sp=BLIND, cocoa_sp=GOOD),
        left_out={"poems"},
    )
    assert recommend(rankings).estimator == "cocoa_sp"
    assert recommend(rankings).column == "facts"
    only = ranked(a_column("poems", few, sp=1 - few), left_out={"poems"})
    assert recommend(only) is None
    assert sentence(None, why_none(only)).startswith(
        "No estimator is recommended, since no task ranks anything"
    )


def test_where_most_tasks_are_left_out_or_prompts_are_few_nothing_is_recommended():
    few = np.arange(200) == 0
    poems = [a_column(name, few, sp=1 - few, cocoa_sp=BLIND) for name in ("a", "b", "c")]
    facts = a_column("facts", sp=BLIND, cocoa_sp=GOOD)
    most_left_out = ranked(*poems, facts, left_out={"a", "b", "c"})
    assert recommend(most_left_out) is None
    assert why_none(most_left_out) == "3 of 4 tasks rank nothing"

    small = ranked(a_column("facts", CORRECT[:99], sp=BLIND[:99], cocoa_sp=GOOD[:99]))
    assert recommend(small) is None
    assert why_none(small) == "99 prompts with a quality are fewer than 100"
    enough = ranked(a_column("facts", CORRECT[:100], sp=BLIND[:100], cocoa_sp=GOOD[:100]))
    assert recommend(enough).estimator == "cocoa_sp"


def test_the_best_of_many_that_rank_by_chance_is_no_better_than_the_default():
    chosen_by_chance = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        blind = {f"blind_{i}": rng.random(200) for i in range(30)}
        found = recommend(ranked(a_column(rb_cocoa_root_sp=rng.random(200), **blind)))
        chosen_by_chance += not found.is_default
        assert found.num_chosen_from == 31
    assert chosen_by_chance <= 2


def test_where_quality_has_degrees_only_the_best_is_named():
    graded = a_column("graded", RNG.random(200), is_binary=False, sp=BLIND)
    found = recommend(ranked(graded))
    assert found.halves is None
    assert sentence(found).startswith("Use sp: it ranks greedy answers best on graded, PRR ")
    assert "surest" not in sentence(found)
    assert "That may be chance." in sentence(found)


@pytest.mark.parametrize(
    ("uncertainty", "quality", "expected"),
    [
        pytest.param([1, 2, 3, 4], [1, 1, 1, 0], Halves(2, 0.5, 1.0, 0.5), id="halves"),
        pytest.param([0, 0, 0, 4], [1, 1, 0, 0], Halves(0, 0.75, 2 / 3, 0.0), id="ties"),
        pytest.param([0, 4, 4, 4], [1, 1, 0, 0], Halves(0, 0.25, 1.0, 1 / 3), id="ties above"),
        pytest.param([1, np.nan, 2, np.nan], [1, 0, 1, 0], Halves(2, 0.5, 1, 0), id="no value"),
        pytest.param([1, 2, 3, 4], [1, np.nan, 0, 1], Halves(1, 1 / 3, 1, 0.5), id="no quality"),
        pytest.param([1, 1, 1], [1, 0, 1], None, id="one uncertainty"),
    ],
)
def test_prompts_are_halved_by_their_uncertainty(uncertainty, quality, expected):
    column = a_column(quality=np.array(quality, float), sp=np.array(uncertainty, float))
    assert halves([column], "sp") == expected


def test_shares_other_than_half_are_told():
    column = a_column(quality=np.arange(160) < 100, sp=(np.arange(160) >= 120).astype(float))
    assert "of the 75 % that it is surest of, 83 % are right, of the others 0 %." in sentence(
        recommend(ranked(column))
    )


def test_the_default_is_kept_unless_another_is_better_by_more_than_chance():
    near = GOOD + 1e-9 * RNG.random(200)
    kept = recommend(ranked(a_column(rb_cocoa_root_sp=near, inconsistency=GOOD, sp=BLIND)))
    assert (kept.estimator, kept.is_default) == ("rb_cocoa_root_sp", True)
    assert sentence(kept).startswith(
        "Keep rb_cocoa_root_sp, the default: no other ranks greedy answers better on facts by more "
        "than chance, PRR "
    )
    beaten = recommend(ranked(a_column(rb_cocoa_root_sp=BLIND, inconsistency=GOOD)))
    assert (beaten.estimator, beaten.is_default) == ("inconsistency", False)
    assert sentence(beaten).startswith("Use inconsistency: it ranks greedy answers best on facts")
    assert "It is the best of 2 estimators; that it beats rb_cocoa_root_sp holds" in sentence(
        beaten
    )
    assert "It is the best of" not in sentence(kept)
    alone = recommend(ranked(a_column(inconsistency=GOOD, sp=BLIND)))
    assert "It is the best of" not in sentence(alone), "the default was not scored"
