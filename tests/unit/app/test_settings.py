"""Settings come from the environment, within bounds, and a misspelt variable is refused by name."""

import os
import re
from dataclasses import fields

import pytest
from pydantic import ValidationError

from app.settings import Settings, load_settings, unknown_variables


@pytest.fixture
def load(monkeypatch):
    """load_settings with exactly these COCOA_ variables."""

    def load(**environment):
        for name in [name for name in os.environ if name.upper().startswith("COCOA_")]:
            monkeypatch.delenv(name)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return load_settings()

    return load


def test_without_variables_the_defaults_hold(load):
    settings = load()
    assert (settings.host, settings.port, settings.log_level) == ("127.0.0.1", 8000, "info")
    assert (settings.generation.engine, settings.generation.model) == ("transformers", "embedded")
    assert (settings.similarity.name, settings.similarity.exact_match) == ("auto", True)


def test_nested_variables_are_read_and_their_neighbours_keep_the_default(load):
    settings = load(
        COCOA_PORT="9",
        COCOA_GENERATION__ENGINE="fake",
        COCOA_GENERATION__MAX_ROWS="3",
        COCOA_SIMILARITY__NAME="fake",
        COCOA_SIMILARITY__EXACT_MATCH="false",
        COCOA_LIMITS__MAX_BODY_BYTES="2048",
        cocoa_log_level="debug",
    )
    assert (settings.port, settings.log_level) == (9, "debug")
    assert (settings.generation.engine, settings.generation.max_rows) == ("fake", 3)
    assert settings.generation.admission_limit == 64
    assert (settings.similarity.name, settings.similarity.exact_match) == ("fake", False)
    assert settings.limits.max_body_bytes == 2048


ORIGINS = {
    "none": ("", ()),
    "one": ("https://app.example", ("https://app.example",)),
    "several": (
        "https://a.example, http://b.example:8080,",
        ("https://a.example", "http://b.example:8080"),
    ),
    "any": ("*", ("*",)),
}


@pytest.mark.parametrize(("text", "origins"), ORIGINS.values(), ids=ORIGINS)
def test_origins_are_separated_by_commas(load, text, origins):
    assert load(COCOA_CORS_ORIGINS=text).cors_origins == origins


@pytest.mark.parametrize("text", ["app.example", "https://a.example/", "https://a.example/path"])
def test_what_no_browser_calls_an_origin_is_refused(load, text):
    with pytest.raises(ValueError, match="COCOA_CORS_ORIGINS"):
        load(COCOA_CORS_ORIGINS=text)


def test_operation_is_at_the_port_of_all_else_unless_it_has_one(load):
    assert load().ops_port is None
    assert load(COCOA_OPS_PORT="9000").ops_port == 9000


MISSPELT = {
    "an unknown name": "COCOA_PROT",
    "one underscore": "COCOA_GENERATION_ENGINE",
    "lower case": "cocoa_prot",
    "an unknown group": "COCOA_CASHE__URL",
    "an unknown name in a group": "COCOA_GENERATION__MODLE",
    "an unknown name in another group": "COCOA_SIMILARITY__NAMES",
    "a group's name in the limits": "COCOA_LIMITS__MAX_BODY",
    "a name below a plain value": "COCOA_PORT__NUMBER",
    "no name": "COCOA_",
}


@pytest.mark.parametrize("name", MISSPELT.values(), ids=list(MISSPELT))
def test_a_variable_that_is_no_setting_is_refused(load, name):
    with pytest.raises(ValueError, match=r"(?i)" + name.split("__")[-1].removeprefix("COCOA_")):
        load(**{name: "1"})


# id: (what was set, what was meant; None where nothing is like it)
MEANT = {
    "a group": ("COCOA_GENERATON__ENGINE", "COCOA_GENERATION__ENGINE"),
    "a field of a group": ("COCOA_GENERATION__ENGIN", "COCOA_GENERATION__ENGINE"),
    "a plain field": ("COCOA_PROT", "COCOA_PORT"),
    "nothing": ("COCOA_ZEBRA", None),
    "nothing, of 900 kB": ("COCOA_" + "X" * 100_000, None),
}


@pytest.mark.parametrize(("name", "meant"), MEANT.values(), ids=list(MEANT))
def test_a_mistyped_variable_is_told_which_one_was_meant(load, name, meant):
    told = f"{name} is no setting"
    if meant is not None:
        told += f"; did you mean {meant}?"
    with pytest.raises(ValueError, match=f"^{re.escape(told)}$"):
        load(**{name: "1"})


def test_variables_of_others_are_left_alone(load):
    assert load(COCOA_TEST_MODEL="x", PORT="1", COCOAPODS="1") == load()


# What Kubernetes sets in a pod beside a Service "cocoa", "cocoa-serve", "cocoa-generation".
@pytest.mark.parametrize("service", ["COCOA", "COCOA_SERVE", "COCOA_GENERATION"])
def test_service_links_of_kubernetes_are_no_settings(load, service):
    links = {
        f"{service}_SERVICE_HOST": "10.0.0.1",
        f"{service}_SERVICE_PORT": "8000",
        f"{service}_SERVICE_PORT_HTTP": "8000",
        f"{service}_PORT": "tcp://10.0.0.1:8000",
        f"{service}_PORT_8000_TCP": "tcp://10.0.0.1:8000",
        f"{service}_PORT_8000_TCP_PROTO": "tcp",
        f"{service}_PORT_8000_TCP_PORT": "8000",
        f"{service}_PORT_8000_TCP_ADDR": "10.0.0.1",
    }
    assert load(**links, COCOA_DRAIN_S="3") == load(COCOA_DRAIN_S="3")
    with pytest.raises(ValueError, match="COCOA_PROT"):
        load(**links, COCOA_PROT="1")


def test_a_variable_like_a_service_link_is_refused_where_there_is_no_service(load):
    with pytest.raises(ValueError, match="COCOA_SERVE_SERVICE_HOST"):
        load(COCOA_SERVE_SERVICE_HOST="10.0.0.1")


def test_all_misspelt_variables_are_named_at_once():
    assert unknown_variables({"COCOA_B": "", "COCOA_A": "", "COCOA_PORT": ""}) == [
        "COCOA_A",
        "COCOA_B",
    ]


# id: (variable, refused, accepted)
BOUNDS = {
    "port": ("COCOA_PORT", ["-1", "65536", "http"], "0"),
    "log_level": ("COCOA_LOG_LEVEL", ["loud"], "error"),
    "drain_s": ("COCOA_DRAIN_S", ["-1", "nan", "inf"], "0.9"),
    "stall_s": ("COCOA_STALL_S", ["-1", "nan"], "0"),
    "max_body_bytes": ("COCOA_LIMITS__MAX_BODY_BYTES", ["1023"], "1024"),
    "max_concurrent_items": ("COCOA_LIMITS__MAX_CONCURRENT_ITEMS", ["0"], "1"),
    "max_text_characters": ("COCOA_LIMITS__MAX_TEXT_CHARACTERS", ["0"], "1"),
    "max_pairs": ("COCOA_LIMITS__MAX_PAIRS", ["0"], "1"),
    "max_units": ("COCOA_LIMITS__MAX_UNITS", ["0"], "1"),
    "max_images": ("COCOA_LIMITS__MAX_IMAGES", ["-1"], "0"),
    "max_image_bytes": ("COCOA_LIMITS__MAX_IMAGE_BYTES", ["0"], "1"),
    "max_image_urls": ("COCOA_LIMITS__MAX_IMAGE_URLS", ["-1", "true"], "1"),
    "max_relevance_characters": ("COCOA_LIMITS__MAX_RELEVANCE_CHARACTERS", ["0"], "1"),
    "max_rows": ("COCOA_GENERATION__MAX_ROWS", ["0"], "1"),
    "max_cache_tokens": ("COCOA_GENERATION__MAX_CACHE_TOKENS", ["0"], "1"),
    "admission_limit": ("COCOA_GENERATION__ADMISSION_LIMIT", ["0"], "1"),
    "threads": ("COCOA_GENERATION__THREADS", ["-1"], "0"),
    "dtype": ("COCOA_GENERATION__DTYPE", ["float8"], "bfloat16"),
    "max_batch_pairs": ("COCOA_SIMILARITY__MAX_BATCH_PAIRS", ["0"], "1"),
}


@pytest.mark.parametrize(("name", "refused", "accepted"), BOUNDS.values(), ids=list(BOUNDS))
def test_a_value_out_of_its_bounds_is_refused_by_name(load, name, refused, accepted):
    for value in refused:
        with pytest.raises(ValueError, match=f"^{name}: "):
            load(**{name: value})
    load(**{name: accepted})


def test_settings_and_their_groups_cannot_be_changed():
    settings = Settings()
    with pytest.raises(ValidationError):
        settings.port = 1
    for group in (settings.generation, settings.similarity, settings.limits):
        with pytest.raises(AttributeError):
            setattr(group, fields(group)[0].name, "x")


@pytest.mark.parametrize("group", ["GENERATION", "SIMILARITY"])
def test_a_url_with_a_password_is_refused_and_not_quoted(load, group):
    with pytest.raises(ValueError, match=r"^COCOA_") as error:
        load(**{f"COCOA_{group}__URL": "http://user:secret@models.example"})
    assert "set the API key instead" in str(error.value)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("group", ["GENERATION", "SIMILARITY"])
def test_a_list_of_urls_is_refused(load, group):
    with pytest.raises(ValueError, match=f"^COCOA_{group}__URL: must be one URL: of a balancer"):
        load(**{f"COCOA_{group}__URL": "http://a:8001,http://b:8001"})


def test_a_setting_of_an_older_release_is_refused_and_not_quoted(load):
    name = "COCOA_ESCALATION__URL"
    with pytest.raises(ValueError, match=f"^{name} is no setting") as error:
        load(**{name: "secret"})
    assert "secret" not in str(error.value)


def test_tools_for_agents_need_their_package(load, monkeypatch):
    assert load(COCOA_MCP="true").mcp
    monkeypatch.setattr("app.plugins.mcp.find_spec", lambda name: None)
    assert not load().mcp
    with pytest.raises(ValueError, match=r"^COCOA_MCP: .*pip install '\.\[mcp\]' in the checkout"):
        load(COCOA_MCP="true")
