"""Which server a call goes to, and what happens when it fails."""

import asyncio
import logging
from collections import Counter

import httpx
import pytest
from pydantic import SecretStr

from models.errors import GenerationUnavailable, InvalidRequest, ModelNotLoaded
from workers.client import Unreachable
from workers.config import ServerConfig, api_keys
from workers.config import Servers as Place
from workers.hooks import Hooks
from workers.upstream import Upstream

pytestmark = pytest.mark.anyio
URLS = "http://a:1, http://b:1/,http://c:1,http://a:1"
DOWN = httpx.ConnectError("refused")
CUT = httpx.ReadError("cut")


class Servers:
    """An `Upstream` whose servers behave as a test says, by the letter in their URL."""

    def __init__(self, url=URLS, resolve=None, **faults):
        self.faults, self.asked, self.told = faults, [], []
        self.found = {}
        hooks = Hooks(on_call=self._on_call, on_server=self._on_server)
        self.upstream = Upstream("generation", Place(url=url), self, hooks, resolve=resolve)

    @property
    def left(self):
        return [url for url, trouble in self.found.items() if trouble is None]

    def _on_call(self, role, outcome, seconds):
        self.told.append(outcome)

    def _on_server(self, role, url, trouble):
        self.found[url] = trouble

    async def look_up(self, client):
        return await self.send(client)

    async def try_out(self, client, said):
        return said

    async def ask_again(self, client, known):
        return known

    async def send(self, server):
        name = server.url[7]
        self.asked.append(name)
        await asyncio.sleep(0)
        if (fault := self.faults.get(name)) is not None:
            raise fault
        return name


async def test_equal_keys_go_to_the_same_server_and_different_ones_to_all():
    servers = Servers()
    keys = [f"prompt {i}" for i in range(60)]
    first = [await servers.upstream.call(servers.send, key=key) for key in keys]
    again = [await servers.upstream.call(servers.send, key=key) for key in keys]
    assert first == again
    assert min(Counter(first).values()) > 10
    assert "".join(first[:10]) == "acbcbbbaca"  # in every process, whatever its hash seed


async def test_only_the_keys_of_a_server_that_is_gone_move():
    keys = [f"prompt {i}" for i in range(60)]
    three, two = Servers(), Servers("http://a:1,http://c:1")
    before = [await three.upstream.call(three.send, key=key) for key in keys]
    after = [await two.upstream.call(two.send, key=key) for key in keys]

    assert [new for old, new in zip(before, after, strict=True) if old == new] == [
        old for old in before if old != "b"
    ]
    assert {new for old, new in zip(before, after, strict=True) if old == "b"} == {"a", "c"}


async def test_servers_come_and_go_with_the_addresses_of_their_name(monkeypatch, caplog):
    monkeypatch.setattr("workers.upstream._RESOLVE_S", 0.0)
    found = ["a"]

    async def resolve(host):
        if not found:
            raise OSError("no such name")
        assert host == "vllm-pods"
        return found

    servers = Servers("http://vllm-pods:8000", resolve)
    upstream = servers.upstream

    async def look():
        await upstream.follow_names()
        return [(one.url, one.is_up) for one in upstream.servers]

    with pytest.raises(GenerationUnavailable, match="no address"):
        await upstream.call(servers.send)
    await upstream.connect()
    [first] = upstream.servers
    assert first.client.headers["Host"] == "vllm-pods:8000"
    found.append("b")
    assert await look() == [("http://a:8000", True), ("http://b:8000", False)]
    found.clear()
    assert len(await look()) == 2
    assert "no address is known of http://vllm-pods:8000" in caplog.text
    found.append("b")
    first.num_calls = 1  # its answers are waited for
    assert (len(await look()), servers.left) == (2, [])
    first.num_calls = 0
    assert (len(await look()), servers.left) == (1, ["http://a:8000"])
    await upstream.check(upstream.servers[0])
    assert (servers.found["http://a:8000"], servers.found["http://b:8000"]) == (None, "")
    await upstream.close()
    assert servers.left == ["http://a:8000", "http://b:8000"]


async def test_each_server_is_told_with_what_is_wrong_with_it():
    servers = Servers(b=Unreachable("it says nothing"))
    await servers.upstream.connect()
    assert servers.found == {"http://a:1": "", "http://b:1": "it says nothing", "http://c:1": ""}
    servers.faults = {"a": CUT}
    await servers.upstream.call(servers.send)
    assert servers.found["http://a:1"] == "ReadError"


async def test_without_a_key_calls_go_where_the_fewest_are_under_way():
    servers = Servers()
    gate = asyncio.Event()

    async def held(server):
        await gate.wait()
        return server.url[7]

    calls = [asyncio.create_task(servers.upstream.call(held)) for _ in range(6)]
    await asyncio.sleep(0.01)
    assert [server.num_calls for server in servers.upstream.servers] == [2, 2, 2]
    gate.set()
    assert sorted(await asyncio.gather(*calls)) == list("aabbcc")
    assert [server.num_calls for server in servers.upstream.servers] == [0, 0, 0]


async def test_servers_that_cannot_be_reached_are_passed_over_until_they_answer(caplog):
    servers = Servers(a=DOWN, b=DOWN)
    assert await servers.upstream.call(servers.send) == "c"
    assert servers.told == ["repeated", "repeated", "answered"]
    servers.asked.clear()
    assert await servers.upstream.call(servers.send) == "c"
    assert servers.asked == ["c"]
    assert "generation at http://a:1 is left out: ConnectError" in caplog.text

    del servers.faults["a"]
    caplog.set_level(logging.INFO)
    for server in servers.upstream.servers:
        await servers.upstream.check(server)
    assert [server.is_up for server in servers.upstream.servers] == [True, False, True]
    assert "http://a:1 is back" in caplog.text


async def test_a_call_that_fails_on_its_way_is_repeated_once():
    servers = Servers(a=CUT)
    assert await servers.upstream.call(servers.send) == "b"
    servers = Servers(a=CUT, b=CUT)
    with pytest.raises(GenerationUnavailable, match="ReadError"):
        await servers.upstream.call(servers.send)
    assert servers.asked == ["a", "b"]
    assert servers.told == ["repeated", "failed"]


async def test_a_single_server_that_closed_an_old_connection_is_asked_again():
    servers = Servers("http://a:1", a=CUT)

    async def well_the_second_time(server):
        if servers.asked:
            del servers.faults["a"]
        return await servers.send(server)

    assert await servers.upstream.call(well_the_second_time) == "a"


async def test_what_was_passed_on_in_part_is_not_repeated():
    servers = Servers(a=CUT)
    with pytest.raises(GenerationUnavailable):
        await servers.upstream.call(servers.send, may_repeat=lambda: False)
    assert servers.asked == ["a"]


async def test_an_error_of_a_worker_is_an_answer():
    servers = Servers(a=InvalidRequest("no"))
    with pytest.raises(InvalidRequest):
        await servers.upstream.call(servers.send)
    assert (servers.asked, servers.told) == (["a"], ["answered"])
    assert servers.upstream.servers[0].is_up


async def test_nobody_answers():
    servers = Servers(a=DOWN, b=DOWN, c=DOWN)
    with pytest.raises(GenerationUnavailable, match="ConnectError"):
        await servers.upstream.call(servers.send)
    assert servers.told[-1] == "failed"


async def test_connecting_waits_for_the_first_that_answers(monkeypatch):
    monkeypatch.setattr("workers.upstream._WATCH_S", 0.01)
    servers = Servers(a=DOWN, b=DOWN, c=DOWN)
    connecting = asyncio.create_task(servers.upstream.connect())
    await asyncio.sleep(0.05)
    assert not connecting.done()
    del servers.faults["b"]
    await asyncio.wait_for(connecting, 5)
    assert [server.is_up for server in servers.upstream.servers] == [False, True, False]


async def test_a_watch_heals_until_it_is_closed(monkeypatch):
    monkeypatch.setattr("workers.upstream._WATCH_S", 0.01)
    servers = Servers(a=DOWN)
    servers.upstream.servers[1].trouble = "it was away"
    watches = [asyncio.create_task(servers.upstream.run()) for _ in range(2)]
    await asyncio.sleep(0.1)
    assert [server.is_up for server in servers.upstream.servers] == [False, True, True]
    await servers.upstream.close()
    await asyncio.wait_for(asyncio.gather(*watches), 5)


async def test_a_name_that_cannot_be_looked_up_does_not_end_the_watch(monkeypatch, caplog):
    monkeypatch.setattr("workers.upstream._WATCH_S", 0.01)
    monkeypatch.setattr("workers.upstream._RESOLVE_S", 0.0)
    faults = []

    async def resolve(host):
        if faults:
            raise faults[0]
        return ["a"]

    servers = Servers("http://vllm-pods:8000", resolve)
    await servers.upstream.connect()
    faults.append(RuntimeError("a resolver of another kind"))
    watch = asyncio.create_task(servers.upstream.run())
    await asyncio.sleep(0.05)
    servers.faults["a"] = DOWN
    await asyncio.sleep(0.1)
    assert "generation: names of servers cannot be looked up" in caplog.text
    assert servers.found["http://a:8000"] == "ConnectError"
    await servers.upstream.close()
    await asyncio.wait_for(watch, 5)


def test_a_key_comes_from_the_settings_or_from_a_file(tmp_path):
    file = tmp_path / "key"
    file.write_text("from a file\n")
    assert api_keys(Place(), "generation") == ()
    assert api_keys(Place(api_key=SecretStr("direct")), "generation") == ("direct",)
    assert api_keys(ServerConfig(api_key_file=str(file)), "worker") == ("from a file",)


def test_of_several_keys_a_caller_shows_the_first():
    place = Place(url="http://a:1", api_key=SecretStr("new, old"))
    assert api_keys(place, "generation") == ("new", "old")
    upstream = Upstream("generation", place, None, Hooks())
    assert upstream.servers[0].client.headers["Authorization"] == "Bearer new"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"api_key_file": "/no/where"},
            "COCOA_WORKER__API_KEY_FILE cannot be read: /no/where: No such",
        ),
        ({"api_key": SecretStr("geheim"), "api_key_file": "/x"}, "exclude each other"),
        ({"api_key": SecretStr(" , ")}, "COCOA_WORKER__API_KEY holds no key"),
        ({"api_key_file": "/dev/null"}, "COCOA_WORKER__API_KEY_FILE holds no key"),
    ],
)
def test_a_key_that_cannot_be_had_is_told_without_it(changes, message):
    with pytest.raises(ModelNotLoaded, match=message) as error:
        api_keys(ServerConfig(**changes), "worker")
    assert "geheim" not in str(error.value)
