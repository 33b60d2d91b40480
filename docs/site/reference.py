"""Write the tables of docs/reference/ from the code: `python docs/site/reference.py`.

Those of the chart's values are written by `python helm/generate.py`.
"""

import ast
import inspect
import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from app.http.metrics import COUNTERS, GAUGES, HISTOGRAMS, OF_WORKERS, Row
from app.installed import installed
from app.main import create_app
from app.settings import Settings, settings_class
from models.errors import answered
from models.estimators import ESTIMATORS, Estimator, needs
from models.warnings import Warned

PAGES_IN = Path(__file__).parents[1] / "reference"
MEANINGS = Path(__file__).with_name("settings.toml")
_ESTIMATORS = """# Estimators

Made from the docstrings by `python docs/site/reference.py`; a test keeps it so. Every estimator is
an uncertainty: higher means less sure. Logarithms are natural. A pair is one forward pass of the
similarity or NLI model over two texts, D the number of distinct samples, T the tokens of an answer;
every request also costs the generation of the answer itself. Whatever several estimators of one
request have in common is computed once.
"""
_ERRORS = """# Errors and warnings

Made from the code by `python docs/site/reference.py`; a test keeps it so. Each error is answered in
the shape of [api.md](../api.md#errors); every 503 has `Retry-After`.

| status | code | meaning |
|---|---|---|"""
_WARNINGS = """
## Warnings

A response with scores has the codes of what to know before trusting them, in `warnings`.

| code | meaning | what to do |
|---|---|---|"""
_MADE = "Made from the code by `python docs/site/reference.py`; a test keeps it so."
_SETTINGS = f"""# Settings

{_MADE}

Everything is set by environment variables. An unknown variable with the prefix `COCOA_` is refused
at the start, and so is a value out of its bounds. Why and when to set them:
[configuration.md](../configuration.md)."""
_FIELDS = f"""# Fields

{_MADE}

What they are for: [api.md](../api.md). Null stands for the default in every field of a request that
has one. OpenAI's fields: [openai.md](../openai.md)."""
_SCHEMAS = {
    "GenerateRequest": "POST /generate-with-uncertainty",
    "ScoreRequest": "POST /score: what it takes beyond these",
    "ClientSample": "A sample that is brought along",
    "ClientClaim": "A claim",
    "GenerateResponse": "The response",
    "Provenance": "Provenance",
    "DecisionInfo": "A decision",
    "UnitInfo": "A unit",
    "Sample": "A sample",
    "Token": "A token",
    "FeedbackRequest": "POST /feedback",
    "Version": "GET /version",
}
_METRICS = f"""# Metrics

{_MADE}

What to watch: [operations.md](../operations.md#metrics). A gateway has all of them; the column
*worker* says which workers have the metric, too. Every process also has
`cocoa_metric_failures_total`, how often a metric could not be told, and on Linux
`process_cpu_seconds_total`, `process_resident_memory_bytes` and the like.

| metric | kind | labels | worker | meaning |
|---|---|---|---|---|"""
_BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}


def estimators() -> str:
    """Every estimator with formula, needs, cost and use."""
    return "\n".join([_ESTIMATORS, *map(_section, ESTIMATORS)])


def warnings() -> dict[str, tuple[str, str]]:
    """Meaning and remedy of each code, from the text under its name in the class."""
    (table,) = ast.parse(inspect.getsource(Warned)).body
    texts = {}
    code = None
    for node in table.body[1:]:
        if isinstance(node, ast.Assign):
            code = ast.unparse(node.targets[0]).lower()
            texts[code] = ("", "")
        elif code is not None:
            meaning, _, remedy = " ".join(ast.literal_eval(node.value).split()).partition(" Do: ")
            texts[code] = (_from_here(meaning), _from_here(remedy))
    return texts


def errors() -> str:
    """Every error and warning with its code and meaning."""
    lines = [_ERRORS]
    for error in sorted(answered(), key=lambda error: error.status):
        text, _, _ = inspect.cleandoc(error.__doc__ or "").partition("\n\nAttributes:")
        lines.append(f"| {error.status} | `{error.code}` | {_from_here(' '.join(text.split()))} |")
    lines.append(_WARNINGS)
    for code, (meaning, remedy) in warnings().items():
        lines.append(f"| `{code}` | {meaning} | {remedy} |")
    return "\n".join([*lines, ""])


def settings() -> str:
    """Every setting with its variable, default, bounds and meaning.

    Raises:
        KeyError: a setting has no meaning in settings.toml.
        ValueError: settings.toml has one that is no setting.
    """
    meanings = tomllib.loads(MEANINGS.read_text(encoding="utf-8"))
    document = settings_class(installed()).model_json_schema()
    groups: dict[str, dict[str, Any]] = {"service": {}}
    for name, schema in document["properties"].items():
        if "$ref" in schema:
            groups[name] = document["$defs"][schema["$ref"].rpartition("/")[2]]["properties"]
        else:
            groups["service"][name] = schema
    lines = [_SETTINGS]
    for group, names in groups.items():
        lines += [f"\n## {group.capitalize()}\n", "| variable | default | values | meaning |"]
        lines.append("|---|---|---|---|")
        prefix = "COCOA_" if group == "service" else f"COCOA_{group.upper()}__"
        for name, schema in names.items():
            told = f"| {_shown(schema.get('default'))} | {_values(schema)} "
            lines.append(f"| `{prefix}{name.upper()}` {told}| {meanings[group].pop(name)} |")
    if left := {group: list(names) for group, names in meanings.items() if names}:
        raise ValueError(f"settings.toml has what is no setting: {left}")
    return "\n".join([*lines, ""])


def fields() -> str:
    """Every field of the main endpoints' bodies and responses."""
    schemas = create_app(Settings()).openapi()["components"]["schemas"]
    lines, seen = [_FIELDS], set()
    for name, title in _SCHEMAS.items():
        lines += [f"\n## {title}\n", "| field | values | default | meaning |", "|---|---|---|---|"]
        for field, schema in schemas[name]["properties"].items():
            if (title.startswith("POST /score") and field in seen) or not _text(schema):
                continue
            seen.add(field)
            default = _shown(schema.get("default"))
            lines.append(f"| `{field}` | {_values(schema)} | {default} | {_text(schema)} |")
    return "\n".join([*lines, ""])


def metrics() -> str:
    """Every metric with its kind, labels and meaning."""
    lines = [_METRICS]
    counters: dict[str, Row] = {}
    for name, counter in create_app(Settings()).state.service.telemetry.counters.items():
        known = COUNTERS.get(name)
        counters[name] = known or Row(counter._documentation, counter._labelnames)
    kinds = {"counter": counters, "gauge": GAUGES, "histogram": HISTOGRAMS}
    for kind, rows in kinds.items():
        for name, row in rows.items():
            told = ", ".join(map(_label, row.labels, (*row.values, *[()] * len(row.labels))))
            workers = ", ".join(role for role, names in OF_WORKERS.items() if name in names)
            total = "_total" if kind == "counter" else ""
            lines.append(f"| `cocoa_{name}{total}` | {kind} | {told} | {workers} | {row.text} |")
    return "\n".join([*lines, ""])


def _label(name: str, values: Sequence[str]) -> str:
    if not 1 < len(values) < 8:
        return f"`{name}`"
    return f"`{name}` ({', '.join(values)})"


def _text(schema: Mapping[str, Any]) -> str:
    text = " ".join(schema.get("description", "").split())
    return text.replace("|", "\\|")


def _shown(default: Any) -> str:
    """A default of JSON as it is written in a table; nothing where there is none."""
    if default in (None, "", [], {}):
        return ""
    if default is True or default is False:
        return f"`{str(default).lower()}`"
    return f"`{default}`"


def _values(schema: Mapping[str, Any]) -> str:
    """What a schema lets a value be, but for null and patterns."""
    return " or ".join(dict.fromkeys(_kinds(schema)))


def _kinds(schema: Mapping[str, Any]) -> Iterator[str]:
    for choices in ("anyOf", "oneOf"):
        for branch in schema.get(choices, ()):
            yield from _kinds(branch)
    if "enum" in schema:
        shown = ", ".join(f"`{value}`" for value in schema["enum"][:9])
        yield shown + (", …" if len(schema["enum"]) > 9 else "")
    elif "const" in schema:
        yield f"`{schema['const']}`"
    elif "$ref" in schema:
        yield schema["$ref"].rpartition("/")[2]
    elif schema.get("type", "null") != "null":
        yield " ".join([schema["type"], *_bounds(schema)])


def _bounds(schema: Mapping[str, Any]) -> Iterator[str]:
    for key, sign in _BOUNDS.items():
        if abs(schema.get(key, 2**31)) < 2**31:
            yield f"{sign} {schema[key]:g}"
    for key, what in (("maxLength", "characters"), ("maxItems", "items")):
        if key in schema:
            yield f"≤ {schema[key]} {what}"
    if "items" in schema:
        yield f"of {_values(schema['items'])}"


def _from_here(text: str) -> str:
    """A text whose links lead from docs/, as one whose links lead from docs/reference/."""
    return re.sub(r"\]\((?=[a-z-]+\.md)", "](../", text)


def _section(name: str) -> str:
    known = ESTIMATORS[name]
    body, _, use = known.doc.partition("Use: ")
    details = body.split("\n\n")[1:]
    if details[0].removesuffix(".") == known.source:
        del details[0]
    reads = ", ".join(f"`{statistic}`" for statistic in sorted(needs([name])))
    facts = [
        f"- Range: {_range(known)}",
        f"- Reads: {reads}",
        f"- Costs: {known.cost}",
        f"- Source: {known.source}",
        f"- Use: {use}",
    ]
    paragraphs = [f"**{known.title}**: {known.formula}", *filter(None, map(str.strip, details))]
    return (
        "\n\n".join([f"## {name}", *map(_filled, paragraphs), "\n".join(map(_filled, facts))])
        + "\n"
    )


def _range(known: Estimator) -> str:
    low, high = ["no end" if end is None else f"{end:g}" for end in known.range]
    told = f"from {low} to {high}"
    if known.unit:
        told += f", in {known.unit}"
    return told


def _filled(text: str) -> str:
    """Lines of up to 100 characters; those after the first of an item of a list are indented."""
    indent = ""
    if text.startswith("- "):
        indent = "  "
    return textwrap.fill(
        " ".join(text.split()),
        100,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


PAGES = {
    "errors.md": errors,
    "estimators.md": estimators,
    "fields.md": fields,
    "metrics.md": metrics,
    "settings.md": settings,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (PAGES_IN / name).write_text(page(), encoding="utf-8")
