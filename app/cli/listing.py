"""The page of estimators, from their docstrings: what docs/estimators.md holds."""

import inspect

from models.estimators import ESTIMATORS, formula, needs
from models.statistics import STATISTICS

_HEAD = (
    "# Estimators\n"
    "\n"
    "Made from the docstrings by `cocoa estimators`; a test keeps it so. Every estimator "
    "is an uncertainty: higher means less\n"
    "sure. Logarithms are natural. A pair is one forward pass of the similarity or NLI "
    "model over two texts, D the number of\n"
    "distinct samples, T the tokens of an answer; every request also costs the generation "
    "of the answer itself. Whatever\n"
    "several estimators of one request have in common is computed once.\n"
)


def page() -> str:
    """The text of docs/estimators.md."""
    return "\n".join([_HEAD, *map(_section, ESTIMATORS)])


def _section(name: str) -> str:
    body = (inspect.getdoc(ESTIMATORS[name]) or "").partition("\n")[2].strip()
    details, _, use = body.partition("Use: ")
    lines = [
        f"## {name}",
        formula(name),
        *_paragraphs(details),
        f"- Reads: {', '.join(f'`{statistic}`' for statistic in sorted(needs([name])))}",
        f"- Costs: {_cost(name)}",
        f"- Use: {' '.join(use.split())}",
    ]
    return "\n\n".join(lines[:-2]) + "\n" + "\n".join(lines[-2:]) + "\n"


def _paragraphs(text: str) -> list[str]:
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n") if paragraph.strip()]


def _cost(name: str) -> str:
    parts: dict[str, None] = {}
    for statistic in sorted(needs([name])):
        cost = STATISTICS[statistic].cost
        parts |= dict.fromkeys(part for part in cost.split(", ") if part)
    return ", ".join(parts) or "nothing beyond the answer"
