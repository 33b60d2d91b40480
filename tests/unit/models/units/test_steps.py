"""Loops over hostile schemas and values end by their steps, whatever their shape."""

import json
import threading

import pytest

from models.errors import InvalidRequest
from models.units.fields import compared
from models.units.json_values import parse
from models.units.schemas import may_be_null, rules
from models.units.steps import MAX_STEPS, WorkBudget

FIELDS = {f"f{i}": i for i in range(1000)}
EMPTY = {"allOf": [{}] * 3000}
# Of each, values times fields are many million steps.
HOSTILE = {
    "branches that refer to many": {
        "$defs": {"c": EMPTY},
        "additionalProperties": {
            "anyOf": [{"$ref": "#/$defs/c", "const": -i} for i in range(2000)]
        },
    },
    "branches within branches": {
        "$defs": {"c": {"oneOf": [{"allOf": [{}] * 100, "const": -i} for i in range(300)]}},
        "additionalProperties": {"anyOf": [{"allOf": [{"$ref": "#/$defs/c"}, {}]}] * 300},
    },
    "long enumerations": {
        "additionalProperties": {"anyOf": [{"enum": list(range(-9000, 0))}] * 900}
    },
    "long lists of required names": {
        "anyOf": [{"required": [f"g{i}" for i in range(1000)], "const": i} for i in range(2000)]
    },
}


@pytest.mark.parametrize("schema", HOSTILE.values(), ids=HOSTILE)
def test_a_schema_of_too_many_values_is_refused_after_so_many_steps(schema):
    answer = parse(json.dumps(FIELDS))
    for read in (rules, may_be_null):
        steps = WorkBudget(100_000)
        with pytest.raises(InvalidRequest, match="takes more than 100000 steps"):
            read(answer, schema, steps)
        assert steps.num_taken < 100_000 + 10_000
    with pytest.raises(InvalidRequest):
        compared([], answer, [answer], schema, lambda a, b: 0.0, WorkBudget(100_000))


def test_elements_of_arrays_that_are_matched_take_steps():
    answer, sample = (parse(json.dumps([[i + d] for i in range(90)])) for d in (0, 100))
    steps = WorkBudget(5000)
    with pytest.raises(InvalidRequest):
        compared([], answer, [sample], True, lambda a, b: 0.0, steps)


def test_a_large_answer_under_a_large_schema_is_within_the_bound():
    line = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
    kinds = [{**line, "properties": {**line["properties"], "k": {"const": k}}} for k in range(20)]
    schema = {"type": "array", "items": {"anyOf": kinds}}
    lines = [[{"name": f"{i}", "k": i % 20} for i in range(d, 300 + d)] for d in range(11)]
    answer, *samples = (parse(json.dumps(one)) for one in lines)
    steps = WorkBudget()
    compared([], answer, samples, schema, lambda a, b: 0.0, steps)
    assert 10_000 < steps.num_taken < MAX_STEPS


def test_steps_that_are_ended_from_elsewhere_end_at_the_next():
    steps, ended = WorkBudget(10**12), threading.Event()

    def take_all():
        while True:
            steps.take()

    def work():
        with pytest.raises(InvalidRequest):
            take_all()
        ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    steps.end()
    assert ended.wait(60)
    thread.join()
