"""Labels as an endpoint sees them: kept, unknown, or a typed error in time."""

import asyncio

import pytest

from app.plugins.labels.collecting import Feedback, make_feedback
from app.plugins.labels.protocol import FeedbackConfig, StoreFailed
from models.errors import FeedbackUnavailable, UnknownAnswer
from tests.made_labels import an_answer

pytestmark = pytest.mark.anyio


class Store:
    """A store in memory whose calls may wait or fail."""

    def __init__(self):
        self.answers, self.labels, self.fault, self.hangs = {}, {}, None, False

    def remember(self, answer):
        self.answers[answer.id] = answer

    async def find(self, answer_id):
        return self.answers.get(answer_id)

    async def put(self, label):
        if self.hangs:
            await asyncio.Event().wait()
        if self.fault:
            raise self.fault
        self.labels[label.answer.id] = label


class Told:
    def __init__(self, **config):
        self.store, self.answers, self.labels = Store(), [], []
        config = FeedbackConfig(**config)
        self.feedback = Feedback(self.store, config, self.count)

    def count(self, counter, outcome):
        {"feedback_answers": self.answers, "feedback_labels": self.labels}[counter].append(outcome)


async def test_a_label_of_an_unknown_answer_is_refused():
    told = Told()
    with pytest.raises(UnknownAnswer):
        await told.feedback.label("a", 1.0, None)
    assert told.labels == ["unknown"]


async def test_an_answer_that_another_gateway_is_about_to_store_is_found():
    told = Told()
    task = asyncio.create_task(told.feedback.label("a", 1.0, None))
    await asyncio.sleep(0.01)
    told.store.remember(an_answer("a"))
    await task
    assert told.labels == ["kept"]


async def test_a_store_that_fails_is_a_typed_error_that_may_be_repeated():
    told = Told()
    told.store.remember(an_answer("a"))
    told.store.fault = StoreFailed("the disk is full")
    with pytest.raises(FeedbackUnavailable, match="the disk is full"):
        await told.feedback.label("a", 1.0, None)
    assert told.labels == ["failed"]


async def test_a_store_that_hangs_is_one_after_the_time_limit():
    told = Told(timeout_s=0.5)
    told.store.remember(an_answer("a"))
    told.store.hangs = True
    with pytest.raises(FeedbackUnavailable, match=r"not kept within 0\.5 s"):
        await told.feedback.label("a", 1.0, None)


async def test_an_answer_that_cannot_be_remembered_is_counted_and_told_once(caplog):
    told = Told()

    def make():
        raise ValueError("zanzibar-sentinel")

    told.feedback.remember(make)
    told.feedback.remember(make)
    assert told.answers == ["lost", "lost"]
    assert len(caplog.records) == 1
    assert "zanzibar-sentinel" not in caplog.text


async def test_what_is_not_to_be_labelled_is_neither_remembered_nor_lost():
    told = Told()
    told.feedback.remember(lambda: None)
    assert (told.answers, told.store.answers) == ([], {})


async def test_without_a_place_there_are_no_labels():
    assert make_feedback(FeedbackConfig(), print) is None
