"""The page of estimators, from their docstrings: what docs/estimators.md holds."""

import inspect
import textwrap

from models.estimators import ESTIMATORS, formula, needs
from models.statistics import STATISTICS

_WIDTH = 100
_HEAD = (
    "Made from the docstrings by `cocoa estimators`; a test compares them. Every estimator is an "
    "uncertainty: higher means less sure. Logarithms are natural. A pair is one forward pass of "
    "the similarity or NLI model over two texts, D the number of distinct samples, T the tokens "
    "of an answer; every request also costs the generation of the answer itself. What several "
    "estimators of one request have in common is computed once."
)


def page() -> str:
    """The text of docs/estimators.md."""
    head = f"# Estimators\n\n{_wrapped(_HEAD)}\n"
    return "\n".join([head, *map(_section, ESTIMATORS)])


def _section(name: str) -> str:
    body = (inspect.getdoc(ESTIMATORS[name]) or "").partition("\n")[2].strip()
    details, _, use = body.partition("Use: ")
    lines = [
        f"## {name}",
        _wrapped(formula(name)),
        *_paragraphs(details),
        _item(f"Reads: {', '.join(f'`{statistic}`' for statistic in sorted(needs([name])))}"),
        _item(f"Costs: {_cost(name)}"),
        _item(f"Use: {use}"),
    ]
    return "\n\n".join(lines[:-2]) + "\n" + "\n".join(lines[-2:]) + "\n"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_on_hyphens=False)


def _item(text: str) -> str:
    return textwrap.fill(
        text, _WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False
    )


def _paragraphs(text: str) -> list[str]:
    return [_wrapped(" ".join(part.split())) for part in text.split("\n\n") if part.strip()]


def _cost(name: str) -> str:
    parts: dict[str, None] = {}
    for statistic in sorted(needs([name])):
        cost = STATISTICS[statistic].cost
        parts |= dict.fromkeys(part for part in cost.split(", ") if part)
    return ", ".join(parts) or "nothing beyond the answer"
