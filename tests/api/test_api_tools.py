"""Tools at /generate-with-uncertainty, which are those of OpenAI's chats."""

import pytest

from tests.api.openai_calls import CHAT, QUESTION, answered, uncertainty_of
from tests.api.test_api_openai_tools import STRICT, TOOLS
from tests.events import events_of

pytestmark = pytest.mark.anyio
PLACEMENTS = ["embedded", "remote"]

GENERATE = "/generate-with-uncertainty"
MESSAGES = [{"role": "user", "content": QUESTION}]


async def asked(service, **body):
    return await service.client.post(GENERATE, json={"messages": MESSAGES} | body)


async def test_calls_and_their_units_are_those_of_openais_chats(service):
    body = (await asked(service, tools=TOOLS, seed=1)).json()
    chat = await answered(service, CHAT, tools=TOOLS, seed=1, messages=MESSAGES)
    calls = [call["function"] for call in body["tool_calls"]]

    [choice] = chat["choices"]
    assert calls == [call["function"] for call in choice["message"]["tool_calls"]]
    assert [call["name"] for call in calls] == ["get_weather", "now"]
    assert body["units"] == uncertainty_of(chat)["units"]
    assert body["estimator"] == "sp"
    assert body["usage"]["sample_tokens"] == 0
    assert "<tool_call>" in body["text"]


async def test_samples_are_drawn_where_something_is_said_of_them(service):
    for said, number in (({"num_samples": 4}, 4), ({"estimators": ["inconsistency"]}, 10)):
        body = (await asked(service, tools=TOOLS, seed=1, **said)).json()
        assert body["usage"]["sample_tokens"] > 0
        assert body["estimator"] != "sp"
        assert body["provenance"]["num_samples"] == number


async def test_a_stream_ends_with_the_calls(service):
    response = await asked(service, tools=TOOLS, stream=True, seed=1)
    *_, end = events_of(response.text)
    whole = (await asked(service, tools=TOOLS, seed=1)).json()
    assert end.name == "result"
    assert [one["function"] for one in end.data["tool_calls"]] == [
        one["function"] for one in whole["tool_calls"]
    ]


async def test_calls_and_results_of_earlier_answers_are_part_of_the_chat(service):
    body = (await asked(service, tools=TOOLS, seed=1)).json()
    calls = body["tool_calls"]
    said = {"role": "assistant", "content": None, "tool_calls": calls}
    results = [{"role": "tool", "tool_call_id": one["id"], "content": "7"} for one in calls]
    after = await asked(service, tools=TOOLS, seed=1, messages=[*MESSAGES, said, *results])
    assert after.json()["tool_calls"] == []
    assert after.json()["text"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"messages": None, "prompt": QUESTION, "tools": TOOLS}, "tools"),
        ({"tools": [TOOLS[0], TOOLS[0]]}, "tools"),
        ({"tools": TOOLS, "tool_choice": "required"}, "tools"),
        ({"tools": [STRICT]}, "tools"),
        ({"tools": TOOLS, "parallel_tool_calls": False}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
    ],
    ids=["a prompt", "one name twice", "required", "strict", "one call", "no tools"],
)
async def test_what_cannot_be_had_is_refused_by_its_field(service, body, field):
    response = await asked(service, **body)
    assert response.status_code == 422, response.text
    assert response.json()["error"]["field"] == field
