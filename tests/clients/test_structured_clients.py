"""Frameworks that ask for objects and calls of tools, unmodified, in their own environment."""

import pytest

from tests.chaos.cocoa_process import cocoa_serve
from tests.clients.conftest import START_S, WITHOUT_NLI
from tests.clients.test_other_clients import told_to_python
from tests.tiny_models import TOOL_TEMPLATE, byte_tokenizer, random_model

# The first test waits for the service, too.
pytestmark = pytest.mark.timeout(900)

FRAMEWORKS = ("instructor", "pydantic_ai", "langchain")


def test_objects_by_a_schema(url):
    told = told_to_python("structured.py", url)
    for name in FRAMEWORKS:
        assert told[name]["name"] == "Paris", name
        assert 1 <= told[name]["districts"] <= 99, name
    paths = [unit.get("path") for unit in told["units"]]
    assert paths[:3] == [None, "/name", "/districts"]


@pytest.fixture(scope="module")
def calling(tmp_path_factory):
    """URL of a service whose model's template takes tools; its weights are random."""
    folder = tmp_path_factory.mktemp("model")
    random_model("long").save_pretrained(folder)
    byte_tokenizer(chat_template=TOOL_TEMPLATE).save_pretrained(folder)
    with cocoa_serve(COCOA_GENERATION__MODEL=str(folder), **WITHOUT_NLI) as serving:
        serving.wait_ready(START_S)
        yield serving.url


def test_calls_of_tools_that_must_be_called(calling):
    told = told_to_python("tools.py", calling)
    for name in FRAMEWORKS:
        assert told[name].keys() == {"city", "is_far"}, name
        assert told[name]["city"] in ("Paris", "Lyon"), name
    kept = told["chat_cocoa"]
    assert [unit["path"] for unit in kept["units"][1:]] == [
        "/0/function/name",
        "/0/function/arguments/city",
        "/0/function/arguments/is_far",
    ]
    own = told["openai"]
    assert own["arguments"] == own["streamed"]
    assert own["finish_reason"] == own["again"] == "tool_calls"
    assert own["units"] == [
        None,
        "/0/function/name",
        "/0/function/arguments/city",
        "/0/function/arguments/is_far",
    ]
    assert own["sample_tokens"] == 0
    responses = told["responses"]
    assert responses["arguments"] == responses["streamed"] == own["arguments"]
    assert responses["units"] == own["units"]
    assert responses["again"] == ["function_call"]
