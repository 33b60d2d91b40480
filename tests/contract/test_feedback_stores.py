"""The contract of `app.plugins.labels.protocol.FeedbackStore`, on every implementation.

Those are the file of one gateway and a real Redis, alone or as a cluster.
"""

import asyncio
from contextlib import asynccontextmanager

import pytest
from pydantic import SecretStr

from app.plugins.labels.collecting import make_feedback
from app.plugins.labels.protocol import AnswerPart, FeedbackConfig, Label, PartLabel
from cocoa_lab.calibration.feedback import stored_labels
from tests.chaos.redis_server import running_cluster, running_redis
from tests.made_labels import a_binding, a_label, an_answer

pytestmark = pytest.mark.anyio

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis"), *DURABLE) as server:
        yield server.url


@pytest.fixture(scope="module")
def cluster_url(tmp_path_factory):
    with running_cluster(tmp_path_factory.mktemp("cluster"), *DURABLE) as servers:
        yield servers[0].url


class Running:
    """A started store, how many answers it lost, and what it holds for a calibrator."""

    def __init__(self, source, config):
        self.source, self.config, self.answers = source, config, []
        feedback = make_feedback(config, lambda counter, outcome: self.answers.append(outcome))
        self.store = feedback.store

    @property
    def num_lost(self):
        return self.answers.count("lost")

    @property
    def kept(self):
        """Quality by id of the answer."""
        stored = stored_labels(self.source, self.config)
        assert stored.num_unread == 0
        return {label.answer.id: label.quality for label in stored.labels}


@pytest.fixture(params=["file", "redis", "cluster"])
def starting(request, tmp_path):
    """A function that starts a store of this kind; each test has its own labels."""
    namespace = request.node.name.partition("[")[0][:64]

    @asynccontextmanager
    async def start(**config):
        if request.param != "file":
            source = request.getfixturevalue(f"{request.param}_url")
            config = {"url": SecretStr(source), "namespace": namespace} | config
        else:
            source = str(tmp_path / "labels.jsonl")
            config = {"path": source} | config
        running = Running(source, FeedbackConfig(**{"timeout_s": 20} | config))
        await running.store.start()
        try:
            yield running
        finally:
            await running.store.close()

    return start


async def test_a_remembered_answer_is_found_at_once_and_whole(starting):
    answer = an_answer(text="Ünique\n", binding=a_binding(stop=("a", "\n"), probes={"p": "1"}))
    async with starting() as running:
        running.store.remember(answer)
        assert await running.store.find("a") == answer


async def test_an_unknown_id_is_none(starting):
    async with starting() as running:
        running.store.remember(an_answer("a"))
        assert await running.store.find("b") is None
        assert await running.store.find("labels") is None


async def test_a_later_answer_of_the_same_id_replaces_the_earlier(starting):
    async with starting() as running:
        running.store.remember(an_answer("a", scores={"sp": 1.0}))
        running.store.remember(later := an_answer("a", scores={"sp": 2.0}))
        assert await running.store.find("a") == later


async def test_an_answer_is_forgotten_after_its_time(starting):
    async with starting(ttl_s=1) as running:
        running.store.remember(an_answer("a"))
        async with asyncio.timeout(30):
            while await running.store.find("a") is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


async def test_a_label_is_read_back_as_it_was_put(starting):
    label = a_label("a", 0.75, "billing", text="Paris")
    async with starting() as running:
        await running.store.put(label)
        assert stored_labels(running.source, running.config).labels == [label]


async def test_labels_of_parts_are_read_back_with_all_that_was_said_of_each(starting):
    answer = an_answer("a", parts=(AnswerPart(None, (0, 3), {"ungrounded": 0.25}),) * 3)
    said = PartLabel(0, correct=True), PartLabel(1, grounded=False), PartLabel(2, False, True)
    label = Label(answer, None, None, 1.0, said)
    async with starting() as running:
        await running.store.put(label)
        assert stored_labels(running.source, running.config).labels == [label]


async def test_a_second_label_of_an_answer_replaces_the_first_and_counts_once(starting):
    async with starting() as running:
        for label in (a_label("a", 0.0), a_label("b", 0.5), a_label("a", 1.0)):
            await running.store.put(label)
        assert running.kept == {"a": 1.0, "b": 0.5}


async def test_of_labels_at_once_none_is_lost_and_the_last_of_an_answer_counts(starting):
    async with starting() as running:
        labels = [a_label(f"{i % 300}", float(i >= 300)) for i in range(600)]
        await asyncio.gather(*map(running.store.put, labels))
        assert running.kept == {f"{i}": 1.0 for i in range(300)}


async def test_labels_outlive_their_store(starting):
    async with starting() as running:
        await running.store.put(a_label("a", 0.0))
    async with starting() as running:
        await running.store.put(a_label("b", 1.0))
        assert running.kept == {"a": 0.0, "b": 1.0}


async def test_one_who_leaves_takes_no_label_of_others_with_them(starting):
    async with starting() as running:
        leaving = [asyncio.create_task(running.store.put(a_label(f"{i}"))) for i in range(20)]
        staying = [asyncio.create_task(running.store.put(a_label(f"s{i}"))) for i in range(20)]
        await asyncio.sleep(0)
        for task in leaving:
            task.cancel()
        await asyncio.gather(*staying)
        assert running.kept.keys() >= {f"s{i}" for i in range(20)}


async def test_text_of_any_kind_in_ids_and_tasks_comes_back(starting):
    async with starting() as running:
        for answer_id in ("a b", 'quote"', "\\", "{x}", "*", "\x00"):
            label = a_label(answer_id, task=f"ünï\n{answer_id}")
            await running.store.put(label)
            assert label in stored_labels(running.source, running.config).labels
