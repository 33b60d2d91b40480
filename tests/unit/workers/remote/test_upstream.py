"""What happens to calls of a server, and what its watch finds."""

import asyncio
import logging

import pytest
from pydantic import SecretStr

from models.errors import GenerationUnavailable, InvalidRequest, ModelNotLoaded
from tests.conftest import until
from workers.config import ServerAddress, ServerConfig
from workers.hooks import Hooks
from workers.remote.client import Unconnected, Unreachable
from workers.remote.upstream import Upstream

pytestmark = pytest.mark.anyio
URL = "http://a:1"
DOWN = Unconnected("no connection can be made")
CUT = Unconnected("it ends connections")


class Fake:
    """An `Upstream` whose server fails by the faults of a test, one after another, then answers.

    A fault that `stays` comes again and again.
    """

    def __init__(self, *faults, stays=None, is_routed=False):
        self.faults, self.stays = list(faults), stays
        self.num_asked, self.outcomes, self.troubles = 0, [], []
        hooks = Hooks(on_call=self._on_call, on_server=self._on_server)
        address = ServerAddress(url=URL)
        self.upstream = Upstream("generation", address, self, hooks, is_routed=is_routed)

    def _on_call(self, role, outcome, seconds):
        self.outcomes.append(outcome)

    def _on_server(self, role, url, trouble):
        assert url == URL
        self.troubles.append(trouble)

    async def look_up(self, client):
        return await self.send(client)

    async def try_out(self, client, said):
        return said

    async def ask_again(self, client, known):
        return known

    async def send(self, server):
        self.num_asked += 1
        await asyncio.sleep(0)
        if self.stays is not None:
            raise self.stays
        if self.faults:
            raise self.faults.pop(0)
        return "an answer"


async def test_a_server_is_told_with_what_is_wrong_with_it_and_when_it_is_back(caplog):
    fake = Fake(stays=Unreachable("it says nothing"))
    await fake.upstream.check()
    fake.stays = None
    caplog.set_level(logging.INFO)
    await fake.upstream.check()
    assert fake.troubles == ["it says nothing", ""]
    assert "generation at http://a:1 is lost: it says nothing" in caplog.text
    assert "generation at http://a:1 is back" in caplog.text


@pytest.mark.parametrize("fault", [DOWN, CUT], ids=["not connected", "cut"])
async def test_a_call_without_an_answer_is_made_once_more(fault):
    fake = Fake(fault)
    assert await fake.upstream.call(fake.send) == "an answer"
    assert fake.outcomes == ["repeated", "answered"]
    assert fake.troubles == [str(fault)]

    fake = Fake(stays=fault)
    with pytest.raises(GenerationUnavailable, match=str(fault)):
        await fake.upstream.call(fake.send)
    assert (fake.num_asked, fake.outcomes) == (2, ["repeated", "failed"])


async def test_a_lost_call_says_nothing_of_a_server_with_replicas_behind_it():
    fake = Fake(CUT, is_routed=True)
    assert await fake.upstream.call(fake.send) == "an answer"
    assert (fake.upstream.server.is_up, fake.troubles) == (True, [])


async def test_a_server_that_was_lost_is_called_all_the_same():
    fake = Fake(DOWN, DOWN)
    with pytest.raises(GenerationUnavailable):
        await fake.upstream.call(fake.send)
    assert not fake.upstream.server.is_up
    assert await fake.upstream.call(fake.send) == "an answer"


async def test_what_was_passed_on_in_part_is_not_repeated():
    fake = Fake(CUT)
    with pytest.raises(GenerationUnavailable):
        await fake.upstream.call(fake.send, may_repeat=lambda: False)
    assert (fake.num_asked, fake.outcomes) == (1, ["failed"])


async def test_an_error_of_a_worker_is_an_answer():
    fake = Fake(InvalidRequest("no"))
    with pytest.raises(InvalidRequest):
        await fake.upstream.call(fake.send)
    assert (fake.num_asked, fake.outcomes) == (1, ["answered"])
    assert fake.upstream.server.is_up


async def test_connecting_waits_until_the_server_answers(monkeypatch):
    monkeypatch.setattr("workers.remote.upstream._WATCH_S", 0.01)
    fake = Fake(stays=DOWN)
    connecting = asyncio.create_task(fake.upstream.connect())
    await asyncio.sleep(0.05)
    assert not connecting.done()
    fake.stays = None
    await asyncio.wait_for(connecting, 5)
    assert fake.upstream.server.is_up


async def test_a_watch_outlives_whatever_is_said_and_heals_until_it_is_closed(monkeypatch, caplog):
    monkeypatch.setattr("workers.remote.upstream._WATCH_S", 0.01)
    fake = Fake(DOWN, RuntimeError("another kind of failure"))
    watches = [asyncio.create_task(fake.upstream.run()) for _ in range(2)]
    await until(lambda: "" in fake.troubles)
    assert fake.troubles[0] == str(DOWN)
    assert "generation at http://a:1 cannot be checked" in caplog.text
    await fake.upstream.close()
    await asyncio.wait_for(asyncio.gather(*watches), 5)


def test_a_key_comes_from_the_settings_or_from_a_file(tmp_path):
    file = tmp_path / "key"
    file.write_text("from a file\n")
    assert ServerAddress().keys("generation") == ()
    assert ServerAddress(api_key=SecretStr("direct")).keys("generation") == ("direct",)
    assert ServerConfig(api_key_file=str(file)).keys("worker") == ("from a file",)


def test_of_several_keys_a_caller_shows_the_first():
    address = ServerAddress(url="http://a:1", api_key=SecretStr("new, old"))
    assert address.keys("generation") == ("new", "old")
    upstream = Upstream("generation", address, None, Hooks())
    assert upstream.server.client.headers["Authorization"] == "Bearer new"


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
        ServerConfig(**changes).keys("worker")
    assert "geheim" not in str(error.value)
