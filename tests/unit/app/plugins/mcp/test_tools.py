"""The tools by the SDK's own client, in memory, over an API that is written down here."""

import pytest
from mcp.client.client import Client

from app.plugins.mcp.tools import make_server

pytestmark = pytest.mark.anyio

SCORED = {
    "id": "r1",
    "text": "Serbia",
    "estimator": "cocoa_sp",
    "uncertainty": 0.25,
    "confidence": 0.8,
    "reasons": {},
    "warnings": ["top_p"],
    "usage": {"prompt_tokens": 3},
}
CHAT = [{"role": "user", "content": "Where is Pirot?"}]


def field(path, text, uncertainty, **more):
    return {"kind": "field", "path": path, "text": text, "uncertainty": uncertainty} | more


@pytest.fixture
def api():
    """What was asked, and what is answered next: a status and a response."""

    class Api:
        asked = None
        response = (200, SCORED)

        def __init__(self):
            self.all_asked = []

        async def post(self, path, body):
            self.asked = path, body
            self.all_asked.append(self.asked)
            return self.response

    return Api()


async def call(api, tool, **arguments):
    async with Client(make_server(api.post)) as client:
        return await client.call_tool(tool, arguments)


async def test_each_tool_says_what_it_takes_and_returns(api):
    async with Client(make_server(api.post)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == {"answer", "check", "check_fields", "report"}
    for tool in tools.values():
        properties = [*tool.input_schema["properties"].values()]
        properties += tool.output_schema["properties"].values()
        assert tool.description
        assert all(one.get("description") for one in properties), tool.name
    assert tools["answer"].annotations.read_only_hint
    assert not tools["report"].annotations.read_only_hint


async def test_an_answer_is_asked_in_a_chat_and_its_verdict_typed(api):
    decided = {"accept": False, "guarantee": "at most 10 % …", "action": "verify", "reason": "…"}
    api.response = 200, SCORED | {"decision": decided | {"threshold": 1}}
    result = await call(api, "answer", question="Where is Pirot?", target_error=0.1)
    assert api.asked == (
        "/generate-with-uncertainty",
        {"messages": CHAT, "mode": "full", "target_error": 0.1},
    )
    expected = {name: value for name, value in SCORED.items() if name != "usage"}
    assert result.structured_content == expected | decided | {"refusal": None}


async def test_without_a_target_error_nothing_is_decided(api):
    result = await call(api, "check", question="Q", answer="A", as_prompt=True)
    assert api.asked == ("/score", {"prompt": "Q", "answer": "A"})
    told = result.structured_content
    assert (told["accept"], told["grounded"], told["sentences"]) == (None, None, [])


HELD = {
    "grounded": 0.5,
    "units": [
        {"kind": "answer", "text": "It is. In Rome."},
        {
            "kind": "sentence",
            "text": "It is.",
            "documents": {"grounded": 1.0, "id": "1", "span": [3, 8], "missing": []},
        },
        {
            "kind": "sentence",
            "text": "In Rome.",
            "documents": {"grounded": 0.0, "missing": ["Rome"]},
        },
    ],
}


@pytest.mark.parametrize("as_prompt", [False, True])
async def test_documents_are_shown_and_each_sentence_is_held_to_them(api, as_prompt):
    api.response = 200, SCORED | HELD
    documents = ["No.", "So it is there."]
    asked = {"question": "Where is Pirot?", "answer": "A", "as_prompt": as_prompt}
    result = await call(api, "check", **asked, documents=documents)

    body = {"messages": CHAT, "answer": "A", "documents": documents}
    if as_prompt:
        body = {"prompt": CHAT[0]["content"], "answer": "A", "documents": documents}
        body["documents_in"] = "prompt"
    # First by rules alone; then the model is asked, and the whole is judged.
    shown = body | {"units": "answer", "explain": False}
    assert api.all_asked == [("/score", body), ("/score", shown)]
    told = result.structured_content
    assert (told["uncertainty"], told["grounded"]) == (0.25, 0.5)
    assert told["sentences"] == [
        {"text": "It is.", "grounded": 1.0, "document": 1, "quote": "it is", "missing": []},
        {
            "text": "In Rome.",
            "grounded": 0.0,
            "document": None,
            "quote": None,
            "missing": ["Rome"],
        },
    ]


async def test_fields_come_with_the_least_sure_first(api):
    units = [
        {"kind": "answer", "text": "{}", "uncertainty": 9.0},
        field("/a", "1", 0.5, support=0.9, alternatives=[{"value": "2", "share": 0.1}]),
        field("/b", '"x"', None),
        field("/c", "true", 2.0, support=0.0, alternatives=[{"value": None, "share": 1.0}]),
    ]
    api.response = 200, SCORED | {"units": units}
    schema = {"type": "object"}
    result = await call(api, "check_fields", question="Q", answer="{}", json_schema=schema)
    asked = {"answer": "{}", "units": "fields", "json_schema": schema}
    assert api.asked[1] == {"messages": [{"role": "user", "content": "Q"}]} | asked
    fields = result.structured_content["fields"]
    assert [one["path"] for one in fields] == ["/c", "/a", "/b"]
    assert fields[0]["alternatives"] == []
    assert fields[1] == {
        "path": "/a",
        "value": "1",
        "uncertainty": 0.5,
        "support": 0.9,
        "alternatives": ["2"],
    }


async def test_a_label_is_reported(api):
    api.response = 200, {"id": "r1", "quality": 0.0, "task": None}
    result = await call(api, "report", id="r1", correct=False)
    assert api.asked == ("/feedback", {"id": "r1", "correct": False})
    assert result.structured_content == {"id": "r1"}


async def test_null_is_the_same_as_leaving_an_argument_out(api):
    given = {"as_prompt": None, "mode": None, "max_new_tokens": None, "target_error": None}
    assert not (await call(api, "answer", question="Q", **given)).is_error
    assert api.asked[1]["mode"] == "full"
    assert "required" in (await call(api, "answer", question=None)).content[0].text


async def test_an_error_of_the_api_is_one_of_the_tool(api):
    error = {"code": "not_calibrated", "message": "no calibrator", "field": "target_error"}
    api.response = 422, {"error": error}
    result = await call(api, "answer", question="Q")
    assert result.is_error
    assert result.content[0].text.endswith("not_calibrated: no calibrator (field target_error)")


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("answer", {}, "invalid_request: Field required (field question)"),
        ("answer", {"question": 7}, "Input should be a valid string (field question)"),
        ("answer", {"question": ""}, "should have at least 1 character (field question)"),
        ("answer", {"question": "Q", "mode": "fast"}, "'full' or 'light' (field mode)"),
        ("check", {"question": "Q", "answer": ["secret"]}, "valid string (field answer)"),
        (
            "check_fields",
            {"question": "Q", "answer": "{}", "json_schema": 3},
            "must be an object (field json_schema)",
        ),
        ("report", {"id": "r1", "correct": "perhaps"}, "unable to interpret input (field correct)"),
        (
            "answer",
            {"question": "Q", "target_eror": 0.1},
            "invalid_request: Extra inputs are not permitted (field target_eror)",
        ),
        ("nothing", {}, "Unknown tool: nothing"),
    ],
)
async def test_what_is_wrong_is_said_as_by_the_api_before_anything_is_asked(
    api, tool, arguments, told
):
    result = await call(api, tool, **arguments)
    assert result.is_error
    assert result.content[0].text.endswith(told)
    assert "secret" not in result.content[0].text
    assert api.asked is None
