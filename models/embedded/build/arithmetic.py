"""Small sums, differences and products.

They are small enough for a model of three million parameters to half-learn.
"""

import math

from models.embedded.build.topics import Topic, weighted_to

MAX_SUM_OPERAND = 99
MAX_DIFFERENCE_OPERAND = 99
MAX_PRODUCT_OPERAND = 15
SHARES = {"sum": 0.5, "difference": 0.35, "product": 0.15}

PROMPTS = (
    "What is {subject}?",
    "Calculate {subject}.",
    "{subject} =",
    "How much is {subject}?",
    "What do you get for {subject}?",
    "Compute: {subject}",
)
ANSWERS = ("{answer}", "It is {answer}.", "{subject} = {answer}", "The answer is {answer}.")


def _topic(kind: str, a: int, b: int, weight: float) -> Topic:
    sign, answer = {"sum": ("+", a + b), "difference": ("-", a - b), "product": ("*", a * b)}[kind]
    # A sum and its mirror image share a key, so that 7 + 12 never gives 12 + 7 away.
    low, high = (b, a) if kind == "difference" else sorted((a, b))
    return Topic(
        task="arithmetic",
        kind=kind,
        subject=f"{a} {sign} {b}",
        answer=str(answer),
        weight=weight,
        fame=math.log10(weight),
        prompt_templates=PROMPTS,
        answer_templates=ANSWERS,
        key=f"{low} {sign} {high}",
    )


def _frequency(a: int, b: int) -> float:
    # Small operands are met more often, as in life; the slope is gentle, or the large ones are
    # never learned.
    return 1.0 / ((a + 20) * (b + 20))


def _operands(kind: str) -> list[tuple[int, int]]:
    if kind == "sum":
        return [(a, b) for a in range(MAX_SUM_OPERAND + 1) for b in range(MAX_SUM_OPERAND + 1)]
    if kind == "difference":
        return [(a, b) for a in range(MAX_DIFFERENCE_OPERAND + 1) for b in range(a + 1)]
    return [(a, b) for a in range(MAX_PRODUCT_OPERAND + 1) for b in range(MAX_PRODUCT_OPERAND + 1)]


def arithmetic_topics() -> list[Topic]:
    """Every pair of operands of every kind, each kind weighted to its share of the task."""
    topics = [_topic(kind, a, b, _frequency(a, b)) for kind in SHARES for a, b in _operands(kind)]
    return weighted_to(topics, SHARES)
