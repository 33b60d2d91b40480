"""Our own client, synchronous and asynchronous, against a service on a port."""

import asyncio

import pytest
from cocoa_client import errors, statements_of, to_df

from app.plugins.labels.protocol import FeedbackConfig
from tests.clients.cocoa_clients import KINDS, OPTIONS, PROMPT, asking
from tests.conftest import serving

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())]


@pytest.fixture
async def client(service, kind):
    async with asking(kind, service.app) as running:
        yield running


async def test_an_answer_is_what_the_service_says(service, client):
    raw = await service.generate(prompt=PROMPT, **OPTIONS, return_samples=True, explain=True)
    answer = await client.generate_with_uncertainty(
        PROMPT, **OPTIONS, return_samples=True, explain=True
    )
    momentary = {"id", "timing_ms", "cached"}
    said = {name: value for name, value in raw.json().items() if name not in momentary}
    assert answer.model_dump(exclude=momentary, exclude_unset=True) == said
    assert answer.cached


async def test_a_chat_and_other_answers_are_scored(client):
    messages = [{"role": "user", "content": PROMPT}]
    chat = await client.generate_with_uncertainty(messages=messages, **OPTIONS)
    assert chat.text is not None

    scored = await client.score("Paris", samples=[{"text": "Paris"}], estimators=["inconsistency"])
    assert scored.provenance.strategy == "given"

    several = await client.score_all(
        [
            {"answer": "Paris", "samples": [{"text": "Paris"}], "estimators": ["inconsistency"]},
            {"answer": "Paris"},
        ]
    )
    assert several[0].result.scores.keys() == {"inconsistency"}
    assert (several[1].result, several[1].error.code) == (None, "invalid_request")


async def test_many_answers_are_scored_in_several_calls_which_tell_how_far_they_are(client):
    told = []
    items = [{"answer": "Paris", "prompt": PROMPT, "estimators": ["sp"]}] * 3 + [{"answer": "Rome"}]
    results = await client.score_all(items, name="capitals", on_progress=told.append, num_at_once=3)
    assert [str(one) for one in told] == ["capitals: scored 3 of 4", "capitals: scored 4 of 4"]
    assert [one.error is None for one in results] == [True, True, True, False]

    table = results.to_df()
    assert list(table["text"][:3]) == ["Paris"] * 3
    assert list(table["scores.sp"][:3]) == [one.result.scores["sp"] for one in results[:3]]
    assert list(table["error.code"][3:]) == ["invalid_request"]


async def test_answers_are_looked_up_in_documents_and_a_table_tells_how_far(client):
    documents = ["Rome is in Italy.", {"id": "7", "text": "Paris is the capital of France."}]
    held = {"documents": documents}
    scored = await client.score("Paris is the capital. It has Lyon in Italy.", **held)
    said = [unit.documents for unit in statements_of(scored)]
    assert [one.grounded for one in said] == [1.0, 0.25]
    assert (said[0].id, said[0].span, said[1].missing) == ("7", [0, 20], ["Lyon"])

    results = await client.score_all([{"answer": "Paris", **held}, {"answer": "Nice.", **held}])
    assert list(results.to_df()["grounded"]) == [1.0, 0.0]
    asked = {"messages": [{"role": "user", "content": PROMPT}], **OPTIONS}
    answers = []
    for given in (documents, "tools"):
        answers.append(await client.generate_with_uncertainty(**asked, documents=given))
    table = to_df(answers)
    assert list(table["grounded"].isna()) == [False, True]
    assert "no tool" in table["reasons.grounded"][1]


async def test_without_answers_nothing_is_asked_and_a_call_has_64_at_most(client):
    assert await client.score_all([]) == []
    assert len(await client.score_all([{"answer": "Rome"}] * 65)) == 65
    for number in (0, 65):
        with pytest.raises(ValueError, match="num_at_once must be from 1 to 64"):
            await client.score_all([], num_at_once=number)


async def test_answers_are_a_table_with_a_column_for_each_field(client):
    options = OPTIONS | {"estimators": ["sp", "inconsistency"]}
    answers = [await client.generate_with_uncertainty(PROMPT, **options) for _ in range(2)]
    table = to_df(answers)
    assert list(table["id"]) == [one.id for one in answers]
    for name in ("sp", "inconsistency"):
        assert list(table[f"scores.{name}"]) == [one.scores[name] for one in answers]
    assert set(table["provenance.model.id"]) == {answers[0].provenance.model.id}
    assert list(table["confidence"].isna()) == [True, True], "null where it is null"
    assert "samples" not in table, "no column of what was left out"
    assert not any(name.startswith("error") for name in table)


async def test_tokens_come_before_the_result(service, client):
    whole = await client.generate_with_uncertainty(
        PROMPT, **OPTIONS, cache=False, return_tokens=True
    )
    tokens, result = await client.tokens_and_result(
        PROMPT, **OPTIONS, cache=False, return_tokens=True
    )
    assert tokens == whole.tokens
    assert result.scores == whole.scores


async def test_what_runs_there_is_told(client):
    assert (await client.version()).model.id == "fake"
    names = [one.name for one in (await client.estimators()).estimators]
    assert "rb_cocoa_root_sp" in names
    assert (await client.livez()).status == "alive"
    assert (await client.readyz()).status == "ready"


async def test_an_answer_is_labelled(kind, tmp_path):
    config = FeedbackConfig(path=str(tmp_path / "labels.jsonl"))
    async with serving(feedback=config) as service, asking(kind, service.app) as client:
        answer = await client.generate_with_uncertainty(PROMPT, **OPTIONS)
        kept = await client.feedback(answer.id, correct=True, task="capitals")
        assert (kept.id, kept.quality, kept.task) == (answer.id, 1.0, "capitals")
        with pytest.raises(errors.UnknownAnswer):
            await client.feedback("nobody", quality=0.5)


async def test_sentences_are_labelled_as_the_api_has_them(kind, tmp_path):
    config = FeedbackConfig(path=str(tmp_path / "labels.jsonl"))
    async with serving(feedback=config) as service, asking(kind, service.app) as client:
        asked = {"answer": "It is Rome. It is old.", "documents": ["Rome is old."]}
        scored = await client.score(**asked)
        spans = [unit.span for unit in scored.units[1:]]
        labels = [{"span": span, "grounded": True} for span in spans]
        kept = await client.feedback(scored.id, units=labels)
        assert (kept.units, kept.quality) == (2, None)


async def test_whoever_leaves_a_stream_ends_its_work(service, client):
    generate, ended = service.generator.generate, asyncio.Event()

    async def endless(request, on_token=None):
        try:
            await generate(request, on_token)
            await asyncio.sleep(3600)
        finally:
            ended.set()

    service.generator.generate = endless
    assert await client.first_token(PROMPT, **OPTIONS)
    await asyncio.wait_for(ended.wait(), 30)
