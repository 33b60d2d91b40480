"""Verdicts and claims, on scores whose order is known."""

import pytest

from cocoa_lab import claims
from cocoa_lab.comparison import MEAN
from cocoa_lab.metrics import Interval
from tests.unit.lab.test_comparison import BLIND, FAIR, GOOD, NOISE, a_column, a_table


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
    assert claims.verdict(Interval(0.0, low, high)) == expected


def verdicts(found):
    return {(claim.method, claim.column): claim.verdict for claim in found}


@pytest.mark.parametrize(
    ("sp", "cocoa", "expected"),
    [(FAIR, GOOD, "supported"), (GOOD, BLIND, "refuted"), (BLIND, NOISE[0], "undecided")],
    ids=["above", "below", "open"],
)
def test_cocoa_against_its_base(sp, cocoa, expected):
    table = a_table(a_column(sp=sp, cocoa_sp=cocoa, cocoa_ppl=GOOD))
    assert verdicts(claims.above_base("greedy", table)) == {("cocoa_sp", "facts"): expected}


def test_cocoa_against_every_baseline_counts_both_sides_and_names_the_strongest():
    table = a_table(a_column(sp=BLIND, degmat=GOOD, cocoa_sp=FAIR, additive_cocoa_sp=GOOD))
    (claim,) = claims.above_baselines("greedy", table)
    assert (claim.num_above, claim.num_below, claim.num_rivals) == (1, 1, 2), (
        "alternatives are no baselines"
    )
    assert (claim.rival, claim.verdict) == ("degmat", "refuted")
    (claim,) = claims.above_baselines(
        "greedy", a_table(a_column(sp=BLIND, degmat=FAIR, cocoa_sp=GOOD))
    )
    assert claim.verdict == "supported"


def test_what_is_made_of_cocoa_is_no_baseline_of_it():
    columns = [
        a_column(task, sp=BLIND, cocoa_sp=FAIR, rb_inconsistency=GOOD, rb_cocoa_sp=GOOD)
        for task in ("a", "b")
    ]
    table = a_table(*columns)
    found = claims.above_baselines("greedy", table) + claims.best_on_average("greedy", table)
    assert {(claim.method, claim.rival) for claim in found} == {("cocoa_sp", "sp")}


def test_best_on_average_compares_the_best_of_both_sides():
    scores = {"sp": BLIND, "mte": FAIR, "cocoa_sp": BLIND, "cocoa_mte": GOOD}
    columns = [a_column(task, **scores) for task in ("a", "b")]
    (claim,) = claims.best_on_average("mbr", a_table(*columns))
    assert (claim.strategy, claim.column) == ("mbr", MEAN)
    assert (claim.method, claim.rival, claim.verdict) == ("cocoa_mte", "mte", "supported")
    assert claims.best_on_average("mbr", a_table(columns[0])) == [], "one task has no mean"


def test_the_product_against_its_alternatives_over_the_same_base():
    table = a_table(
        a_column(cocoa_sp=GOOD, additive_cocoa_sp=FAIR, prob_cocoa_sp=GOOD, additive_cocoa_ppl=GOOD)
    )
    found = {claim.rival: claim.verdict for claim in claims.alternatives("greedy", table)}
    assert found == {"prob_cocoa_sp": "undecided", "additive_cocoa_sp": "supported"}


def test_what_is_rao_blackwellised_against_what_it_is_made_of():
    table = a_table(
        a_column(
            cocoa_sp=FAIR, rb_cocoa_sp=GOOD, inconsistency=GOOD, rb_inconsistency=GOOD, sp=BLIND
        )
    )
    found = {claim.method: claim for claim in claims.rao_blackwell("mbr", table)}
    assert {name: (one.rival, one.verdict) for name, one in found.items()} == {
        "rb_cocoa_sp": ("cocoa_sp", "supported"),
        "rb_inconsistency": ("inconsistency", "undecided"),
    }


def test_similarity_functions_are_compared_on_what_reads_them():
    ours = a_table(a_column(sp=BLIND, inconsistency=GOOD, cocoa_sp=GOOD))
    theirs = a_table(a_column(inconsistency=FAIR, cocoa_sp=GOOD))
    found = claims.above_other("cross_encoder above jaccard", "greedy", ours, theirs)
    assert verdicts(found) == {
        ("inconsistency", "facts"): "supported",
        ("cocoa_sp", "facts"): "undecided",
    }
    assert {claim.claim for claim in found} == {"cross_encoder above jaccard"}
