"""Images in OpenAI's chats: passed on, counted, part of what is remembered, or refused by place."""

import base64
from dataclasses import replace

import pytest

from app.scoring.ask import Ask
from app.scoring.check import check
from app.scoring.deployment import UNBOUNDED, AskLimits
from app.scoring.planning import make_plan
from models.errors import InvalidRequest
from tests.api.openai_calls import CHAT, answered, post, uncertainty_of
from tests.api.test_api_servers import serving_over
from tests.results import a_deployment

pytestmark = pytest.mark.anyio

PICTURE = "A" * 38 + "CC"
TEXT = {"type": "text", "text": "What is this?"}
RED = f"data:image/png;base64,{PICTURE}"
OTHER = f"data:image/webp;base64,{'B' * 38}CC"
FAR = "https://example.com/a.png"
PLACE = "messages.0.content.0.image_url.url"


def showing(*urls, role="user"):
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return [{"role": role, "content": [*parts, TEXT]}]


class Client:
    def __init__(self, client):
        self.client = client


async def test_a_chat_with_images_is_answered_and_remembered_by_text_and_images():
    async with serving_over(images="heeded") as (client, server):
        found = []
        for messages in (showing(RED), showing(RED), showing(OTHER), showing(RED, OTHER)):
            body = await answered(
                Client(client), CHAT, messages=messages, seed=1, max_tokens=8, model="tiny"
            )
            found.append(uncertainty_of(body)["cached"])
            assert uncertainty_of(body)["value"] is not None
        sent = [body["messages"] for body in server.sent(CHAT)]
    assert found == [False, True, False, False]
    assert showing(RED, OTHER) in sent


REFUSED = {
    "elsewhere": ({"messages": showing(FAR)}, PLACE),
    "unencrypted": ({"messages": showing("http://example.com/a.png")}, PLACE),
    "a file": ({"messages": showing("file:///etc/passwd")}, PLACE),
    "no base64": ({"messages": showing("data:image/png;base64,%%%")}, PLACE),
    "empty": ({"messages": showing("data:image/png;base64,")}, PLACE),
    "no image": ({"messages": showing("data:text/html;base64,AAAA")}, PLACE),
    "not a user's": ({"messages": showing(RED, role="system")}, "messages.0.content"),
    "too many": ({"messages": showing(*[RED] * 9)}, PLACE.replace("content.0", "content.8")),
    "too large": ({"messages": showing("data:image/png;base64," + "A" * 700_000)}, PLACE),
    "with tools": (
        {"messages": showing(RED), "tools": [{"type": "function", "function": {"name": "now"}}]},
        "tools",
    ),
}


async def test_what_is_no_image_that_may_be_shown_is_refused_by_its_place():
    async with serving_over(images="heeded") as (client, server):
        for name, (body, param) in REFUSED.items():
            response = await post(Client(client), CHAT, **body, max_tokens=9)
            error = response.json()["error"]
            assert (response.status_code, error["param"]) == (422, param), (name, error)
            assert "AAAA" not in response.text
        assert not any(body["max_tokens"] == 9 for _, body in server.bodies)


async def test_a_model_that_reads_texts_alone_is_shown_none(service):
    response = await post(service, CHAT, messages=showing(RED))
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (422, PLACE), error
    assert "reads texts alone" in error["message"]


def test_as_many_images_are_fetched_as_the_deployment_lets_its_server_fetch():
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in (RED, FAR, FAR)]
    ask = Ask(messages=({"role": "user", "content": "", "parts": parts},))

    def allowed(limits):
        deployment = a_deployment({"answer_token_logprobs"}, no_images="", limits=limits)
        check(make_plan(replace(ask, estimators=("sp",)), deployment), deployment)

    allowed(AskLimits(max_image_urls=2))
    allowed(UNBOUNDED)
    with pytest.raises(InvalidRequest, match="at most 1 images are fetched") as caught:
        allowed(AskLimits(max_image_urls=1))
    assert caught.value.field == "messages.0.content.2.image_url.url"
    with pytest.raises(InvalidRequest, match=f"at most {len(base64.b64decode(PICTURE)) - 1} bytes"):
        allowed(AskLimits(max_image_bytes=len(base64.b64decode(PICTURE)) - 1))


def test_images_are_another_way_of_asking():
    plain = {"role": "user", "content": "Hi"}
    shown = plain | {"parts": [{"type": "image_url", "image_url": {"url": RED}}]}
    asks = [Ask(prompt="Hi"), Ask(messages=(plain,)), Ask(messages=(plain, shown))]
    assert [ask.input for ask in asks] == ["prompt", "messages", "images"]


async def test_a_given_answer_about_images_is_scored_by_samples_alone():
    body = {"messages": showing(RED), "answer": "Paris", "seed": 1, "max_new_tokens": 8}
    async with serving_over(images="heeded") as (client, _):
        response = await client.post("/score", json=body)
    scored = response.json()
    assert response.status_code == 200, response.text
    assert scored["scores"]["inconsistency"] is not None
    assert scored["scores"]["sp"] is None
    assert "behind images" in scored["reasons"]["sp"]


async def test_images_at_score_are_refused_where_nobody_looks_at_them(service):
    body = {"messages": showing(RED), "answer": "Paris"}
    error = (await service.client.post("/score", json=body)).json()["error"]
    assert (error["code"], error["field"]) == ("invalid_request", PLACE)
