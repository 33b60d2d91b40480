"""Write what the chart has twice: `make chart`.

- `cocoa/files/settings.json`: every setting of the service, its variable and its processes, from
  `app.settings`;
- `cocoa/values.schema.json`: the same settings with their bounds, and the other values with the
  types that `cocoa/values.yaml` shows;
- `docs/reference/chart.md`: every value with the comment above it in `cocoa/values.yaml`.

In `values.yaml` a comment above a key describes it; a line `@schema {…}` in it adds to what its
default tells about its type. An empty map or list may hold anything that Kubernetes allows there.
"""

import json
import re
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import yaml

from app.installed import installed
from app.settings import settings_class
from models.engines.protocol import EngineConfig
from models.similarity.protocol import SimilarityConfig

CHART = Path(__file__).parent / "cocoa"
REFERENCE = CHART.parents[1] / "docs" / "reference"

# Which may have each value of `pods` of their own.
_WITH_PODS = ("gateway", "generationWorker", "similarityWorker", "vllm", "redis")
# Settings of a model that its gateway reads, too, or alone.
_GATEWAY_TOO = {"similarity.name"}
_GATEWAY_ONLY = {"generation.admission_limit"}
# Settings of the gateway that the process of the language model reads, too.
_GENERATION_TOO = {"calibrator"}
# The pair models depend on which language model's answers they compare.
_SIMILARITY_TOO = {"generation.engine", "generation.model"}
# Of older charts: the default that an upgrade keeps is taken, and a template refuses the others in
# words.
_GONE: dict[tuple[str, ...], dict[str, Any]] = {
    ("vllm", "prompts"): {"const": ""},
    ("escalation",): {},
    ("limits", "maxClaimTokens"): {},
    ("limits", "maxTextSentences"): {},
    ("generation", "routing"): {},
    ("probes", "consistency"): {},
    ("probes", "sentenceConsistency"): {},
}
_EVERYWHERE = {"host", "port", "log_level", "log_format", "drain_s", "stall_s", "limits"}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of the service.

    Attributes:
        path: in `Settings`, with a dot.
        value: in the chart's values, with a dot.
        variable: of the environment.
        secret: whether it belongs into a Secret.
        processes: that read it where each model has a process of its own.
        schema: of its values.
    """

    path: str
    value: str
    variable: str
    secret: bool
    processes: tuple[str, ...]
    schema: dict[str, Any]


def all_settings() -> list[Setting]:
    """Every setting: in the order of `Settings`, then those of plugins."""
    settings = settings_class(installed())
    document = settings.model_json_schema()
    found = []
    for name, field in settings.model_fields.items():
        schema = _resolved(document["properties"][name], document)
        if not is_dataclass(field.annotation):
            found.append(_setting(name, schema))
            continue
        for nested in fields(field.annotation):
            found.append(_setting(f"{name}.{nested.name}", schema["properties"][nested.name]))
    return found


def _setting(path: str, schema: dict[str, Any]) -> Setting:
    value = ".".join(_camel(part) for part in path.split("."))
    variable = f"COCOA_{path.upper().replace('.', '__')}"
    secret = '"password"' in json.dumps(schema)
    return Setting(path, value, variable, secret, _processes(path), _accepted(schema))


def _processes(path: str) -> tuple[str, ...]:
    group, _, name = path.partition(".")
    of_model = {
        "generation": {one.name for one in fields(EngineConfig)},
        "similarity": {one.name for one in fields(SimilarityConfig)},
    }
    if group in _EVERYWHERE:
        return ("gateway", "generation", "similarity")
    if group == "worker":
        return ("generation", "similarity")
    if path in _GATEWAY_TOO:
        return ("gateway", "similarity")
    if path in _GENERATION_TOO:
        return ("gateway", "generation")
    if path in _SIMILARITY_TOO:
        return ("generation", "similarity")
    if group == "probes":
        return ("generation",)
    if group == "nli":
        return ("similarity",)
    if path not in _GATEWAY_ONLY and name in of_model.get(group, set()):
        return (group,)
    return ("gateway",)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def _resolved(schema: Any, document: dict[str, Any]) -> Any:
    """The schema with what it refers to in its place."""
    if isinstance(schema, list):
        return [_resolved(one, document) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        target = document["$defs"][schema["$ref"].rsplit("/", 1)[1]]
        return _resolved({**target, **{k: v for k, v in schema.items() if k != "$ref"}}, document)
    return {key: _resolved(value, document) for key, value in schema.items()}


def _accepted(schema: Any) -> Any:
    """What values may hold: the bounds without titles, texts and defaults."""
    if isinstance(schema, list):
        return [_accepted(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    dropped = ("title", "default", "description", "format", "writeOnly")
    return {key: _accepted(value) for key, value in schema.items() if key not in dropped}


@dataclass(frozen=True, slots=True)
class Value:
    """One key of values.yaml.

    Attributes:
        path: of keys.
        default: as it stands there.
        text: of its comment.
        extra: of its `@schema` line.
    """

    path: tuple[str, ...]
    default: Any
    text: str
    extra: dict[str, Any]


def all_values() -> list[Value]:
    """Every key of values.yaml that has a comment, in its order."""
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    values = yaml.safe_load(text)
    found, comment, stack = [], [], []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("#"):
            comment.append(stripped.lstrip("#").strip())
            continue
        key = re.match(r"( *)([A-Za-z0-9_]+):", line)
        if key is None:
            comment = []
            continue
        stack = [*stack[: len(key[1]) // 2], key[2]]
        found.append(_value(tuple(stack), values, comment))
        comment = []
    return found


def _value(path: tuple[str, ...], values: Any, comment: list[str]) -> Value:
    for part in path:
        values = values[part]
    notes = [line.removeprefix("@schema ") for line in comment if line.startswith("@schema ")]
    text = " ".join(line for line in comment if not line.startswith("@schema "))
    return Value(path, values, text, json.loads(notes[0]) if notes else {})


def make_schema() -> dict[str, Any]:
    """values.schema.json."""
    root: dict[str, Any] = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the chart cocoa",
        **_closed(),
    }
    for setting in all_settings():
        *groups, name = setting.value.split(".")
        _group(root, groups)["properties"][name] = setting.schema
    for value in all_values():
        _add(root, value.path, value)
        if value.path[0] == "pods":
            for component in _WITH_PODS:
                _add(root, (component, *value.path[1:]), value)
    for (*groups, name), schema in _GONE.items():
        _group(root, groups)["properties"][name] = schema
    # Helm passes these to every chart.
    root["properties"]["global"]["additionalProperties"] = True
    return root


def _add(root: dict[str, Any], path: tuple[str, ...], value: Value) -> None:
    *groups, name = path
    parent = _group(root, groups)
    if "properties" in parent and name not in parent["properties"]:
        parent["properties"][name] = {**_type(value.default, value.extra), **value.extra}


def _closed() -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def _group(root: dict[str, Any], groups: list[str]) -> dict[str, Any]:
    for name in groups:
        if "properties" not in root:
            break  # below a map that may hold anything
        root = root["properties"].setdefault(name, _closed())
    return root


def _type(default: Any, extra: dict[str, Any]) -> dict[str, Any]:
    if "anyOf" in extra or "enum" in extra:
        return {}
    if isinstance(default, dict):
        return _closed() if default and "additionalProperties" not in extra else {"type": "object"}
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return {"type": names[type(default)]}


def make_settings() -> list[dict[str, Any]]:
    """files/settings.json."""
    listed = []
    for one in all_settings():
        keys = {"value": one.value.split("."), "variable": one.variable, "secret": one.secret}
        listed.append(keys | {"processes": one.processes})
    return listed


def make_page() -> str:
    """docs/reference/chart.md."""
    lines = [
        "# Values of the chart",
        "",
        "Made by `make chart` from `values.yaml` and from the service's own settings.",
        "[deploy.md](../deploy.md) shows how to use it.",
        "",
        "## Deployment",
        "",
        "| value | default | |",
        "|---|---|---|",
    ]
    is_setting = {setting.value for setting in all_settings()}
    for value in all_values():
        if isinstance(value.default, dict) and value.default and not value.text:
            continue
        name = ".".join(value.path)
        if name in is_setting:
            continue
        default = "" if isinstance(value.default, dict) and value.default else value.default
        shown = "" if default == "" else f"`{json.dumps(default)}`"
        lines.append(f"| `{name}` | {shown} | {value.text} |")
    lines += [
        "",
        "## Settings of the service",
        "",
        "What they mean, and their defaults: [settings.md](settings.md).",
        "What is not given is not passed on, but for what has a default here. Settings of a model",
        "go to its own process, or, where the chart runs none, to the gateway.",
        "",
        "| value | variable | goes to | default of the chart |",
        "|---|---|---|---|",
    ]
    given = {".".join(value.path): value for value in all_values()}
    for setting in all_settings():
        default = ""
        if setting.value in given:
            value = given[setting.value]
            default = f"`{json.dumps(value.default)}`. {value.text}".removesuffix(" ")
        processes = ", ".join(setting.processes) + (" (Secret)" if setting.secret else "")
        lines.append(f"| `{setting.value}` | `{setting.variable}` | {processes} | {default} |")
    return "\n".join(lines) + "\n"


def made() -> dict[Path, str]:
    """All files, by where they belong."""
    return {
        CHART / "files/settings.json": json.dumps(make_settings(), indent=1) + "\n",
        CHART / "values.schema.json": json.dumps(make_schema(), indent=2) + "\n",
        REFERENCE / "chart.md": make_page(),
    }


if __name__ == "__main__":
    for path, text in made().items():
        path.write_text(text, encoding="utf-8")
