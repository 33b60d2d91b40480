"""Generated documentation is up to date."""

import re
from pathlib import Path

import pytest

from app.cli.errors import errors
from app.cli.estimators import estimators
from models.estimators import ESTIMATORS

DOCS = Path(__file__).parents[4] / "docs"


def test_the_page_of_estimators_is_what_the_docstrings_say(capsys):
    estimators()
    page = capsys.readouterr().out
    assert (DOCS / "estimators.md").read_text() == page, (
        "run: cocoa estimators > docs/estimators.md"
    )


def test_the_page_of_errors_is_what_the_classes_say(capsys):
    errors()
    page = capsys.readouterr().out
    assert (DOCS / "errors.md").read_text() == page, "run: cocoa errors > docs/errors.md"


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator_says_where_it_comes_from_and_when_to_use_it(name):
    section = (DOCS / "estimators.md").read_text().split(f"## {name}\n")[1].split("\n## ")[0]

    assert section.rpartition("- Use: ")[2].strip()
    assert re.search(r"\b20\d\d\b", section), "the year of its source"
