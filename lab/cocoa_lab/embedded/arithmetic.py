"""Sums, differences and products, small enough for three million parameters to half-learn."""

import math
from itertools import product

from cocoa_lab.embedded.topics import Topic, weighted_to

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
    # 7 + 12 and 12 + 7 share a key, so that training on the one never gives the other away.
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
    # Small operands are more frequent, as in everyday life, but not by much: otherwise the model
    # would never learn the large ones.
    return 1.0 / ((a + 20) * (b + 20))


def _operands(kind: str) -> list[tuple[int, int]]:
    """Every pair of operands of a kind, in order; differences are never negative."""
    if kind == "sum":
        return list(product(range(MAX_SUM_OPERAND + 1), range(MAX_SUM_OPERAND + 1)))
    if kind == "product":
        return list(product(range(MAX_PRODUCT_OPERAND + 1), range(MAX_PRODUCT_OPERAND + 1)))
    pairs = product(range(MAX_DIFFERENCE_OPERAND + 1), range(MAX_DIFFERENCE_OPERAND + 1))
    return [(a, b) for a, b in pairs if b <= a]


def arithmetic_topics() -> list[Topic]:
    """Every pair of operands of every kind, each kind weighted to its share of the task."""
    topics: list[Topic] = []
    for kind in SHARES:
        for a, b in _operands(kind):
            topics.append(_topic(kind, a, b, _frequency(a, b)))
    return weighted_to(topics, SHARES)
