"""Write docs/errors.md and docs/estimators.md from the code: `python docs/site/reference.py`."""

import ast
import inspect
import textwrap
from pathlib import Path

from models.errors import answered
from models.estimators import ESTIMATORS, Estimator, needs
from models.warnings import Warned

DOCS = Path(__file__).parents[1]
_ESTIMATORS = """# Estimators

Made from the docstrings by `python docs/site/reference.py`; a test keeps it so. Every estimator is
an uncertainty: higher means less sure. Logarithms are natural. A pair is one forward pass of the
similarity or NLI model over two texts, D the number of distinct samples, T the tokens of an answer;
every request also costs the generation of the answer itself. Whatever several estimators of one
request have in common is computed once.
"""
_ERRORS = """# Errors and warnings

Made from the code by `python docs/site/reference.py`; a test keeps it so. Each error is answered in
the shape of [api.md](api.md#errors); every 503 has `Retry-After`.

| status | code | meaning |
|---|---|---|"""
_WARNINGS = """
## Warnings

A response with scores has the codes of what to know before trusting them, in `warnings`.

| code | meaning | what to do |
|---|---|---|"""


def estimators() -> str:
    """Every estimator with formula, needs, cost and use."""
    return "\n".join([_ESTIMATORS, *map(_section, ESTIMATORS)])


def warnings() -> dict[str, tuple[str, str]]:
    """Meaning and remedy of each code, from the text under its name in the class."""
    (table,) = ast.parse(inspect.getsource(Warned)).body
    texts = {}
    code = None
    for node in table.body[1:]:
        if isinstance(node, ast.Assign):
            code = ast.unparse(node.targets[0]).lower()
            texts[code] = ("", "")
        elif code is not None:
            meaning, _, remedy = " ".join(ast.literal_eval(node.value).split()).partition(" Do: ")
            texts[code] = (meaning, remedy)
    return texts


def errors() -> str:
    """Every error and warning with its code and meaning."""
    lines = [_ERRORS]
    for error in sorted(answered(), key=lambda error: error.status):
        text, _, _ = inspect.cleandoc(error.__doc__ or "").partition("\n\nAttributes:")
        lines.append(f"| {error.status} | `{error.code}` | {' '.join(text.split())} |")
    lines.append(_WARNINGS)
    for code, (meaning, remedy) in warnings().items():
        lines.append(f"| `{code}` | {meaning} | {remedy} |")
    return "\n".join([*lines, ""])


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


PAGES = {"errors.md": errors, "estimators.md": estimators}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
