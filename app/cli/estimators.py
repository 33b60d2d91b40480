"""`cocoa estimators`: the text of docs/estimators.md, made from docstrings."""

import textwrap

import typer

from models.estimators import ESTIMATORS, needs
from models.statistics import STATISTICS

_HEAD = """Made from the docstrings by `cocoa estimators`; a test keeps it so. Every estimator is an
uncertainty: higher means less sure. Logarithms are natural. A pair is one forward pass of the
similarity or NLI model over two texts, D the number of distinct samples, T the tokens of an answer;
every request also costs the generation of the answer itself. Whatever several estimators of one
request have in common is computed once.
"""


def _section(name: str) -> str:
    body = ESTIMATORS[name].doc.partition("\n")[2].strip()
    details, _, use = body.partition("Use: ")
    paragraphs = [ESTIMATORS[name].formula, *filter(None, map(str.strip, details.split("\n\n")))]
    reads = ", ".join(f"`{statistic}`" for statistic in sorted(needs([name])))
    facts = [f"- Reads: {reads}", f"- Costs: {_cost(name)}", f"- Use: {use}"]
    return (
        "\n\n".join([f"## {name}", *map(_filled, paragraphs), "\n".join(map(_filled, facts))])
        + "\n"
    )


def _filled(text: str) -> str:
    """Lines of up to 100 characters; those after the first of an item of a list are indented."""
    indent = ""
    if text.startswith("- "):
        indent = "  "
    return textwrap.fill(
        " ".join(text.split()),
        100,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _cost(name: str) -> str:
    parts: dict[str, None] = {}
    for statistic in sorted(needs([name])):
        parts |= dict.fromkeys(filter(None, STATISTICS[statistic].cost.split(", ")))
    return ", ".join(parts) or "nothing beyond the answer"


def estimators() -> None:
    """List every estimator with formula, needs, cost and use, as Markdown."""
    typer.echo("\n".join(["# Estimators\n", _HEAD, *map(_section, ESTIMATORS)]), nl=False)
