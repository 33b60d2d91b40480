"""Generate `cocoa_client/models.py` and `cocoa_client/options.py` from the OpenAPI document.

    python clients/python/generate.py [FOLDER]

A test holds the two files to what this writes.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from app.main import create_app
from app.settings import Settings
from models.estimators import ESTIMATORS

PACKAGE = Path(__file__).parent / "cocoa_client"
OPERATIONS = (
    "generate_with_uncertainty",
    "score",
    "feedback",
    "livez",
    "readyz",
    "version",
    "estimators",
)
# What methods name themselves, of the bodies whose fields are their options.
_NAMED = {"GenerateRequest": ("prompt", "stream"), "ScoreRequest": ("answer",)}
_OPTIONS = {"GenerateRequest": "GenerateOptions", "ScoreRequest": "ScoreOptions"}
_ESTIMATOR = {"type": "string", "enum": list(ESTIMATORS)}
# What types of options are made of; the service checks bounds.
_KEPT = {"type", "enum", "const", "anyOf", "items", "additionalProperties", "$ref", "description"}

Schema = dict[str, Any]


def main() -> None:
    """Write both files, into the package or the folder named."""
    folder = Path(sys.argv[1]) if sys.argv[1:] else PACKAGE
    for name, text in generated().items():
        (folder / name).write_text(text)


def generated() -> dict[str, str]:
    """Text by name of file."""
    document = create_app(Settings()).openapi()
    schemas = document["components"]["schemas"]
    answers = _reachable(_responses_of(document), schemas)
    bodies = {}
    for name, schema in _reachable([{"$ref": _ref(name)} for name in _NAMED], schemas).items():
        bodies[_OPTIONS.get(name, name)] = _body(schema, _NAMED.get(name, ()))
    bodies |= {"EstimatorName": _ESTIMATOR, "JsonValue": {}}
    return {
        "models.py": _code("Bodies of responses", answers, "pydantic_v2.BaseModel"),
        "options.py": _code("Bodies of requests", bodies, "typing.TypedDict"),
    }


def _responses_of(document: Schema) -> list[Schema]:
    """Schemas of what our operations answer."""
    found = []
    for methods in document["paths"].values():
        for operation in methods.values():
            if operation["operationId"] not in OPERATIONS:
                continue
            for response in operation["responses"].values():
                found += [content.get("schema", {}) for content in response["content"].values()]
    return found


def _reachable(roots: list[Schema], schemas: dict[str, Schema]) -> dict[str, Schema]:
    """What the roots refer to, directly or not, by name."""
    names: set[str] = set()
    pending = set().union(*map(_names_in, roots))
    while pending:
        names |= pending
        pending = set().union(*(_names_in(schemas[name]) for name in pending)) - names
    return {name: schemas[name] for name in sorted(names)}


def _names_in(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(_names_in, schema))
    if not isinstance(schema, dict):
        return set()
    found = set().union(*map(_names_in, schema.values()))
    if isinstance(ref := schema.get("$ref"), str):
        found.add(ref.rpartition("/")[2])
    return found


def _ref(name: str) -> str:
    return f"#/components/schemas/{name}"


def _body(schema: Schema, named: tuple[str, ...]) -> Schema:
    """A body without what the method names itself, and without its checks across fields."""
    if "properties" not in schema:
        return schema
    kept = {}
    for name, field in schema["properties"].items():
        if name not in named:
            kept[name] = _bare(field)
    required = [name for name in schema.get("required", []) if name not in named]
    about = {"type": "object", "description": schema.get("description", "")}
    return {**about, "properties": kept, "required": required}


def _bare(schema: Any) -> Any:
    """A type without bounds, in which estimators have a name of their own."""
    if isinstance(schema, list):
        return [_bare(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    bare = {name: _bare(value) for name, value in schema.items() if name in _KEPT}
    return {"$ref": _ref("EstimatorName")} if bare == _ESTIMATOR else bare


def _without_titles(schema: Any) -> Any:
    """The schema without pydantic's titles, which say what names say."""
    if isinstance(schema, list):
        return [_without_titles(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {}
    for name, value in schema.items():
        if name != "title" or not isinstance(value, str):
            kept[name] = _without_titles(value)
    return kept


def _code(about: str, schemas: dict[str, Schema], kind: str) -> str:
    document = {
        "openapi": "3.1.0",
        "info": {"title": "cocoa-serve", "version": "0"},
        "paths": {},
        "components": {"schemas": _without_titles(schemas)},
    }
    header = f'"""{about}, generated by generate.py from the OpenAPI document."""'
    command = [
        sys.executable,
        "-m",
        "datamodel_code_generator",
        "--input-file-type=openapi",
        f"--output-model-type={kind}",
        f"--custom-file-header={header}",
        "--no-formatters",
        "--target-python-version=3.11",
        "--enum-field-as-literal=all",
        "--use-schema-description",
        "--use-field-description",
        "--use-single-line-docstring",
        "--use-standard-collections",
        "--use-union-operator",
        "--disable-future-imports",
        "--strict-nullable",
        "--keep-model-order",
        "--use-annotated",
        "--use-total-false-for-typed-dict",
    ]
    with tempfile.TemporaryDirectory() as folder:
        given, written = Path(folder, "openapi.json"), Path(folder, "generated.py")
        given.write_text(json.dumps(document))
        subprocess.run([*command, f"--input={given}", f"--output={written}"], check=True)
        return _formatted(written.read_text())


def _formatted(code: str) -> str:
    command = [
        sys.executable,
        "-m",
        "ruff",
        "format",
        "--stdin-filename",
        str(PACKAGE / "_.py"),
        "-",
    ]
    return subprocess.run(command, input=code, text=True, capture_output=True, check=True).stdout


if __name__ == "__main__":
    main()
