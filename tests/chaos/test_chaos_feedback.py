"""Labels to two gateways over a Redis that is killed in the middle: what was acknowledged stays."""

import asyncio
import collections
import itertools
import re
import time
from contextlib import asynccontextmanager

import orjson
import pytest
from pydantic import SecretStr

from app.plugins.labels.protocol import FeedbackConfig
from cocoa_lab.calibration.feedback import stored_labels
from tests.chaos.cocoa_process import cocoa_serve
from tests.chaos.redis_server import running_redis

pytestmark = pytest.mark.anyio

NUM_LABELS = 10_000
NUM_CLIENTS = 64
NUM_ITEMS = 50  # answers of one call
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


class Connection:
    """A kept connection to one gateway, which costs little: 64 clients share two cores with all."""

    def __init__(self, port):
        self._port, self._streams = port, None

    async def post(self, path, body):
        """Status and JSON of the response."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        content = orjson.dumps(body)
        head = f"POST {path} HTTP/1.1\r\nHost: cocoa\r\nContent-Length: {len(content)}\r\n\r\n"
        writer.write(head.encode() + content)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(re.search(rb"content-length: (\d+)", head)[1])
        return int(head.split()[1]), orjson.loads(await reader.readexactly(length))

    async def close(self):
        if self._streams is not None:
            self._streams[1].close()
            await asyncio.gather(self._streams[1].wait_closed(), return_exceptions=True)


class Gateways:
    """Two gateways, of which each client has a connection, asked in turn.

    Attributes:
        acknowledged: quality by id of the answer.
        outcomes: how often each status and error code was answered to a label.
        longest_s: that a label took.
    """

    def __init__(self, processes):
        self._ports = [process.port for process in processes]
        self.acknowledged = {}
        self.outcomes = collections.Counter()
        self.longest_s = 0.0

    @asynccontextmanager
    async def connections(self):
        """Those of one client, in endless turns."""
        connections = [Connection(port) for port in self._ports]
        try:
            yield itertools.cycle(connections)
        finally:
            for connection in connections:
                await connection.close()

    async def answers(self, connections, call):
        """Ids of new answers."""
        items = []
        for item in range(NUM_ITEMS):
            prompt = f"Question {item} of {call}"
            items.append({"prompt": prompt, "answer": " Paris", "estimators": ["sp"]})
        _, reply = await next(connections).post("/score", {"items": items})
        return [outcome["result"]["id"] for outcome in reply["results"]]

    async def label(self, connections, answer_id, quality):
        """Label an answer, again and again until that is acknowledged, once."""
        body = {"id": answer_id, "quality": quality}
        while answer_id not in self.acknowledged:
            began_at = time.monotonic()
            status, reply = await next(connections).post("/feedback", body)
            self.longest_s = max(self.longest_s, time.monotonic() - began_at)
            self.outcomes[status, reply.get("error", {}).get("code")] += 1
            if status == 200:
                self.acknowledged[answer_id] = quality
            else:
                assert status == 503
                await asyncio.sleep(0.2)


async def each(items, work, gateways, num_clients=NUM_CLIENTS):
    """Run `work` on each item, so many at once as there are clients."""
    items = iter(items)

    async def one_client():
        async with gateways.connections() as connections:
            for item in items:
                await work(connections, *item)

    async with asyncio.TaskGroup() as clients:
        for _ in range(num_clients):
            clients.create_task(one_client())


@pytest.mark.timeout(240)
async def test_no_acknowledged_label_is_lost_or_counted_twice_while_redis_is_killed(tmp_path):
    environment = {"COCOA_GENERATION__ENGINE": "fake", "COCOA_CACHE__ENABLED": "false"}
    with running_redis(tmp_path, *DURABLE) as redis_server:
        environment["COCOA_FEEDBACK__URL"] = redis_server.url
        with cocoa_serve(**environment) as first, cocoa_serve(**environment) as second:
            for process in (first, second):
                process.wait_ready()
            await label_while_redis_dies(Gateways([first, second]), redis_server)


async def new_answers(gateways, num_answers):
    """Ids of so many answers."""
    answer_ids = []

    async def answer(connections, call):
        answer_ids.extend(await gateways.answers(connections, call))

    await each(((call,) for call in range(num_answers // NUM_ITEMS)), answer, gateways, 4)
    return answer_ids


async def label_while_redis_dies(gateways, redis_server):
    async def kill_and_restart():
        while len(gateways.acknowledged) < NUM_LABELS // 2:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        redis_server.kill()
        await asyncio.sleep(1)
        await asyncio.to_thread(redis_server.start)

    answer_ids = await new_answers(gateways, NUM_LABELS)
    labels = {answer_id: i / NUM_LABELS for i, answer_id in enumerate(answer_ids)}
    began_at = time.monotonic()
    async with asyncio.TaskGroup() as group:
        group.create_task(kill_and_restart())
        group.create_task(each(labels.items(), gateways.label, gateways))
    seconds = time.monotonic() - began_at
    print(
        f"{len(labels)} labels in {seconds:.1f} s, {len(labels) / seconds:.0f} a second, "
        f"the longest {gateways.longest_s:.2f} s: {dict(gateways.outcomes)}"
    )
    assert gateways.outcomes.keys() == {(200, None), (503, "feedback_unavailable")}
    stored = stored_labels(redis_server.url, FeedbackConfig(url=SecretStr(redis_server.url)))
    assert stored.num_unread == 0
    assert {one.answer.id: one.quality for one in stored.labels} == labels
    with redis_server.client() as client:
        assert client.hlen("cocoa:feedback:labels") == gateways.outcomes[200, None] == NUM_LABELS


async def test_what_a_killed_gateway_has_acknowledged_is_in_its_file_and_the_next_goes_on(tmp_path):
    path = tmp_path / "labels.jsonl"
    environment = {"COCOA_GENERATION__ENGINE": "fake", "COCOA_FEEDBACK__PATH": str(path)}

    def kept():
        stored = stored_labels(str(path), FeedbackConfig())
        assert stored.num_unread == 0
        return {one.answer.id: one.quality for one in stored.labels}

    acknowledged = {}
    for _ in range(2):
        with cocoa_serve(**environment) as process:
            process.wait_ready()
            gateways = Gateways([process])
            labels = dict.fromkeys(await new_answers(gateways, 2000), 0.5)

            async def kill(gateways=gateways, process=process):
                while len(gateways.acknowledged) < 500:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
                process.popen.kill()

            labelling = each(labels.items(), gateways.label, gateways)
            _, ended = await asyncio.gather(kill(), labelling, return_exceptions=True)
            assert ended.subgroup((OSError, asyncio.IncompleteReadError)) is not None
            acknowledged |= gateways.acknowledged
            print(f"{len(gateways.acknowledged)} acknowledged, {len(kept())} kept")
        assert acknowledged.items() <= kept().items()
    assert len(acknowledged) >= 1000
