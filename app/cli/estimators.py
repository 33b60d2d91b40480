"""`cocoa estimators`: what there is, from the docstrings; the same text is docs/estimators.md."""

import inspect

import typer

from models.estimators import ESTIMATORS, formula, needs

# Of M samples with D distinct texts, T tokens in the answer and T_m in a sample.
_COSTS = {
    "sample_texts": "M samples",
    "sample_token_logprobs": "M samples",
    "similarity": "M samples, ≤ 2D pairs",
    "similarity_matrix": "M samples, ≤ D(D - 1) pairs",
    "entailment": "M samples, ≤ D(D - 1) NLI pairs",
    "contradiction": "M samples, ≤ D(D - 1) NLI pairs",
    "answer_entailment": "M samples, ≤ 2D NLI pairs",
    "answer_contradiction": "M samples, ≤ 2D NLI pairs",
    "exact_match": "M samples",
    "token_relevance": "≤ 2T pairs",
    "sample_token_relevance": "M samples, ≤ 2 ΣT_m pairs",
    "p_true_logprob": "one more prefill",
    "predicted_dissimilarity": "a probe",
    "predicted_high_semantic_entropy": "a probe",
}
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


def estimators() -> None:
    """List every estimator with formula, needs, cost and use, as Markdown."""
    typer.echo(page(), nl=False)


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
    parts = dict.fromkeys(
        part for need in sorted(needs([name])) for part in _COSTS.get(need, "").split(", ") if part
    )
    return ", ".join(parts) or "nothing beyond the answer"
