"""Streams on real sockets: readers that leave, that stop reading, and many of both."""

import asyncio
import gc
import json
import os
import resource
from contextlib import asynccontextmanager, suppress

import pytest

from app.http import connections
from app.settings import Limits
from models.records import Token
from tests.chaos.listening import listening
from tests.conftest import GENERATE, until
from tests.events import events_of, named
from tests.tiny_models import byte_tokenizer, random_model

pytestmark = pytest.mark.anyio

NUM_STREAMS, NUM_ROUNDS, NUM_WARM_UP = 200, 10, 3
NUM_MORE = 8
MAX_GROWTH_BYTES = 30_000_000


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory):
    """Path of a model that never ends an answer before its bound."""
    path = str(tmp_path_factory.mktemp("tiny"))
    model = random_model("llama", scale=1.0)
    model.generation_config.eos_token_id = None
    model.config.eos_token_id = None
    model.save_pretrained(path)
    byte_tokenizer().save_pretrained(path)
    return path


@pytest.fixture(params=["embedded", "remote"])
def generating(request, tiny_model):
    """Starts the service over a real engine, with its gate open: (service, port)."""

    @asynccontextmanager
    async def start(limits=None, **generation):
        settings = {"engine": "transformers", "model": tiny_model, "threads": 1} | generation
        placed = listening(limits, placement=request.param, **settings)
        async with placed as (service, port, gate):
            gate.opened.set()
            yield service, port

    return start


def rows_of(service):
    return service.engine._batch._rows


class Reader:
    """A client of one stream, that reads as much as it is told to."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.text = b""

    @classmethod
    async def open(cls, port, **body):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**16)
        content = {"prompt": "Tell me.", "stream": True, "cache": False, "num_samples": 2} | body
        data = json.dumps(content).encode()
        head = f"POST {GENERATE} HTTP/1.1\r\nHost: cocoa\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Connection: close\r\nContent-Length: {len(data)}\r\n\r\n".encode())
        writer.write(data)
        await writer.drain()
        return cls(reader, writer)

    async def read_token(self):
        """Read until a token has come."""
        while b"event: token" not in self.text:
            chunk = await self.reader.read(4096)
            assert chunk
            self.text += chunk

    async def read_all(self):
        """The events of the whole stream."""
        async with asyncio.timeout(60):
            self.text += await self.reader.read(-1)
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()
        _, _, body = self.text.partition(b"\r\n\r\n")
        return events_of(dechunked(body))

    def leave(self):
        self.writer.transport.abort()


def dechunked(body):
    """What a body in chunks says."""
    text = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        text, body = text + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return text.decode()


async def test_a_reader_that_leaves_in_the_middle_frees_its_rows_and_counts_as_gone(generating):
    async with generating() as (service, port):
        leaving = await Reader.open(port, max_new_tokens=400)
        await leaving.read_token()
        assert len(rows_of(service)) == 3
        leaving.leave()
        await until(lambda: not rows_of(service))
        await until(lambda: service.admission.num_admitted == 0)
        metrics = (await service.client.get("/metrics")).text
        assert f'cocoa_requests_total{{route="{GENERATE}",status="499"}} 1.0' in metrics
        assert 'cocoa_errors_total{code="internal_error"} 0.0' in metrics


async def test_tokens_come_while_the_answer_is_written(generating):
    async with generating() as (service, port):
        reading = await Reader.open(port, max_new_tokens=300)
        await reading.read_token()
        assert b"event: result" not in reading.text
        assert rows_of(service)
        events = await reading.read_all()

    [result] = named(events, "result")
    assert "".join(token["text"] for token in named(events, "token")) == result["text"]
    assert len(named(events, "token")) == result["usage"]["completion_tokens"] == 300


def tell_much(service):
    """Have the generator tell more of a prompt that says so than all buffers on the way hold."""
    generate = service.generator.generate

    async def verbose(request, on_token=None):
        generation = await generate(request, on_token)
        if "much" in request.prompt:
            for _ in range(2000):
                on_token(Token("x" * 10_000))
                await asyncio.sleep(0)
            await asyncio.Event().wait()
        return generation

    service.generator.generate = verbose


def num_closed(service, reason):
    name = "cocoa_closed_connections_total"
    return service.telemetry.registry.get_sample_value(name, {"reason": reason})


async def test_a_reader_that_stops_reading_holds_nobody_up_and_is_closed(monkeypatch):
    monkeypatch.setattr(connections, "_WRITE_S", 3)  # the others are read meanwhile
    async with listening() as (service, port, gate):
        gate.opened.set()
        tell_much(service)
        stopped = await Reader.open(port, prompt="Tell me much.", max_new_tokens=64)
        await stopped.read_token()
        for _ in range(5):
            other = await Reader.open(port, max_new_tokens=8)
            assert named(await other.read_all(), "result")
        assert service.admission.num_admitted == 1
        await until(lambda: num_closed(service, "slow_reader") == 1)
        await until(lambda: service.admission.num_admitted == 0)
        stopped.leave()


async def test_a_reader_may_rest_for_longer_than_a_head_may_take(monkeypatch):
    monkeypatch.setattr(connections, "_SWEEP_S", 0.05)
    async with listening(Limits(max_head_s=0.1)) as (service, port, gate):
        gate.opened.set()
        tell_much(service)
        resting = await Reader.open(port, prompt="Tell me much.", max_new_tokens=64)
        await resting.read_token()
        await asyncio.sleep(0.5)
        assert service.admission.num_admitted == 1
        assert num_closed(service, "slow_request") == 0
        resting.leave()


async def test_half_of_many_readers_leave_again_and_again_and_nothing_is_left_of_them(generating):
    limits = Limits(max_connections=4 * NUM_STREAMS)
    settings = {"admission_limit": 2 * NUM_STREAMS}
    num_files_before = num_open_files()
    async with generating(limits, **settings) as (service, port):
        num_files_idle = num_open_files()
        resident, num_tasks, num_files = [], [], []
        for _ in range(NUM_ROUNDS):
            await one_round(port)
            await until(lambda: not rows_of(service) and not service.admission.num_admitted)
            await until(lambda: service.generator.num_waiting == 0)
            gc.collect()
            num_tasks.append(len(asyncio.all_tasks()))
            num_files.append(num_open_files())
            resident.append(resident_bytes())
        first, later = slice(NUM_WARM_UP), slice(NUM_WARM_UP, None)
        assert max(num_tasks[later]) <= max(num_tasks[first]) + NUM_MORE, num_tasks
        # A gateway keeps the connections of calls that ended, for the next ones: at most as many
        # as were under way at once. The worker's ends of them are files of this process, too.
        num_kept = 0 if service.elsewhere is None else 2 * NUM_STREAMS
        assert max(num_files) <= num_files_idle + num_kept + NUM_MORE, num_files
        assert resident[-1] - resident[NUM_WARM_UP] < MAX_GROWTH_BYTES, resident
        metrics = (await service.client.get("/metrics")).text
        num_gone = NUM_ROUNDS * NUM_STREAMS // 2
        route = f'cocoa_requests_total{{route="{GENERATE}",status='
        assert f'{route}"200"}} {num_gone:.1f}' in metrics
        assert f'{route}"499"}} {num_gone:.1f}' in metrics
    await until(lambda: num_open_files() <= num_files_before + NUM_MORE)


def num_open_files():
    """Open files of this process, sockets among them."""
    return len(os.listdir("/proc/self/fd"))


async def one_round(port):
    """Streams of which every second one is left once its first token is there."""
    bodies = [{"max_new_tokens": 12, "num_samples": 1, "seed": i} for i in range(NUM_STREAMS)]
    readers = await asyncio.gather(*(Reader.open(port, **body) for body in bodies))

    async def leave(reader):
        await reader.read_token()
        reader.leave()

    leaving = [leave(reader) for reader in readers[::2]]
    staying = [reader.read_all() for reader in readers[1::2]]
    _, streams = await asyncio.gather(asyncio.gather(*leaving), asyncio.gather(*staying))
    for events in streams:
        assert len(named(events, "result")) == 1


def resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()
