"""Functions that a model is asked to write: fixed, right by other ways, and each by itself."""

import hashlib
import json
from ast import literal_eval
from itertools import product

import numpy as np
import pytest

from cocoa_lab.atlas.functions import examples
from cocoa_lab.datasets import load
from cocoa_lab.programs import checks_of, passes

EVERY = examples()
BY_NAME = {}
for one in EVERY:
    BY_NAME.setdefault(checks_of(one)["function"], []).append(one)


def written(program):
    scope = {}
    exec(program, scope)
    return scope


def stays(n, k):
    people = list(range(1, n + 1))
    while len(people) > 1:
        out = (k - 1) % len(people)
        people = people[out + 1 :] + people[:out]
    return people[0]


def steps_to(word, other):
    if not word or not other:
        return len(word) + len(other)
    if word[0] == other[0]:
        return steps_to(word[1:], other[1:])
    return 1 + min(
        steps_to(word[1:], other), steps_to(word, other[1:]), steps_to(word[1:], other[1:])
    )


def payments(n, k):
    coins = product(range(n // k + 1), range(n // 10 + 1))
    return sum(some * k + tens * 10 <= n for some, tens in coins)


# By another way than that of the reference.
OTHERS = {
    "in_base": np.base_repr,
    "last_one": stays,
    "ways_to_pay": payments,
    "caesar": lambda text, k: text.translate({97 + i: 97 + (i + k) % 26 for i in range(26)}),
    "window_sums": lambda numbers, k: np.convolve(numbers, [1] * k, "valid").tolist(),
    "pairs": lambda numbers, k: (
        (sum(a + b == k for a in numbers for b in numbers) - sum(2 * a == k for a in numbers)) // 2
    ),
}


def test_there_are_two_hundred_and_they_are_the_same_in_every_run():
    assert len(EVERY) == len({one.id for one in EVERY}) == len({one.prompt for one in EVERY}) == 200
    assert len(BY_NAME) == 40
    told = json.dumps([[one.messages, one.references, one.context] for one in EVERY])
    assert hashlib.sha256(told.encode()).hexdigest()[:16] == "7880bb8d7b3d9ff9"
    assert load("atlas-code", limit=None) == EVERY
    with pytest.raises(ValueError, match="atlas-code has no kinds, such as 'cheese'"):
        load("atlas-code/cheese", limit=None)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_reference_passes_its_tests_and_no_others(name):
    first, *variants = BY_NAME[name]
    assert passes(first.references[0], first) == 1.0
    for one, other in product(variants, BY_NAME[name]):
        program = written(one.references[0])[name]
        tests = checks_of(other)["tests"]
        assert all(program(*given) == expected for given, expected in tests) == (one is other)


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_expected_is_right_by_another_way(name):
    for one in BY_NAME[name]:
        k = literal_eval(one.references[0].splitlines()[1].removeprefix("    k = "))
        for [argument], expected in checks_of(one)["tests"]:
            assert OTHERS[name](argument, k) == expected
