"""Pure: the JSON schemas that a text can be held to, and the grammar of each.

What a schema says is heeded or refused by place and rule, never ignored. What the library that
follows it cannot represent, or would write otherwise, is written in another way or refused here.
Nothing is fetched and no pattern is run; how long compiling takes shows elsewhere
(`workers.trials`).
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from models.grammar.bounds import (
    Unheld,
    check_constants,
    check_steps,
    checked_counts,
    lowered_numbers,
)
from models.records import Grammar
from models.units.json_schemas import BadSchema, Schemas

MAX_SCHEMA_CHARACTERS = 65_536
_MAX_WRITTEN = 4 * MAX_SCHEMA_CHARACTERS
# Patterns are compared with each other, and with each name.
MAX_NAME_PATTERNS, MAX_PATTERN_CHARACTERS = 32, 1024
# What formats take in llguidance beyond what there is: a second 60, and 29 February.
_LEAP = "(?:..(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29"
_DAY = f"^(?:....-(?:(?:0[13-9]|1.)-..|02-(?:[01].|2[0-8]))|{_LEAP})"
_TAKEN = {"date": _DAY, "time": "^..:..:[0-5]", "date-time": f"{_DAY}...:..:[0-5]"}
# Formats that llguidance holds a string to; JSON Schema lets the others say nothing.
HELD_FORMATS = frozenset({"duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri", *_TAKEN})

# One way of writing each value, so that equal values are equal texts, no key is spelled in two ways
# (é and \u00e9), and no model that is not made for JSON writes blanks until its last token.
# llguidance reads it, here and in vLLM; others do not.
_OPTIONS = "x-guidance"
_WRITTEN = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
    "json_allowed_escapes": 'nrbtf\\"',
}
# Keywords with any value: those that say nothing of what is valid.
_SAYING_NOTHING = frozenset({"title", "description", "default", "examples", "deprecated"})
_SAYING_NOTHING |= {"readOnly", "writeOnly", "contentMediaType", "contentEncoding", "discriminator"}
_SAYING_NOTHING |= {"$comment", "$schema", "additionalItems", "example", "optional"}
# Escapes, and parts of a class, that llguidance reads as Rust's patterns have them.
_ESCAPES = r"\\(?:[AzaU]|[pP](?!\{(?:[A-Z]|gc=|scx?=))(?:\{[^}]*\})?|x\{)"
_CLASS = re.compile(rf"\[(?:\^?\]|(?:\\.|[^\\])*?(?:\[|&&|--|~~|{_ESCAPES}))", re.DOTALL)
# Pieces of a pattern: what engines ignore or refuse, what Rust's alone have (such an escape, flags,
# possessive quantifiers), a class as ECMA-262 has it, an escape, or another sign.
_RUSTS = rf"{_ESCAPES}|\(\?(?:P<|[a-zA-Z-]+\))|[*+?}}]\+"
_PIECES = re.compile(
    rf"(\\[1-9]|\\k<|\(\?<?[=!])|({_RUSTS})|(\[(?:\\.|[^]\\])*\]?)|\\[pPu]\{{[^}}]*\}}|\\.|.",
    re.DOTALL,
)
# What ECMA-262 has for blanks and other signs, in a class, and for what Rust reads otherwise.
_BLANKS = "\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_OTHERS = "\0-\b\x0e-\x1f!-\x9f\xa1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e"
_IN_CLASS = {r"\s": _BLANKS, r"\S": f"{_OTHERS}\u2060-\u2fff\u3001-\ufefe\uff00-\U0010ffff"}
_ALONE = {".": "[^\n\r\u2028\u2029]", r"\s": f"[{_BLANKS}]", r"\S": f"[^{_BLANKS}]"}
# A pattern that is a name.
_NAME = re.compile(r"\^([A-Za-z0-9_ -]*)\$")
_ANY_NAME: tuple[Any, ...] = (True, {}, {"type": "string"})


def grammar_of(schema: Mapping[str, Any]) -> Grammar:
    """The grammar of texts that are valid under a schema.

    Raises:
        BadSchema: it is too large, says what cannot be heeded, points out of itself, or no finite
            value is valid under it.
    """
    schemas = Schemas(schema)
    if len(json.dumps(schema)) > MAX_SCHEMA_CHARACTERS:
        raise BadSchema(f"has more than {MAX_SCHEMA_CHARACTERS} characters of JSON")
    for path, part in schemas.items():
        if isinstance(part, dict):
            _check_keywords(path, part, schemas)
    _check_finite(schemas)
    _check_whole(schemas.values())
    source = json.dumps({**_Writer(schemas).whole(), _OPTIONS: _WRITTEN})
    is_wider = any(isinstance(part, dict) and "oneOf" in part for part in schemas.values())
    if len(source) > _MAX_WRITTEN:
        raise BadSchema("refers to too many parts of itself: those under $defs are read once")
    return Grammar("json_schema", source, is_wider)


def _check_keywords(path: str, schema: Mapping[str, Any], schemas: Schemas) -> None:
    for keyword, value in schema.items():
        if keyword == "const" or schemas.knows(keyword) or keyword in _SAYING_NOTHING:
            is_known = (keyword, value) != ("uniqueItems", True)
            is_known &= keyword != "propertyNames" or value in _ANY_NAME
        else:
            is_known = keyword.startswith("x-") and keyword != _OPTIONS
            is_known |= keyword == "$id" and not path
        if not is_known:
            raise BadSchema(f": the keyword {keyword!r:.60} is not supported", at=path)
    for keyword in ("enum", "anyOf", "oneOf", "allOf", "type"):
        if schema.get(keyword) == []:
            raise BadSchema(f": {keyword} is empty", at=path)
    patterns = schema.get("patternProperties", {})
    for pattern in [*filter(None, [schema.get("pattern")]), *patterns]:
        keyword = "patternProperties" if pattern in patterns else "pattern"
        if what := _fault_of(pattern):
            raise BadSchema(f": {keyword}: {what}", at=path)
    reference = schema.get("$ref", "#")
    if not reference.startswith("#"):
        raise BadSchema(": $ref must point into the schema itself, as #/$defs/name", at=path)
    if "$ref" in schema and schemas.target(path) not in schemas:
        raise BadSchema(f": $ref {reference!r:.60} points to no schema", at=path)


def _fault_of(pattern: str) -> str:
    """What a pattern has that is not supported, or would be read otherwise; "" for nothing."""
    for around, escape, in_class in (piece.groups("") for piece in _PIECES.finditer(pattern)):
        if around:
            return "look-around and backreferences are not supported"
        if escape:
            return f"{escape} is not of ECMA-262, by which patterns are read"
        if _CLASS.match(in_class):
            return "by ECMA-262 a class ends at its first ]: escape [, &&, -- and ~~ in it"
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        return f"it has more than {MAX_PATTERN_CHARACTERS} characters"
    return ""


def _for_rust(pattern: str) -> str:
    """The pattern in signs that mean the same to Rust."""

    def written(piece: re.Match[str]) -> str:
        if piece[3]:
            return re.sub(r"\\.", lambda one: _IN_CLASS.get(one[0], one[0]), piece[0])
        return _ALONE.get(piece[0], piece[0])

    return _PIECES.sub(written, pattern)


def _check_finite(schemas: Schemas) -> None:
    missing: dict[str, set[int]] = {}  # of each schema, the choices that nothing finite is known of
    choosing: dict[str, list[tuple[str, int]]] = {path: [] for path in schemas}
    for path in schemas:
        choices = _choices(path, schemas)
        missing[path] = set(range(len(choices)))
        for number, choice in enumerate(choices):
            for option in choice:
                choosing[option].append((path, number))
    finite = [path for path, unknown in missing.items() if not unknown]
    for option in finite:  # grows meanwhile
        for path, number in choosing[option]:
            if number in missing[path]:
                missing[path].remove(number)
                if not missing[path]:
                    finite.append(path)
    if missing[""]:
        raise BadSchema("no finite value is valid under it: what it requires contains itself")


def _choices(path: str, schemas: Schemas) -> list[list[str]]:
    """Schemas by their paths: of each list one must be finite, so that some value of this one is.

    A value that it lists is finite whatever else it has.
    """
    schema = schemas[path]
    if isinstance(schema, bool) or "enum" in schema or "const" in schema:
        return []
    choices: list[list[str]] = []
    for place in schemas.places(path, "allOf").values():
        choices.append([place])
    if "$ref" in schema:
        choices.append([schemas.target(path)])
    for keyword in filter(schema.__contains__, ("anyOf", "oneOf")):
        choices.append(list(schemas.places(path, keyword).values()))
    if schema.get("type") == "object":
        members = schemas.places(path, "properties")
        for name in schema.get("required", []):
            if name in members:
                choices.append([members[name]])
    if schema.get("type") == "array" and (least := schema.get("minItems", 0)) > 0:
        first = schemas.places(path, "prefixItems")
        for number in range(min(least, len(first))):
            choices.append([first[number]])
        if least > len(first) and "items" in schema:
            choices.append([f"{path}/items"])
    return choices


def _check_whole(schemas: Iterable[Any]) -> None:
    objects = [schema for schema in schemas if isinstance(schema, dict)]
    if sum(len(schema.get("patternProperties", ())) for schema in objects) > MAX_NAME_PATTERNS:
        raise BadSchema(f"has more than {MAX_NAME_PATTERNS} patterns in patternProperties")
    try:
        check_steps(objects)
    except Unheld as error:
        raise BadSchema(str(error)) from None


class _Writer:
    """Writes a schema as llguidance is to read it.

    Schemas that are referred to stand under `$defs`, so that each means the same wherever it
    stands.
    """

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._referred: dict[str, str] = {}  # names under `$defs` by JSON Pointer

    def whole(self) -> dict[str, Any]:
        """The schema of JSON Pointer "".

        Raises:
            BadSchema: a schema in it says what no text can be held to.
        """
        root, targets = self._written(""), dict[str, Any]()
        while len(targets) < len(self._referred):  # each may refer to further ones
            for path, name in list(self._referred.items())[len(targets) :]:
                targets[name] = self._written(path)
        return {**root, "$defs": targets} if targets else root

    def _written(self, path: str) -> Any:
        schema = self._schemas[path]
        if isinstance(schema, bool):
            return schema
        try:
            written = {**lowered_numbers(schema), **checked_counts(schema)}
            for keyword in filter(schema.__contains__, ("type", "required")):
                written[keyword] = schema[keyword]
            if "pattern" in schema:
                written["pattern"] = _for_rust(schema["pattern"])
            if schema.get("format") in HELD_FORMATS:
                written["format"] = schema["format"]
            written |= self._members(path, schema)
            _bound_names(written)
            check_constants([schema.get("const"), schema.get("enum")])
            written |= self._applied(path, schema)
            if pattern := _TAKEN.get(schema.get("format", "")):
                written["allOf"] = [*written.get("allOf", ()), {"pattern": pattern}]
        except Unheld as error:
            raise BadSchema(f": {error}", at=path) from None
        return written

    def _members(self, path: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """The keywords of elements and properties; a pattern that is a name is an optional one."""
        members: dict[str, Any] = {}
        for keyword in filter(schema.__contains__, ("items", "additionalProperties")):
            members[keyword] = self._written(f"{path}/{keyword}")
        if "prefixItems" in schema:
            members["prefixItems"] = self._several(path, "prefixItems")
        properties = self._named(path, "properties")
        patterns = self._named(path, "patternProperties")
        for pattern in list(patterns):
            also = patterns.pop(pattern)
            if name := _NAME.fullmatch(pattern):
                if name[1] in properties:
                    also = {"allOf": [properties[name[1]], also]}
                properties[name[1]] = also
            else:
                patterns[_for_rust(pattern)] = also
        named = {"properties": properties, "patternProperties": patterns}
        return members | {keyword: inner for keyword, inner in named.items() if inner}

    def _applied(self, path: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Its constants and whole schemas, in their order; `oneOf` is held as `anyOf`."""
        applied: dict[str, Any] = {}
        for keyword, value in schema.items():
            if keyword in ("const", "enum"):
                applied[keyword] = value
            elif keyword == "$ref":
                target, name = self._schemas.target(path), str(len(self._referred))
                applied[keyword] = f"#/$defs/{self._referred.setdefault(target, name)}"
            elif keyword in ("allOf", "anyOf"):
                applied[keyword] = self._several(path, keyword)
        if "oneOf" not in schema:
            return applied
        choice = {"anyOf": self._several(path, "oneOf")}
        if "anyOf" not in applied:
            return applied | choice
        return applied | {"allOf": [*applied.get("allOf", []), choice]}

    def _several(self, path: str, keyword: str) -> list[Any]:
        return list(map(self._written, self._schemas.places(path, keyword).values()))

    def _named(self, path: str, keyword: str) -> dict[Any, Any]:
        places = self._schemas.places(path, keyword)
        return dict(zip(places, map(self._written, places.values()), strict=True))


def _bound_names(written: dict[str, Any]) -> None:
    """Leave out `minProperties` where as many are required; `Unheld` where it is more."""
    least, num_required = written.get("minProperties", 0), len(set(written.get("required", ())))
    if least <= num_required:
        written.pop("minProperties", None)
    is_closed = written.get("additionalProperties") is False and "patternProperties" not in written
    if least > num_required + 1 and not is_closed:
        raise Unheld("minProperties is more than are required, and one may come twice")
