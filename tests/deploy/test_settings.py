"""Every setting of the service can be reached from values, whichever settings there are."""

from pathlib import Path

import pytest

from app.settings import load_settings
from helm.generate import all_settings
from tests.deploy.chart import environment, render

SETTINGS = all_settings()
# Where a model is: with these the chart runs no worker for it.
WHERE = ("generation.url", "generation.api", "similarity.url", "similarity.api")
# One of these is accepted by any text.
TEXTS = ("sample", __file__, "redis://host:6379", "https://host", "<a>,</a>")


def candidates(schema):
    """Values that a schema may allow."""
    if "anyOf" in schema:
        (schema,) = [one for one in schema["anyOf"] if one["type"] != "null"]
    if "enum" in schema:
        return schema["enum"]
    if schema["type"] == "boolean":
        return [True]
    if schema["type"] == "array":
        return [[one, one] for one in candidates(schema["items"])]
    if schema["type"] == "string":
        return TEXTS
    least = schema.get("minimum", schema.get("exclusiveMinimum", 0))
    return [least + 1_000_000, least + 1, (least + schema.get("maximum", 1)) / 2]


def text_of(value):
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, list) else str(value)


def sample(setting, monkeypatch):
    """A value that the service accepts."""
    for value in candidates(setting.schema):
        with monkeypatch.context() as patch:
            if "__PASSWORD" in setting.variable:  # heeded with a url only
                patch.setenv(f"{setting.variable.split('__')[0]}__URL", "redis://host")
            patch.setenv(setting.variable, text_of(value))
            try:
                load_settings()
            except ValueError:
                continue
            return value
    raise AssertionError(f"no value for {setting.path}: add one to TEXTS")


@pytest.fixture
def samples(monkeypatch):
    return {one.value: sample(one, monkeypatch) for one in SETTINGS}


def nested(values):
    found = {}
    for path, value in values.items():
        *groups, name = path.split(".")
        place = found
        for group in groups:
            place = place.setdefault(group, {})
        place[name] = value
    return found


# Files are refused where no volume could hold them.
FOLDER = {"name": "files", "mountPath": str(Path(__file__).parent), "source": {"emptyDir": {}}}
MOUNTED = {"pods": {"volumes": [FOLDER]}}


def test_every_setting_reaches_the_process_that_reads_it(samples, monkeypatch):
    given = {path: value for path, value in samples.items() if path not in WHERE}
    objects = render(nested(given) | MOUNTED)
    for setting in SETTINGS:
        if setting.value in WHERE or setting.value == "worker.apiKey":
            continue  # see below, and the tests of what gateway and workers share
        for process in setting.processes:
            found = environment(objects, process)
            assert found.get(setting.variable) == text_of(samples[setting.value]), setting.value


def test_without_workers_the_gateway_is_told_all_settings_of_models(samples, monkeypatch):
    objects = render(nested(samples) | MOUNTED)
    found = environment(objects, "gateway")
    for setting in SETTINGS:
        if not setting.value.startswith("worker."):
            assert found.get(setting.variable) == text_of(samples[setting.value]), setting.value


def test_what_is_secret_stands_in_no_configmap(samples):
    objects = render(nested(samples) | MOUNTED)
    secret = {one.variable for one in SETTINGS if one.secret}
    assert len(secret) >= 5
    for (kind, _), one in objects.items():
        if kind == "ConfigMap":
            assert not secret & one["data"].keys()


def test_a_variable_of_the_default_chart_is_a_setting(monkeypatch):
    objects = render()
    for process in ("gateway", "generation", "similarity"):
        with monkeypatch.context() as patch:
            for name, text in environment(objects, process).items():
                patch.setenv(name, text)
            load_settings()
