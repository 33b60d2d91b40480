"""`POST /feedback`: labels of every endpoint's answers, each kept once, with its scores alone."""

import json

import pytest
from pydantic import SecretStr

from app.plugins.labels.protocol import FeedbackConfig
from cocoa_lab.calibration.calibrating import calibrate, to_json
from cocoa_lab.calibration.feedback import read_feedback, stored_labels
from tests.api.errors_told import SENTINEL, assert_error
from tests.chaos.redis_server import free_port
from tests.conftest import serving, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def config(tmp_path):
    return FeedbackConfig(path=str(tmp_path / "labels.jsonl"))


@pytest.fixture
async def collecting(anyio_backend, config):
    """The service, with labels in a file."""
    async with serving(feedback=config) as running:
        yield running


async def label(service, answer_id, **body):
    return await service.client.post("/feedback", json={"id": answer_id, **body})


def kept(config):
    return {one.answer.id: one for one in stored_labels(config.path, config).labels}


async def test_a_label_is_kept_with_the_scores_of_its_answer(collecting, config):
    answer = (await collecting.generate(seed=1, estimators=["sp", "mte"])).json()
    response = await label(collecting, answer["id"], correct=True, task="capitals")
    assert response.status_code == 200
    assert response.json() == {"id": answer["id"], "quality": 1.0, "task": "capitals"}
    [one] = kept(config).values()
    assert (one.quality, one.task) == (1.0, "capitals")
    assert one.answer.scores == pytest.approx(answer["scores"])
    assert one.answer.binding.generator == collecting.generator.info.identity


async def test_neither_prompt_nor_answer_is_kept(collecting, tmp_path):
    answer = (await collecting.generate(prompt=SENTINEL, return_samples=True)).json()
    await label(collecting, answer["id"], quality=0.5)
    [file] = tmp_path.iterdir()
    assert SENTINEL not in file.read_text()
    assert answer["text"].strip() not in file.read_text()


async def test_the_answer_is_kept_where_a_setting_says_so(tmp_path):
    config = FeedbackConfig(path=str(tmp_path / "labels.jsonl"), keep_texts=True)
    async with serving(feedback=config) as service:
        answer = (await service.generate(prompt=SENTINEL)).json()
        await label(service, answer["id"], correct=False)
    assert kept(config)[answer["id"]].answer.text == answer["text"]


async def test_cached_answers_given_ones_and_items_can_be_labelled(collecting, config):
    body = {"prompt": "Capital of France?", "max_new_tokens": 8, "seed": 1}
    given = body | {"answer": " Paris"}
    answers = [(await collecting.generate(**body)).json() for _ in range(2)]
    assert answers[1]["cached"]
    answers.append((await collecting.client.post("/score", json=given)).json())
    items = [given, {"answer": "a", "samples": [{"text": "b"}]}]
    batch = (await collecting.client.post("/score", json={"items": items})).json()
    answers += [outcome["result"] for outcome in batch["results"]]
    for answer in answers:
        assert (await label(collecting, answer["id"], correct=True)).status_code == 200
    strategies = [kept(config)[one["id"]].answer.binding for one in answers]
    assert [one and one.strategy for one in strategies] == ["greedy"] * 2 + ["given"] * 2 + [None]


async def test_the_last_label_of_an_answer_counts(collecting, config):
    answer = (await collecting.generate()).json()
    for body in ({"correct": True}, {"quality": 0.25}):
        await label(collecting, answer["id"], **body)
    assert [one.quality for one in kept(config).values()] == [0.25]


async def test_a_label_that_changes_again_and_again_is_refused_and_counted(collecting, config):
    answer = (await collecting.generate()).json()
    for i in range(10):
        assert (await label(collecting, answer["id"], correct=i % 2 > 0)).status_code == 200
    message = assert_error(
        await label(collecting, answer["id"], correct=False), 422, "invalid_request", "id"
    )
    assert "10 times" in message
    metrics = (await collecting.client.get("/metrics")).text
    assert 'cocoa_feedback_labels_total{outcome="refused"} 1.0' in metrics
    assert [one.quality for one in kept(config).values()] == [1.0]


async def test_an_answer_that_failed_cannot_be_labelled(collecting):
    refused = await collecting.generate(num_samples=0)
    error = refused.json()["error"]
    assert_error(
        await label(collecting, error["request_id"], correct=True), 404, "unknown_answer", "id"
    )


async def test_a_label_of_an_unknown_answer_is_404_and_quotes_nothing(collecting):
    response = await label(collecting, SENTINEL, correct=True)
    assert SENTINEL not in assert_error(response, 404, "unknown_answer", "id")
    metrics = (await collecting.client.get("/metrics")).text
    assert 'cocoa_feedback_labels_total{outcome="unknown"} 1.0' in metrics
    assert 'cocoa_errors_total{code="unknown_answer"} 1.0' in metrics


async def test_without_a_setting_labels_are_refused_and_the_settings_named(service):
    message = assert_error(await label(service, "a", correct=True), 404, "feedback_disabled")
    assert "COCOA_FEEDBACK__PATH" in message
    assert "COCOA_FEEDBACK__URL" in message


async def test_a_redis_that_is_away_is_503_with_retry_after_and_costs_no_answer():
    url = SecretStr(f"redis://sesame:open@127.0.0.1:{free_port()}")
    async with serving(feedback=FeedbackConfig(url=url, timeout_s=0.5)) as service:
        answer = await service.generate()
        assert answer.status_code == 200
        response = await label(service, answer.json()["id"], correct=True)
        message = assert_error(response, 503, "feedback_unavailable")
        assert "unreachable" in message
        assert "sesame" not in message
        assert int(response.headers["retry-after"]) >= 1


async def test_labels_and_answers_are_counted(collecting):
    answer = (await collecting.generate()).json()
    await label(collecting, answer["id"], correct=True)
    metrics = (await collecting.client.get("/metrics")).text
    assert 'cocoa_feedback_labels_total{outcome="kept"} 1.0' in metrics
    assert 'cocoa_feedback_answers_total{outcome="remembered"} 1.0' in metrics
    assert 'cocoa_feedback_answers_total{outcome="lost"} 0.0' in metrics


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "correct"),
        ({"correct": True, "quality": 1.0}, "correct"),
        ({"correct": None, "quality": None}, "correct"),
        ({"correct": 1}, "correct"),
        ({"quality": True}, "quality"),
        ({"quality": 1.01}, "quality"),
        ({"quality": -0.01}, "quality"),
        ({"correct": True, "id": ""}, "id"),
        ({"correct": True, "id": "x" * 257}, "id"),
        ({"correct": True, "id": "\ud800"}, "id"),
        ({"correct": True, "task": ""}, "task"),
        ({"correct": True, "task": "x" * 65}, "task"),
        ({"correct": True, "task": "\ud800"}, "task"),
        ({"correct": True, "task": "all"}, "task"),
        ({"correct": True, "task": "\x1b[2Jgone"}, "task"),
        ({"correct": True, "task": "a\nb"}, "task"),
        ({"correct": True, "task": "\x9b2J"}, "task"),
        ({"correct": True, "task": "\u202egnorw"}, "task"),
        ({"correct": True, "label": 1}, "label"),
    ],
    ids=str,
)
async def test_a_label_that_makes_no_sense_is_refused(collecting, body, field):
    content = json.dumps({"id": "a"} | body).encode()
    response = await collecting.client.post("/feedback", content=content)
    assert_error(response, 422, "invalid_request", field)


async def test_labels_of_a_service_calibrate_that_service(config, tmp_path):
    out = tmp_path / "calibrator.json"
    async with serving(feedback=config) as service:
        for i in range(80):
            answer = (await service.generate(prompt=f"Question {i}", seed=i)).json()
            await label(service, answer["id"], correct=i % 3 > 0)
    parts, source, notes = read_feedback(config.path, config)
    assert notes == []
    out.write_text(to_json(calibrate({source: parts}).calibrator))
    async with serving(calibrator=str(out)) as service:
        answer = (await service.generate(seed=1)).json()
        other = (await service.generate(seed=1, num_samples=3)).json()
    assert answer["reasons"] == {}
    assert 0 < answer["confidence"] < 1
    assert "num_samples" in other["reasons"]["confidence"]


async def test_a_file_that_cannot_be_written_to_ends_the_start_with_its_name(tmp_path, caplog):
    config = FeedbackConfig(path=str(tmp_path / "missing" / "labels.jsonl"))
    async with (
        serving(ready=False, feedback=config) as service,
        service.app.router.lifespan_context(service.app),
    ):
        await until(lambda: service.deaths)
    assert "start-up failed" in caplog.text
    assert "missing" in caplog.text
