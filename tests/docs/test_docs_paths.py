"""Files and folders that the documentation names are there."""

import re

import pytest

from tests.docs.blocks import PAGES, ROOT

# Decisions name what was there when they were taken.
TODAY = [page for page in PAGES if not page.startswith("docs/adr/")]
# Written by benchmarks and not kept; a program of an earlier commit, which the page says.
_ELSEWHERE = {"benchmarks/results/", "benchmarks/products.py"}
_ROOMS = ("app", "models", "workers", "lab", "clients", "docker", "helm", "tests", "benchmarks")
_NAMED = re.compile(rf"`((?:(?:{'|'.join(_ROOMS)}|docs|\.ci)/)[\w./-]*|[\w/]+\.py)`")


@pytest.mark.parametrize("page", TODAY)
def test_what_a_page_names_is_there(page):
    missing = []
    for name in _NAMED.findall((ROOT / page).read_text(encoding="utf-8")):
        if name in _ELSEWHERE or (ROOT / name).exists():
            continue
        if "/" in name or not any(next((ROOT / room).rglob(name), None) for room in _ROOMS):
            missing.append(name)
    assert missing == []
