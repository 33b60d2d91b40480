"""Pure: the schemas within a JSON schema by JSON Pointer, and what their keywords can have."""

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from models.errors import InvalidRequest
from models.units.json_values import escaped

TYPES = ("null", "boolean", "object", "array", "number", "integer", "string")
# Their names in programs and other APIs, in lower case; "any" is no type at all.
_OTHER_TYPES = {
    **dict.fromkeys(("str", "text", "char"), "string"),
    **dict.fromkeys(("int", "long", "short", "byte"), "integer"),
    **dict.fromkeys(("float", "double", "decimal"), "number"),
    **dict.fromkeys(("dict", "map", "hashmap"), "object"),
    **dict.fromkeys(("list", "tuple", "set", "arraylist"), "array"),
    **{"bool": "boolean", "none": "null", "any": "any"},
}
# Bound of arrays and objects within each other, the schema's own among them.
MAX_DEPTH = 100

_ONE = ("items", "additionalItems", "additionalProperties", "propertyNames")
_SEVERAL = ("prefixItems", "allOf", "anyOf", "oneOf")
_NAMED = ("properties", "patternProperties", "$defs", "definitions")
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
# Python types of what these keywords can have for a value.
_VALUES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(_ONE, (dict, bool)),
    **dict.fromkeys(_SEVERAL, (list,)),
    **dict.fromkeys(_NAMED, (dict,)),
    **dict.fromkeys(("enum", "required"), (list,)),
    **dict.fromkeys(("$ref", "pattern", "format"), (str,)),
    **dict.fromkeys(_COUNTS, (int,)),
    **dict.fromkeys(_NUMBERS, (int, float)),
    "type": (str, list),
    "uniqueItems": (bool,),
}


class BadSchema(InvalidRequest):
    """A schema that is none, or that no text can follow; names the place in it and the reason.

    at: JSON Pointer of the place; None where the whole is meant.
    """

    def __init__(self, reason: str, at: str | None = None) -> None:
        if at is not None:
            reason = f"at #{at:.120}{reason}"
        super().__init__(reason, field="json_schema")


def pointer(reference: str) -> str:
    """The JSON Pointer of a reference into the schema itself, its escapes read. RFC 6901, 6.

    >>> pointer("#/$defs/a%20b")
    '/$defs/a b'
    """
    return unquote(reference.removeprefix("#"))


def _check_depth(value: Any) -> None:
    """Refuse a schema whose readers would recurse too deeply."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += item.values()
            elif isinstance(item, list):
                inner += item
        level = inner
    if level:
        raise BadSchema(f"is nested deeper than {MAX_DEPTH} levels")


class Schemas(dict[str, Any]):
    """Each schema within a schema by its JSON Pointer, the whole first.

    Raises:
        BadSchema: it is nested too deeply, a keyword has a value that it cannot have, or what
            should be a schema is none.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        super().__init__()
        _check_depth(root)
        for path, schema in _walk(root):
            if not isinstance(schema, dict | bool):
                raise BadSchema(" must be a schema, which is an object, true or false", at=path)
            self[path] = schema
            if isinstance(schema, dict):
                for keyword, value in schema.items():
                    _check_value(path, keyword, value)

    @staticmethod
    def knows(keyword: str) -> bool:
        """True for a keyword whose value is checked here."""
        return keyword in _VALUES

    def places(self, path: str, keyword: str) -> dict[str | int, str]:
        """JSON Pointers of the schemas that a keyword has at a path, by their names or numbers.

        >>> Schemas({"properties": {"a/b": True}}).places("", "properties")
        {'a/b': '/properties/a~1b'}
        """
        names = self[path].get(keyword, ())
        if isinstance(names, list):
            names = range(len(names))
        return {name: f"{path}/{keyword}/{escaped(name)}" for name in names}

    def target(self, path: str) -> str:
        """The JSON Pointer of what the schema at a path refers to, which need not be there."""
        return pointer(self[path]["$ref"])


def tidied(root: dict[str, Any], *, names_types: bool = False) -> dict[str, Any]:
    """A schema without null keywords, whole counts as integers, types named; changed in place.

    Raises `BadSchema` where types are to be named, and one is none that is known.
    """
    for path, schema in _walk(root):
        if not isinstance(schema, dict):
            continue
        for keyword, value in list(schema.items()):
            if value is None and keyword not in ("const", "default"):
                del schema[keyword]
            elif keyword in _COUNTS and isinstance(value, float) and value.is_integer():
                schema[keyword] = int(value)
        if names_types and isinstance(kind := schema.get("type"), str | list):
            _name_type(schema, path, kind)
    return root


def _walk(root: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What stands where a schema should, by JSON Pointer, the whole first."""
    pending: list[tuple[str, Any]] = [("", root)]
    while pending:
        path, schema = pending.pop()
        yield path, schema
        if isinstance(schema, dict):
            for keyword, value in schema.items():
                pending += _schemas_of(f"{path}/{escaped(keyword)}", keyword, value)


def _schemas_of(path: str, keyword: str, value: Any) -> list[tuple[str, Any]]:
    """The schemas that a keyword at a path has, by JSON Pointer."""
    if keyword in _ONE:
        return [(path, value)]
    if keyword in _SEVERAL and isinstance(value, list):
        return [(f"{path}/{number}", schema) for number, schema in enumerate(value)]
    if keyword in _NAMED and isinstance(value, dict):
        return [(f"{path}/{escaped(name)}", schema) for name, schema in value.items()]
    return []


def _name_type(schema: dict[str, Any], path: str, kind: str | list[Any]) -> None:
    names = []
    for name in kind if isinstance(kind, list) else [kind]:
        lower = str(name).lower()
        names.append(lower if lower in TYPES else _OTHER_TYPES.get(lower, name))
    if "any" in names:
        del schema["type"]
        return
    schema["type"] = names if isinstance(kind, list) else names[0]
    _check_names(path, "type", names)


def _check_value(path: str, keyword: str, value: Any) -> None:
    types = _VALUES.get(keyword)
    if types is None:
        return
    is_fit = isinstance(value, types) and (bool in types or not isinstance(value, bool))
    is_fit = is_fit and not (keyword in _COUNTS and value < 0)
    is_fit = is_fit and not (keyword == "multipleOf" and value <= 0)
    if not is_fit or (keyword, value) == ("type", []):
        raise BadSchema(f": {keyword} cannot be {json.dumps(value):.40}", at=path)
    if keyword in ("required", "type"):
        _check_names(path, keyword, value if isinstance(value, list) else [value])


def _check_names(path: str, keyword: str, names: list[Any]) -> None:
    for name in names:
        if not isinstance(name, str):
            raise BadSchema(f": {keyword} must be a list of strings", at=path)
        if keyword == "type" and name not in TYPES:
            known = ", ".join(TYPES)
            raise BadSchema(f": type {name!r:.40} is none of {known}", at=path)
