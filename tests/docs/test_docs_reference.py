"""Generated documentation is up to date."""

import re
from pathlib import Path
from runpy import run_path

import orjson
import pytest

from models.codec import reader, to_json
from models.estimators import ESTIMATORS
from models.records import Generation
from models.warnings import Warned
from tests.results import generation

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "app/plugins/page/files/run.js"
REFERENCES = ROOT / "docs" / "reference"
REFERENCE = run_path(str(ROOT / "docs" / "site" / "reference.py"))
PAGES = REFERENCE["PAGES"]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says(name):
    page = PAGES[name]()
    assert (REFERENCES / name).read_text() == page, "run: python docs/site/reference.py"


def test_every_warning_says_what_was_noticed_and_stands_on_the_page_at_slash():
    _, _, table = PAGE.read_text().partition("const WARNINGS = {\n")
    shown = re.findall(r'^  (\w+): ".+\.",$', table.partition("\n};")[0], re.MULTILINE)

    assert sorted(shown) == sorted(Warned)
    told = REFERENCE["warnings"]()
    assert told.keys() == set(Warned)
    assert all(meaning.endswith((".", ").")) for meaning, _ in told.values())


def test_a_code_that_is_not_in_the_table_cannot_be_raised():
    made = orjson.loads(to_json(generation()))
    read_generation = reader(Generation)
    read = read_generation(orjson.dumps(made | {"warnings": ["units_cut"]}))

    assert read.warnings == (Warned.UNITS_CUT,)
    with pytest.raises(ValueError, match="warnings"):
        read_generation(orjson.dumps(made | {"warnings": ["units_cut_short"]}))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator_says_where_it_comes_from_and_when_to_use_it(name):
    page = (REFERENCES / "estimators.md").read_text()
    section = page.split(f"## {name}\n")[1].split("\n## ")[0]

    assert section.rpartition("- Use: ")[2].strip()
    assert re.search(r"\b20\d\d\b", section), "the year of its source"
