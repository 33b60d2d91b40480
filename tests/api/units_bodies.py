"""Bodies of `/score` with units: JSON of every shape beside schemas of every shape, from a seed."""

import json

NAMES = ("a", "b", "c/d", "e~f", "", "ключ", "$ref", "0")
TEXTS = ("", " ", "x", "Paris", "It is Paris.", "7", "\ud7ff", "2026-03-04", "y" * 300)
NUMBERS = (0, -1, 7, 1.5, 1e300, 10**30, -0.0)
TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
BOUNDS = ("minimum", "maximum", "minLength", "maxItems", "minProperties", "x-relative-tolerance")


def value(random, depth=3):
    """A JSON value."""
    kind = random.random()
    if depth and kind < 0.3:
        count = random.choice((0, 1, 2, 5, *[40] * (depth > 2)))
        return {f"{random.choice(NAMES)}{i}": value(random, depth - 1) for i in range(count)}
    if depth and kind < 0.55:
        return [
            value(random, depth - 1) for _ in range(random.choice((0, 1, 3, *[60] * (depth > 2))))
        ]
    if kind < 0.75:
        return random.choice(TEXTS)
    return random.choice((*NUMBERS, True, False, None))


def schema(random, depth=3):
    """A JSON schema, or what looks like one."""
    if random.random() < 0.15:
        return random.choice((True, False, {}, 7, "x", None, []))
    found = {}
    if random.random() < 0.5:
        found["type"] = random.choice((*TYPES, list(TYPES[:2]), 7))
    if random.random() < 0.2:
        found["enum"] = [
            value(random, 1) for _ in range(random.choice((0, 2, *[300] * (depth > 2))))
        ]
    if random.random() < 0.2:
        found["$ref"] = random.choice(("#", "#/$defs/d", "#/$defs/none", "http://x/y", 7, "#/a~1b"))
    if random.random() < 0.2:
        found[random.choice(BOUNDS)] = random.choice((*NUMBERS, "x"))
    if random.random() < 0.2:
        found[random.choice(("format", "pattern", "const"))] = random.choice(("date", "(a+)+$", 7))
    if not depth:
        return found
    if random.random() < 0.4:
        properties = {name: schema(random, depth - 1) for name in random.sample(NAMES, 2)}
        found["properties"] = properties
    for keyword in ("items", "additionalProperties"):
        if random.random() < 0.3:
            found[keyword] = schema(random, depth - 1)
    for keyword in ("allOf", "anyOf", "oneOf", "prefixItems"):
        if random.random() < 0.2:
            one, count = schema(random, depth - 1), random.choice((0, 1, 3, *[400] * (depth > 1)))
            found[keyword] = [one] * count
    if random.random() < 0.2:
        found["$defs"] = {"d": schema(random, depth - 1)}
    if random.random() < 0.1:
        found["required"] = random.choice(([f"k{i}" for i in range(500)], ["a"], 7))
    return found


def body(random):
    """A body of `/score`: fields, sentences or claims of an answer beside its samples."""
    answer = value(random)
    samples = [answer, value(random), {"a": answer}]
    texts = [json.dumps(one) for one in random.choices(samples, k=random.choice((0, 1, 4, 10)))]
    asked = {
        "answer": json.dumps(answer),
        "samples": [{"text": text} for text in texts],
        "units": random.choice(("fields", "fields", "fields", "sentences")),
        "timeout_s": 5,
    }
    if random.random() < 0.8:
        asked["json_schema"] = schema(random)
    return asked
