"""Pairs of answers by rule, and how well similarities tell them."""

from collections import Counter

import typer
from typer.testing import CliRunner

from cocoa_lab import pairs
from cocoa_lab.pairs import LabelledPair, labelled_pairs, table

FAKE = {
    "COCOA_GENERATION__ENGINE": "fake",
    "COCOA_SIMILARITY__NAME": "fake",
    "COCOA_NLI__NAME": "fake_nli",
    "COCOA_NLI__MODEL": "fake",
}


def test_there_are_eight_kinds_of_which_half_mean_the_same_and_few_pairs_twice():
    every = labelled_pairs()
    counts = Counter((pair.kind, pair.is_same) for pair in every)
    assert len(counts) == 16
    assert set(counts.values()) == {40}
    assert len({(pair.question, pair.first, pair.second) for pair in every}) > 630
    for pair in every:
        assert pair.first != pair.second


def test_the_table_has_a_ranking_for_each_kind():
    told = [LabelledPair("x", "?", "a", "b", is_same) for is_same in (True, True, False, False)]
    row = table(told, {"good": [0.9, 0.8, 0.1, 0.2], "bad": [0.1, 0.2, 0.9, 0.8]}).splitlines()
    assert row[2].startswith("| `good` | 1.000 | 1.000 |")
    assert row[3].startswith("| `bad` | 0.000 | 0.000 |")


def test_what_answers_add_tells_numbers_negations_units_and_names(tmp_path):
    """The floors that a default beside other models is held to; order is told but for passives."""
    command = typer.Typer()
    command.command()(pairs.main)
    out = tmp_path / "pairs.jsonl"
    result = CliRunner().invoke(command, [str(out), "--similarity", "added"], env=FAKE)
    assert result.exit_code == 0, result.output
    head, _, row = [line.strip("| ").split(" | ") for line in result.output.splitlines()[:3]]
    found = dict(zip(head, row[1:], strict=False))
    assert len(out.read_text().splitlines()) == 640
    for kind in ("paraphrase", "number", "negation", "entity", "part and whole", "unit"):
        assert float(found[kind]) >= 0.9, kind
    assert float(found["order"]) >= 0.85
