"""`cocoa estimators`: the text of docs/estimators.md, made from docstrings."""

import textwrap

import typer

from models.estimators import ESTIMATORS, Estimator, needs

_HEAD = """Made from the docstrings by `cocoa estimators`; a test keeps it so. Every estimator is an
uncertainty: higher means less sure. Logarithms are natural. A pair is one forward pass of the
similarity or NLI model over two texts, D the number of distinct samples, T the tokens of an answer;
every request also costs the generation of the answer itself. Whatever several estimators of one
request have in common is computed once.
"""


def _section(name: str) -> str:
    known = ESTIMATORS[name]
    body, _, use = known.doc.partition("Use: ")
    details = body.split("\n\n")[1:]
    if details[0].removesuffix(".") == known.source:
        del details[0]
    reads = ", ".join(f"`{statistic}`" for statistic in sorted(needs([name])))
    facts = [
        f"- Range: {_range(known)}",
        f"- Reads: {reads}",
        f"- Costs: {known.cost}",
        f"- Source: {known.source}",
        f"- Use: {use}",
    ]
    paragraphs = [f"**{known.title}**: {known.formula}", *filter(None, map(str.strip, details))]
    return (
        "\n\n".join([f"## {name}", *map(_filled, paragraphs), "\n".join(map(_filled, facts))])
        + "\n"
    )


def _range(known: Estimator) -> str:
    low, high = ["no end" if end is None else f"{end:g}" for end in known.range]
    told = f"from {low} to {high}"
    if known.unit:
        told += f", in {known.unit}"
    return told


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


def estimators() -> None:
    """List every estimator with formula, needs, cost and use, as Markdown."""
    typer.echo("\n".join(["# Estimators\n", _HEAD, *map(_section, ESTIMATORS)]), nl=False)
