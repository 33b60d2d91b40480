"""Answers over documents: what comes of each sentence, at each endpoint, and what is refused."""

import json
from dataclasses import replace

import pytest

from app.plugins.labels.protocol import FeedbackConfig
from app.scoring.ask import Ask
from tests.api.keyed import metric, with_keys
from tests.api.scored import scored
from tests.api.test_api_openai_tools import TOOLS
from tests.api.test_api_servers import serving_over
from tests.conftest import GENERATE, serving
from tests.events import events_of
from tests.made_keys import bearer

pytestmark = pytest.mark.anyio
PLACEMENTS = ["embedded", "remote"]

CHAT = [{"role": "user", "content": "What is the capital of France?"}]
FRANCE = "Paris is the capital of France. It has 2 million people. Lyon is in France, too."
DOCUMENTS = ["Lima is in Peru.", {"id": "7", "title": "France", "text": FRANCE}]
ANSWER = "The capital is Paris. It has 3 million people in Quito."
SAID = [
    {"grounded": 1.0, "id": "7", "span": [0, 31], "missing": []},
    {"grounded": 0.125, "id": "7", "span": [32, 56], "missing": ["3", "Quito"]},
]


def said(body):
    return [unit["documents"] for unit in body["units"][1:]]


async def held(service, **body):
    """The response to a body as it stands."""
    response = await service.client.post("/score", json=body)
    assert response.status_code == 200, response.text
    return response.json()


async def test_a_given_answer_is_held_to_documents_without_a_model(service):
    calls, batches = service.engine.num_calls, len(service.nli_model.batches)
    body = await held(service, answer=ANSWER, documents=DOCUMENTS)

    assert said(body) == SAID
    assert body["grounded"] == (1 + 0.125) / 2
    assert [unit["kind"] for unit in body["units"]] == ["answer", "sentence", "sentence"]
    assert "documents" not in body["units"][0]
    assert body["uncertainty"] is None
    assert body["scores"].pop("ungrounded") == pytest.approx(1 - body["grounded"])
    assert set(body["scores"].values()) == {None}
    assert [unit["scores"]["ungrounded"] for unit in body["units"][1:]] == [0.0, 0.875]
    assert "no model is asked" in body["reasons"][body["estimator"]]
    assert "model" not in body["provenance"]
    assert (service.engine.num_calls, len(service.nli_model.batches)) == (calls, batches)


async def test_a_prompt_beside_them_is_read_as_the_question_alone(service):
    asked = {"answer": "The capital is Paris.", "documents": ["Paris is big."]}
    calls = service.engine.num_calls
    without = await held(service, **asked)
    for question in ({"prompt": "What is the capital?"}, {"messages": CHAT}):
        body = await held(service, **asked, **question)
        assert (without["grounded"], body["grounded"]) == (0.5, 1.0)
    assert service.engine.num_calls == calls


async def test_who_names_scores_gets_them_beside_it(service):
    body = await scored(
        service, answer=ANSWER, messages=CHAT, documents=DOCUMENTS, estimators=["sp", "cocoa_sp"]
    )
    assert body["grounded"] == pytest.approx((1 + 0.125) / 2)
    assert None not in body["scores"].values()
    assert "support" in body["units"][1]
    samples = [{"text": "The capital is Paris."}]
    body = await scored(service, answer=ANSWER, samples=samples, documents=DOCUMENTS)
    assert body["scores"]["inconsistency"] is not None
    assert said(body)[0] == SAID[0]


async def test_ungrounded_is_the_uncertainty_where_it_is_named_and_asks_no_model(service):
    calls = service.engine.num_calls
    for named in ({"estimators": ["ungrounded"]}, {"estimator": "ungrounded", "messages": CHAT}):
        body = await held(service, answer=ANSWER, documents=DOCUMENTS, **named)
        assert body["uncertainty"] == pytest.approx(1 - body["grounded"])
        assert body["estimator"] == "ungrounded"
        assert [unit["uncertainty"] for unit in body["units"][1:]] == [0.0, 0.875]
    assert service.engine.num_calls == calls


async def test_what_remains_without_documents_takes_one_more_reading(service):
    asked = {"messages": CHAT, "seed": 1, "documents": DOCUMENTS}
    calls = service.engine.num_calls
    body = (await service.generate(**asked, estimators=["remaining", "sp"])).json()
    assert service.engine.num_calls == calls + 2
    # The engine of the tests reads a text alike behind every prompt.
    assert body["scores"]["remaining"] == 1.0
    assert [unit["scores"]["remaining"] for unit in body["units"][1:]] == [1.0]
    again = (await service.generate(**asked, estimators=["remaining", "sp"])).json()
    assert (again["cached"], again["scores"]) == (True, body["scores"])
    assert service.engine.num_calls == calls + 2
    body = await scored(service, answer=ANSWER, **asked | {"seed": None}, estimators=["remaining"])
    assert body["scores"]["remaining"] == 1.0


async def test_samples_are_drawn_over_documents_where_the_request_asks_for_any(service):
    asked = {"messages": CHAT, "seed": 1, "documents": DOCUMENTS, "estimators": ["sp"]}

    async def num_samples(**fields):
        response = (await service.generate(**asked | fields)).json()
        return response["provenance"].get("num_samples"), len(response.get("samples", ()))

    assert await num_samples() == (None, 0)
    assert await num_samples(target_error=None) == (None, 0)
    assert await num_samples(return_samples=True, num_samples=5) == (5, 5)
    assert await num_samples(num_samples=5) == (5, 0)
    assert await num_samples(units="sentences") == (10, 0)
    assert await num_samples(strategy="mbr") == (10, 0)
    assert await num_samples(explain=True) == (10, 0)
    assert await num_samples(estimators=["sp", "inconsistency"]) == (10, 0)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"messages": CHAT}, "there are no documents"),
        ({"documents": DOCUMENTS, "answer_token_logprobs": [-1.0]}, "does not read the answer"),
        ({"documents": DOCUMENTS}, "does not read the answer"),
    ],
)
async def test_scores_of_documents_are_null_with_the_reason(service, fields, reason):
    body = await scored(service, answer=ANSWER, estimators=["remaining", "sp"], **fields)
    assert body["scores"]["remaining"] is None
    assert reason in body["reasons"]["remaining"]


async def test_who_names_what_cannot_be_known_is_told_why(service):
    response = await service.generate(messages=CHAT, estimators=["ungrounded"])
    error = response.json()["error"]
    assert (response.status_code, error["field"]) == (422, "estimators")
    assert "there are no documents" in error["message"]


async def test_claims_are_held_to_documents_as_sentences_are(service):
    claims = [{"text": "Paris is the capital of France."}, {"text": "Paris is in Peru."}]
    body = await scored(service, answer=ANSWER, documents=DOCUMENTS, claims=claims)

    assert [one["grounded"] for one in said(body)] == [1.0, 0.5]
    assert said(body)[1]["missing"] == []
    assert body["grounded"] == 0.75


@pytest.mark.parametrize(
    ("answer", "units", "share", "reason"),
    [
        (ANSWER, "answer", (1 + 0.125) / 2, None),
        ("I don't know.", "sentences", 0.0, None),
        ("", "sentences", None, "the answer has no sentences"),
        ('{"capital": "Paris"}', "fields", None, "the answer has no sentences"),
    ],
)
async def test_an_answer_has_the_mean_of_its_sentences_or_the_reason(
    service, answer, units, share, reason
):
    samples = [{"text": answer}]
    asked = {"answer": answer, "samples": samples, "documents": DOCUMENTS, "units": units}
    body = await scored(service, **asked)

    assert body["grounded"] == (share and pytest.approx(share))
    assert body["reasons"].get("grounded") == reason
    if units != "sentences":
        assert not any("documents" in unit for unit in body["units"])


async def test_every_endpoint_tells_the_same_of_its_answer(service):
    shown = {"documents": DOCUMENTS, "messages": CHAT}
    native = (await service.generate(**shown, seed=1)).json()
    assert native["grounded"] is not None
    assert native["units"][1]["documents"].keys() >= {"grounded", "missing"}

    body = {"model": "cocoa", "documents": DOCUMENTS, "seed": 1, "max_tokens": 64}
    chat = await service.client.post("/v1/chat/completions", json=body | {"messages": CHAT})
    uncertainty = chat.json()["choices"][0]["uncertainty"]
    assert uncertainty["grounded"] == native["grounded"]
    assert said(uncertainty) == said(native)

    del body["max_tokens"]
    body |= {"input": CHAT[0]["content"], "max_output_tokens": 64}
    response = (await service.client.post("/v1/responses", json=body)).json()
    assert response["output"][0]["uncertainty"]["grounded"] == native["grounded"]


@pytest.mark.parametrize("path", [GENERATE, "/v1/chat/completions"])
async def test_a_stream_ends_with_what_documents_say(service, path):
    body = {"messages": CHAT, "documents": DOCUMENTS, "seed": 1, "stream": True}
    if path != GENERATE:
        body |= {"model": "cocoa", "max_tokens": 64}
    else:
        body |= {"max_new_tokens": 64}
    text = (await service.client.post(path, json=body)).text
    # Of the answer, and of its one sentence.
    assert text.count('"grounded":') == 2 * text.count('"documents":') > 0
    if path == GENERATE:
        assert events_of(text)[-1].data["grounded"] is not None


async def test_cohere_s_documents_are_read_and_empty_lists_are_none(service):
    data = {"title": "France", "snippet": "Paris is the capital of France."}
    more = {"id": "9", "data": {"text": "It has 3 million people in Quito."}}
    body = await scored(service, answer=ANSWER, documents=[{"data": data}, more])
    assert [one["id"] for one in said(body)] == ["0", "9"]
    assert [one["grounded"] for one in said(body)] == [1.0, 1.0]

    samples = [{"text": ANSWER}]
    plain = await scored(service, answer=ANSWER, samples=samples)
    none = await scored(service, answer=ANSWER, samples=samples, documents=[])
    assert "grounded" not in none
    assert none.keys() == plain.keys()
    assert "units" not in none


CALLS = [("c1", "atlas", "{}"), ("c2", "count", '{"city": "Paris"}')]
RESULTS = [("c1", "Paris is the capital of France."), ("c2", '{"people": 2000000}')]
TOLD = [
    *CHAT,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": call, "type": "function", "function": {"name": name, "arguments": given}}
            for call, name, given in CALLS
        ],
    },
    *({"role": "tool", "tool_call_id": call, "content": text} for call, text in RESULTS),
]
OF_TOOLS = [
    {"grounded": 1.0, "id": "c1", "span": [0, 31], "missing": []},
    {"grounded": 1.0, "id": "c2", "span": [0, 19], "missing": []},
    {"grounded": 0.0, "missing": ["Quito"]},
]


async def test_what_tools_gave_are_documents_by_the_ids_of_their_calls(service):
    answer = "The capital is Paris. It has 2,000,000 people. They like Quito."
    calls = service.engine.num_calls
    body = await held(service, answer=answer, messages=TOLD, documents="tools")
    assert said(body) == OF_TOOLS
    assert service.engine.num_calls == calls

    # The name of a tool is the title of what it gave.
    body = await held(service, answer="The atlas says Paris.", messages=TOLD, documents="tools")
    assert said(body)[0]["id"] == "c1"
    assert said(body)[0]["grounded"] == 1.0


async def test_every_endpoint_takes_what_tools_gave_and_shows_it_once(service):
    told = {"messages": TOLD, "tools": TOOLS, "seed": 1}
    native = (await service.generate(**told, documents="tools")).json()
    plain = (await service.generate(**told)).json()
    assert native["text"] == plain["text"]
    assert native["usage"]["prompt_tokens"] == plain["usage"]["prompt_tokens"]
    assert "documents_in_message" not in native["warnings"]
    assert native["grounded"] is not None

    body = {"model": "cocoa", "documents": "tools", "seed": 1}
    asked = body | told | {"max_tokens": 64}
    chat = await service.client.post("/v1/chat/completions", json=asked)
    uncertainty = chat.json()["choices"][0]["uncertainty"]
    assert (uncertainty["grounded"], said(uncertainty)) == (native["grounded"], said(native))
    del asked["documents"]
    inside = asked | {"uncertainty": {"documents": "tools"}}
    again = await service.client.post("/v1/chat/completions", json=inside)
    assert again.json()["choices"][0]["uncertainty"]["grounded"] == native["grounded"]

    items = [CHAT[0]]
    for call, name, given in CALLS:
        items.append({"type": "function_call", "call_id": call, "name": name, "arguments": given})
    for call, text in RESULTS:
        items.append({"type": "function_call_output", "call_id": call, "output": text})
    functions = [{"type": "function", **tool["function"]} for tool in TOOLS]
    del body["documents"]
    body["uncertainty"] = {"documents": "tools"}
    asked = body | {"input": items, "tools": functions, "max_output_tokens": 64}
    response = (await service.client.post("/v1/responses", json=asked)).json()
    assert response["output"][0]["uncertainty"]["grounded"] == native["grounded"]


async def test_before_a_tool_gave_anything_nothing_is_known_and_nothing_refused(service):
    for answer in ({}, {"answer": ANSWER}):
        path = "/score" if answer else GENERATE
        body = {"messages": CHAT, "documents": "tools", **answer}
        response = await service.client.post(path, json=body)
        assert response.status_code == 200, response.text
        told = response.json()
        assert told["grounded"] is None
        assert told["reasons"]["grounded"] == "no tool has given anything in the messages"
        assert not any("documents" in unit for unit in told["units"])


async def test_with_tools_offered_calls_have_fields_and_prose_has_sentences(service):
    asked = {"messages": TOLD, "tools": TOOLS, "documents": "tools"}
    told = (await service.generate(**asked, seed=2)).json()
    first = said(told)[0]
    assert first.keys() >= {"grounded", "missing"}
    assert told["units"][1]["kind"] == "sentence"
    assert told["units"][1]["uncertainty"] is not None
    named = (await service.generate(**asked, seed=2, units="answer")).json()
    assert [unit["kind"] for unit in named["units"]] == ["answer"]
    assert named["grounded"] == told["grounded"]

    called = {"messages": CHAT, "tools": TOOLS, "documents": DOCUMENTS, "seed": 1}
    told = (await service.generate(**called)).json()
    assert {unit["kind"] for unit in told["units"][1:]} == {"field"}
    assert told["reasons"]["grounded"] == "the answer has no sentences"


MANY = ["So."] * 65
NO_TEXT = "exactly one of text and data must be given"
GIVEN, WHY = {"answer": ANSWER}, {"prompt": "Why?"}


@pytest.mark.parametrize(
    ("path", "body", "field", "words"),
    [
        ("/score", {**GIVEN, "documents": MANY}, "documents", "at most 64"),
        ("/score", {**GIVEN, "documents": "So."}, "documents", "a list of documents, or tools"),
        ("/score", {**GIVEN, "documents": "tools"}, "documents", "needs messages"),
        (GENERATE, {"prompt": "Why?", "documents": "tools"}, "documents", "needs messages"),
        (GENERATE, {"messages": TOLD * 33, "documents": "tools"}, "documents", "has 66"),
        ("/score", {**GIVEN, "documents": [3]}, "documents.0", "must be a text or an object"),
        ("/score", {**GIVEN, "documents": [{"id": "7"}]}, "documents.0.text", NO_TEXT),
        (
            "/score",
            {**GIVEN, "documents": [{"text": "a", "data": {"text": "a"}}]},
            "documents.0.text",
            NO_TEXT,
        ),
        ("/score", {**GIVEN, "documents": [{"text": "a", "id": ""}]}, "documents.0.id", "least 1"),
        ("/score", {**GIVEN, "documents": [{"content": "a"}]}, "documents.0.content", "text"),
        ("/score", {**GIVEN, "documents": [{"data": {"a": 1}}]}, "documents.0.data.a", "string"),
        ("/score", {**GIVEN, "documents": ["\ud800"]}, "documents.0", "surrogates"),
        (
            "/score",
            {**GIVEN, "documents": ["a"], "documents_in": "prompt"},
            "documents.0",
            "does not stand in the prompt",
        ),
        ("/score", {**GIVEN, "documents": ["a"], "documents_in": "tools"}, "documents_in", "prom"),
        (GENERATE, {"prompt": "Why?", "documents": ["a"]}, "documents_in", "raw prompt"),
        (GENERATE, {**WHY, "documents_in": "prompt"}, "documents_in", "needs documents"),
        ("/score", {**GIVEN, **WHY, "documents_in": "prompt"}, "documents_in", "needs documents"),
        (
            "/v1/chat/completions",
            {"model": "cocoa", "messages": CHAT, "documents_in": "prompt"},
            "documents_in",
            "needs documents",
        ),
        (
            "/v1/responses",
            {"model": "cocoa", "input": "Why?", "documents_in": "prompt"},
            "documents_in",
            "needs documents",
        ),
        (
            GENERATE,
            {"messages": CHAT, "documents": ["France?", "Peru"], "documents_in": "prompt"},
            "documents.1",
            "word for word",
        ),
        (
            GENERATE,
            {"messages": [{"role": "system", "content": "So."}], "documents": ["a"]},
            "documents",
            "message of the user",
        ),
        (
            "/v1/chat/completions",
            {
                "model": "cocoa",
                "messages": TOLD,
                "documents": ["a"],
                "uncertainty": {"documents": "tools"},
            },
            "uncertainty.documents",
            "beside the messages",
        ),
        (
            "/v1/chat/completions",
            {"model": "cocoa", "messages": CHAT, "documents": MANY},
            "documents",
            "at most 64",
        ),
        (
            "/v1/completions",
            {"model": "cocoa", "prompt": "Why?", "documents": ["a"]},
            "documents",
            "",
        ),
    ],
)
async def test_what_cannot_be_is_refused_by_the_field(service, path, body, field, words):
    content = json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    response = await service.client.post(path, content=content, headers=headers)

    assert response.status_code in (400, 422), response.text
    error = response.json()["error"]
    assert error.get("param", error.get("field")) == field
    assert words in error["message"]


async def test_a_raw_prompt_may_hold_them_and_they_are_no_part_of_its_question(service):
    prompt = f"{FRANCE}\nWhat is the capital of France?"
    asked = {"prompt": prompt, "documents": [FRANCE], "documents_in": "prompt"}
    response = (await service.generate(**asked)).json()
    assert response["grounded"] is not None

    # Else no word of the answer would be its own.
    answer = "It has 4 million people."
    body = await scored(service, answer=answer, **asked)
    assert said(body)[0]["missing"] == ["4"]


async def test_an_nli_model_judges_documents_where_answers_are_compared_by_it(service):
    asked = {"messages": CHAT, "answer": ANSWER, "documents": DOCUMENTS, "num_samples": 2}
    by_words = await scored(service, **asked)
    assert said(by_words) == SAID
    num_pairs = sum(service.nli_model.batches)
    body = await scored(service, **asked, similarity="nli")

    # Of the documents that have a word of it: by the fake model's share of the document's words.
    first, second = said(body)
    assert first == {**SAID[0], "grounded": 3 / 7, "contradicted_by": []}
    assert second == {**SAID[1], "grounded": 3 / 6, "contradicted_by": []}
    assert body["grounded"] == pytest.approx((3 / 7 + 3 / 6) / 2)
    assert body["units"][1]["scores"]["ungrounded"] == pytest.approx(4 / 7)
    assert sum(service.nli_model.batches) > num_pairs
    asked |= {"similarity": "nli", "documents": ["The capital is Rome."]}
    again = await scored(service, **asked)
    assert [one["grounded"] for one in said(again)] == [3 / 4, 0.0]


async def test_the_cache_keeps_answers_over_other_documents_apart(service):
    async def cached(documents):
        asked = {"messages": CHAT, "seed": 1, "documents": documents}
        return (await service.generate(**asked)).json()

    first = await cached(DOCUMENTS)
    again = await cached(DOCUMENTS)
    other = await cached(["Lima is in Peru."])
    titled = await cached([DOCUMENTS[0], {"id": "7", "title": "Gaul", "text": FRANCE}])
    assert [one["cached"] for one in (first, again, other, titled)] == [False, True, False, False]
    assert said(again) == said(first)
    assert again["grounded"] == first["grounded"]


async def test_their_characters_are_charged_as_a_prompt_s_are(tmp_path):
    async with with_keys(tmp_path, a={}) as service:
        body = {"answer": "a" * 40, "documents": ["b" * 400, {"text": "c" * 400}]}
        response = await service.client.post("/score", json=body, headers=bearer("a"))
        assert response.status_code == 200, response.text
        assert await metric(service, 'cocoa_key_tokens_total{key="a"} 210.0')


async def test_no_word_of_them_is_kept_or_told(tmp_path, caplog):
    caplog.set_level("DEBUG")
    feedback = FeedbackConfig(path=str(tmp_path / "labels.jsonl"), keep_texts=True)
    async with serving(feedback=feedback) as service:
        documents = [{"id": "qzid", "title": "qztitle", "text": "qztext"}]
        asked = {"messages": CHAT, "documents": documents, "seed": 1}
        answered = [await service.generate(**asked), await service.generate(**asked)]
        assert [one.status_code for one in answered] == [200, 200]
        label = {"id": answered[0].json()["id"], "correct": True}
        assert (await service.client.post("/feedback", json=label)).status_code == 200
        refused = await service.generate(**asked, documents_in="prompt")
        assert refused.status_code == 422
        told = refused.text + caplog.text + (await service.client.get("/metrics")).text
    kept = "".join(file.read_text() for file in tmp_path.rglob("*") if file.is_file())
    assert "qz" not in told + kept


async def test_looking_an_answer_up_for_too_long_is_refused(service):
    claims, documents = [{"text": "Lima grows."}] * 1024, ["Lima grows. " * 1000]
    body = {**GIVEN, "documents": documents, "claims": claims}
    response = await service.client.post("/score", json=body)
    assert response.status_code == 422
    assert response.json()["error"]["field"] == "documents"


@pytest.mark.parametrize("traits", [{}, {"tokenizes": False}], ids=["of tokens", "of messages"])
async def test_behind_a_server_they_go_before_the_last_message_with_a_warning(traits):
    async with serving_over(**traits) as (client, server):
        body = {"messages": CHAT, "documents": DOCUMENTS, "max_new_tokens": 8, "seed": 1}
        told = (await client.post(GENERATE, json=body)).json()
        assert "documents_in_message" in told["warnings"]
        assert told["grounded"] is not None
        block = f"Documents:\n\n[0]\nLima is in Peru.\n\n[7] France\n{FRANCE}\n\n"
        shown = block + CHAT[0]["content"]
        held = [{"role": "user", "content": shown}]
        assert any(sent.get("messages", held) == held for _, sent in server.bodies)
        plain = (await client.post(GENERATE, json={**body, "documents": []})).json()
        assert "documents_in_message" not in plain["warnings"]
        assert told["usage"]["prompt_tokens"] > plain["usage"]["prompt_tokens"]

        names = ["Lima is in Peru.", FRANCE]
        body |= {"messages": held, "documents": names, "documents_in": "prompt"}
        told = (await client.post(GENERATE, json=body)).json()
        assert "documents_in_message" not in told["warnings"]

        num_bodies = len(server.bodies)
        body = {"answer": ANSWER, "messages": CHAT, "documents": DOCUMENTS}
        told = (await client.post("/score", json=body)).json()
        assert said(told)[0] == SAID[0]
        assert len(server.bodies) == num_bodies


async def test_a_target_error_is_of_sentences_unless_the_whole_is_named(service):
    asked = {"messages": CHAT, "documents": DOCUMENTS, "target_error": 0.1}
    refused = (await service.generate(**asked)).json()["error"]
    assert (refused["code"], refused["field"]) == ("not_calibrated", "target_error")
    assert "units says what is judged" in refused["message"]


def test_tools_that_are_left_out_leave_sentences_to_be_looked_up():
    documents = ({"doc_id": "0", "title": "", "text": "So."},)
    ask = Ask(messages=tuple(CHAT), tools=({"type": "function"},), units="fields")
    assert ask.without_tools().units is None
    assert replace(ask, documents=documents).without_tools().units == "sentences"
