"""Rules for comparing two values at one place, from what a JSON schema says of it.

Remote references are never fetched. A pattern is never run: a hostile one would not end.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from operator import ge, gt, le, lt
from typing import Any

from models.units.json_schemas import BadSchema, Schemas, pointer
from models.units.json_values import MAX_DEPTH, Value, escaped, json_type
from models.units.steps import WorkBudget

# Formats that name a thing: another text names another thing, however alike.
NAMING_FORMATS = frozenset(
    {"date", "date-time", "time", "uuid", "email", "uri", "ipv4", "ipv6", "hostname"}
)
_LIMITS = {
    "number": {"minimum": ge, "maximum": le, "exclusiveMinimum": gt, "exclusiveMaximum": lt},
    "string": {"minLength": ge, "maxLength": le},
    "array": {"minItems": ge, "maxItems": le},
    "object": {"minProperties": ge, "maxProperties": le},
}
# The schema of no value.
_NOTHING = {"type": "nothing"}
_NULL = Value(None, (0, 0))


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule by which a leaf is compared."""

    exact: bool = False  # whether strings agree wholly or not at all
    tolerance: float = 0.0  # relative, of numbers


def rules(value: Value, schema: object, steps: WorkBudget | None = None) -> dict[str, Rule]:
    """A rule for each leaf of a value, by JSON Pointer.

    Local references are resolved, all of `allOf` holds, of `anyOf` and `oneOf` the first branch
    that the value is valid under. A place that the schema leaves open has the plain rule; true and
    false leave all open. Without `steps` it takes as many as a request may.

    Raises:
        BadSchema: for `{"type": 7}` and the like.
        InvalidRequest: it takes too many steps.

    >>> from models.units.json_values import parse
    >>> rules(parse('{"km": 7}'), {"properties": {"km": {"x-relative-tolerance": 0.1}}})
    {'/km': Rule(exact=False, tolerance=0.1)}
    """
    with _known_as_bad(schema):
        return {path: _rule(holding) for path, _, holding in _Reader(schema, steps).leaves(value)}


def may_be_null(value: Value, schema: object, steps: WorkBudget | None = None) -> frozenset[str]:
    """JSON Pointers of the leaves of a value that could be null under its schema.

    >>> from models.units.json_values import parse
    >>> may_be_null(parse('{"km": 7, "at": 8}'), {"properties": {"km": {"type": "integer"}}})
    frozenset({'/at'})
    """
    reader, nullable = _Reader(schema, steps), set()
    with _known_as_bad(schema):
        for path, schemas, _ in reader.leaves(value):
            if all(reader.is_valid(each, _NULL) for each in schemas):
                nullable.add(path)
    return frozenset(nullable)


def check_schema(schema: Mapping[str, Any]) -> None:
    """Refuse a schema that says nothing of any value, before there is one.

    Raises:
        BadSchema: names the place, and what cannot stand there.
    """
    reader = _Reader(schema, None)
    for path, part in Schemas(schema).items():
        if not isinstance(part, dict):
            continue
        reference, tolerance = part.get("$ref", ""), part.get("x-relative-tolerance", 0)
        if type(tolerance) not in (int, float):
            raise BadSchema(": x-relative-tolerance is a number", at=path)
        if reference.startswith("#") and reader.target(part) is None:
            raise BadSchema(f": $ref {reference!r:.60} points to no schema", at=path)


@contextmanager
def _known_as_bad(schema: object) -> Iterator[None]:
    """Wrap any error of a keyword with an impossible value in `BadSchema`."""
    try:
        yield
    except (AttributeError, TypeError, ValueError) as error:
        if isinstance(schema, Mapping):
            Schemas(schema)  # says where
        raise BadSchema("a keyword in it has a value that it cannot have") from error


# JSON Pointer of a leaf, the schemas that its parent has for it, and these with all that they refer
# to, one branch of each choice.
_Leaf = tuple[str, Sequence[Any], Sequence[Mapping[str, Any]]]


class _Reader:
    """Reads one schema beside one value."""

    def __init__(self, root: object, steps: WorkBudget | None) -> None:
        self._root = root
        self._steps = steps or WorkBudget()
        # By identity of schema and value. A pair that is being judged counts as invalid meanwhile:
        # references in a circle end, and nothing is judged twice.
        self._judged: dict[tuple[int, int], bool] = {}
        self._plains: dict[int, Any] = {}

    def leaves(self, value: Value) -> Iterator[_Leaf]:
        return self._leaves(value, [self._root], "")

    def _leaves(self, value: Value, schemas: Sequence[Any], path: str) -> Iterator[_Leaf]:
        holding = self._holding(schemas, value, MAX_DEPTH)
        for token, child in value.children():
            inner = [_at(schema, token) for schema in holding]
            yield from self._leaves(child, inner, f"{path}/{escaped(token)}")
        if value.is_leaf():
            yield path, schemas, holding

    def _holding(self, schemas: Sequence[Any], value: Value, depth: int) -> list[Mapping[str, Any]]:
        """These schemas and all that they refer to, one branch of each choice."""
        holding: list[Mapping[str, Any]] = []
        seen = set()
        pending = list(schemas)
        for schema in pending:  # grows meanwhile
            self._steps.take()
            if schema is False:
                schema = _NOTHING
            if not isinstance(schema, dict) or id(schema) in seen:
                continue
            seen.add(id(schema))
            holding.append(schema)
            pending += [self.target(schema), *schema.get("allOf", [])]
            for branches in filter(None, (schema.get("anyOf"), schema.get("oneOf"))):
                valid = (branch for branch in branches if self.is_valid(branch, value, depth))
                pending.append(next(valid, False))
        return holding

    def target(self, schema: Mapping[str, Any]) -> object:
        """The target of a local reference; None without one, or where it points nowhere."""
        reference = schema.get("$ref", "")
        start, *tokens = pointer(reference).split("/")
        if start or not reference.startswith("#"):
            return None
        target = self._root
        for token in tokens:
            if isinstance(target, list):
                target = dict(zip(map(str, range(len(target))), target, strict=True))
            if not isinstance(target, dict):
                return None
            target = target.get(token.replace("~1", "/").replace("~0", "~"))
        return target

    def is_valid(self, schema: object, value: Value, depth: int = MAX_DEPTH) -> bool:
        """True where the value is valid under the keywords that are read here."""
        pair = (id(schema), id(value))
        if pair not in self._judged:
            self._judged[pair] = False
            self._judged[pair] = depth > 0 and self._judge(schema, value, depth - 1)
        return self._judged[pair]

    def _plain(self, value: Value) -> Any:
        if id(value) not in self._plains:
            self._plains[id(value)] = value.plain()
        return self._plains[id(value)]

    def _judge(self, schema: object, value: Value, depth: int) -> bool:
        for part in self._holding([schema], value, depth):
            self._steps.take(len(part.get("enum", ())) + len(part.get("required", ())))
            if not _is_valid_alone(part, value, partial(self._plain, value)):
                return False
            for token, child in value.children():
                if not self.is_valid(_at(part, token), child, depth):
                    return False
        return True


def _is_valid_alone(schema: Mapping[str, Any], value: Value, plain: Callable[[], Any]) -> bool:
    """True where type, constants, limits and required members hold, of the value itself."""
    content, types, constants = value.content, schema.get("type"), schema.get("enum")
    if isinstance(types, str):
        types = [types]
    if "const" in schema:
        constants = [schema["const"]]
    if types and not any(map(partial(_has_type, content), types)):
        return False
    if constants and not any(map(partial(_is_same, plain()), constants)):
        return False
    if isinstance(content, dict) and not content.keys() >= set(schema.get("required", [])):
        return False
    size = content
    if isinstance(content, Sized):
        size = len(content)
    for keyword, holds in _LIMITS.get(json_type(content), {}).items():
        if keyword in schema and not holds(size, schema[keyword]):
            return False
    return True


def _has_type(content: Any, name: object) -> bool:
    if name == "integer":
        return json_type(content) == "number" and content % 1 == 0
    return json_type(content) == name


def _is_same(plain: object, constant: object) -> bool:
    return json_type(constant) == json_type(plain) and constant == plain


def _rule(schemas: Iterable[Mapping[str, Any]]) -> Rule:
    exact, tolerance = False, 0.0
    for schema in schemas:
        is_constant = not schema.keys().isdisjoint(("enum", "const", "pattern"))
        exact |= is_constant or schema.get("format") in NAMING_FORMATS
        tolerance = max(tolerance, float(schema.get("x-relative-tolerance", 0)))
    return Rule(exact, tolerance)


def _at(schema: Mapping[str, Any], token: str | int) -> object:
    """The schema of a member or an element."""
    if isinstance(token, str):
        return schema.get("properties", {}).get(token, schema.get("additionalProperties"))
    first = schema.get("prefixItems", [])
    return (first[token : token + 1] or [schema.get("items")])[0]
