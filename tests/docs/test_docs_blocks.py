"""Every code block of the documentation runs, or says why it is not run here."""

import json

import pytest

from tests.docs.blocks import PAGES, ROOT, all_blocks, blocks_of
from tests.docs.running import Failed, Runner, service

# The first test waits for the service, too.
pytestmark = pytest.mark.timeout(900)

ALL = all_blocks()


@pytest.fixture(scope="module")
def listening(tmp_path_factory):
    with service(tmp_path_factory.mktemp("service")) as found:
        yield found


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(b.page == page and b.reason is None for b in ALL)]
)
def test_every_block_of_a_page_runs(page, listening, tmp_path):
    runner = Runner(tmp_path / "checkout", *listening)
    for block in blocks_of(page):
        if block.reason is not None:
            continue
        try:
            runner.run(block)
        except Failed as failure:
            pytest.fail(f"{block}\n{block.text}\n{failure}", pytrace=False)


def test_blocks_that_are_not_run_say_why(capsys):
    marked = [block for block in ALL if block.reason is not None]
    with capsys.disabled():
        print()
        for block in marked:
            print(f"not run: {block}: {block.reason}")
    assert all(len(block.reason) > 10 for block in marked)
    assert len(marked) < len(ALL) / 2


def test_a_mark_holds_for_the_next_block_alone():
    text = (
        "<!-- not run: needs a GPU of its own -->\n\n    one\n\ntext\n\n    two\n\n"
        "```python\nthree\n```\n\n```\nfour\n```\n- item\n  ```json\n  {}\n  ```\n"
    )
    blocks = blocks_of("page.md", text)
    assert [block.kind for block in blocks] == ["shell", "shell", "python", "text", "json"]
    assert [block.text for block in blocks] == ["one\n", "two\n", "three\n", "four\n", "{}\n"]
    assert [block.reason for block in blocks] == ["needs a GPU of its own", *[None] * 4]
    assert [block.line for block in blocks] == [3, 7, 10, 14, 18]


def test_the_code_of_a_notebook_is_one_block():
    cells = [
        {"cell_type": "code", "source": ["a = 1\n", "b = 2"]},
        {"cell_type": "markdown", "source": ["no code"]},
        {"cell_type": "code", "source": ["print(a)"]},
    ]
    [block] = blocks_of("page.ipynb", json.dumps({"cells": cells}))
    assert (block.kind, block.text, block.reason) == ("python", "a = 1\nb = 2\n\nprint(a)", None)


@pytest.mark.parametrize("page", [page for page in PAGES if page.endswith(".ipynb")])
def test_a_notebook_shows_what_its_cells_gave_when_they_ran_in_order(page):
    cells = json.loads((ROOT / page).read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    kinds = {output["output_type"] for cell in code for output in cell["outputs"]}
    assert kinds <= {"stream", "display_data"}


def test_a_mark_of_a_page_holds_for_all_of_it():
    text = "<!-- not run on this page: needs a cluster -->\n\n    one\n\ntext\n\n    two\n"
    assert {block.reason for block in blocks_of("page.md", text)} == {"needs a cluster"}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("shell", "false\n"),
        ("shell", "curl -s localhost:8000/nowhere\n"),
        ("shell", "false | true\n"),
        ("python", "assert False\n"),
        ("javascript", "throw new Error()\n"),
        ("toml", "[broken\n"),
    ],
)
def test_a_block_that_fails_is_noticed(kind, text, listening, tmp_path):
    [block] = blocks_of("page.md", f"```{kind.replace('shell', 'sh')}\n{text}```\n")
    with pytest.raises((Failed, ValueError)):
        Runner(tmp_path / "checkout", *listening).run(block)


@pytest.mark.parametrize(
    ("shown", "is_it"),
    [
        ('{"a": {"b": [1, 2.0]}}', True),
        ('"a": {"b": [1, 2.01]}', True),
        ('{"a": {"b": [1, 2.2]}}', False),
        ('{"a": {"b": [1]}}', False),
        ('{"c": 1}', False),
    ],
)
def test_shown_output_is_what_is_printed(shown, is_it, tmp_path):
    page = f"""    echo '{{"a": {{"b": [1, 2], "id": 3}}}}'\n\n```json\n{shown}\n```\n"""
    runner = Runner(tmp_path / "checkout", 1, 1)
    command, json_block = blocks_of("page.md", page)
    runner.run(command)
    if is_it:
        runner.run(json_block)
    else:
        with pytest.raises(Failed):
            runner.run(json_block)
