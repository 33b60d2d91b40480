"""Functions that a model is asked to write, and tests by which their programs are judged.

A task of `functions.txt` has a signature with the values of its variants, what is asked, and the
body of its reference. They are graded from what most models can write to what few can.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from cocoa_lab.examples import Example, in_words

TASK = "atlas-code"
_SEED = 53
_NUM_TESTS = 20
_MAX_NEW_TOKENS = 160
_WORDS = (
    *("banana", "river", "window", "orange", "kitten", "market", "garden", "bottle", "planet"),
    *("education", "mouse", "tree", "pepper", "umbrella", "guitar", "onion", "bread", "mountain"),
    *("gate", "ocean", "autobiography", "glass", "map", "oak", "sky", "avocado", "helicopter"),
    "chimney",
)
_ALONE = "Answer with the code alone, without comments and examples."


def _numbers(random: Random) -> list[int]:
    return [random.randint(-9, 20) for _ in range(random.randint(6, 10))]


def _values(random: Random) -> list[int]:
    return random.choices((0, 1, 2), weights=(6, 2, 1), k=random.randint(12, 20))


def _words(random: Random) -> list[str]:
    return random.choices(_WORDS, k=random.randint(4, 8))


def _rows(random: Random) -> list[list[int]]:
    width = random.randint(2, 4)
    return [[random.randint(0, 9) for _ in range(width)] for _ in range(random.randint(2, 4))]


# Of a parameter its type, and how an argument is drawn.
_PARAMETERS: Mapping[str, tuple[str, Callable[[Random], Any]]] = {
    "n": ("int", lambda random: random.randint(1, 99)),
    "numbers": ("list[int]", _numbers),
    "rows": ("list[list[int]]", _rows),
    "text": ("str", lambda random: " ".join(_words(random))),
    "values": ("list[int]", _values),
    "word": ("str", lambda random: random.choice(_WORDS)),
    "words": ("list[str]", _words),
}


def examples() -> list[Example]:
    """Every variant of each task; the reference is a right program, the context its tests."""
    found: list[Example] = []
    text = Path(__file__).with_name("functions.txt").read_text(encoding="utf-8")
    for task in text.split("\n\n"):
        head, asked, *body = task.strip().splitlines()
        signature, *variants = head.split("; ")
        name, _, parameter = signature.removesuffix(")").partition("(")
        for variant in variants:
            program = "\n".join([f"def {signature}:", f"    k = {variant}", *body])
            found.append(_example(name, parameter, asked.format(k=variant), program, len(found)))
    return found


def _example(name: str, parameter: str, asked: str, program: str, number: int) -> Example:
    kind, _ = _PARAMETERS[parameter]
    content = f"Write the Python function `{name}({parameter}: {kind})`. {asked} {_ALONE}"
    messages = ({"role": "user", "content": content},)
    return Example(
        id=f"code-{number:03}",
        task=TASK,
        prompt=in_words(messages),
        references=(program,),
        context=json.dumps({"function": name, "tests": _tests(name, parameter, program)}),
        max_new_tokens=_MAX_NEW_TOKENS,
        messages=messages,
    )


def _tests(name: str, parameter: str, program: str) -> list[tuple[list[Any], Any]]:
    """Arguments, drawn by what the program is, with what the reference returns."""
    random = Random(f"{_SEED} {program}")  # noqa: S311 - draws tests, and no secrets
    scope: dict[str, Any] = {}
    exec(program, scope)  # noqa: S102 - a reference of ours
    _, draw = _PARAMETERS[parameter]
    found = []
    for _ in range(_NUM_TESTS):
        argument = draw(random)
        found.append(([argument], scope[name](argument)))
    return found
