"""What a cache returns is not trusted: whatever stands there, requests are answered, and rightly.

An entry that is none is a miss, counted, and overwritten by what is computed.
"""

import orjson
import pytest
from pydantic import SecretStr

from app.cache.protocol import CacheConfig
from app.scoring.memory import seal, unseal
from models.probes.protocol import ProbeConfig
from tests.api.test_api_cache import body_of, until_cached
from tests.chaos.proxy import proxy_to
from tests.chaos.redis_server import running_redis
from tests.conftest import serving, until
from tests.corrupt_entries import KINDS
from tests.fakes.estimators import WITHOUT_DOCUMENTS
from tests.tiny_probes import saved

pytestmark = pytest.mark.anyio

# All kinds of statistics: one probe is loaded, and the other estimator's is not.
EVERYTHING = {
    "estimators": sorted({*WITHOUT_DOCUMENTS} - {"high_semantic_entropy_light"}),
    "num_samples": 4,
    "seed": 3,
    "return_samples": True,
    "return_tokens": True,
}


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("probe"))


@pytest.fixture
async def service(anyio_backend, probe):
    """The service with a probe and a cache in its process."""
    async with serving(probes=ProbeConfig(probe, "")) as running:
        yield running


def cache_of(service):
    """What holds the entries as they are."""
    return service.core.scorer.memory.cache


def entries_of(service, kind):
    """Entries by name: "statistics" or "pair"."""
    stored = cache_of(service)._entries.items()
    return {name: value for name, (value, _) in stored if name.startswith(f"{kind}:")}


def metric(service, name, **labels):
    return service.telemetry.registry.get_sample_value(f"cocoa_{name}_total", labels)


async def assert_missed_and_overwritten(service, num_corrupt, first, body):
    """The next such request is computed and right, and the one after it is served again."""
    misses = metric(service, "cache_lookups", result="miss")
    again = await service.generate(**body)
    last = await service.generate(**body)

    assert [response.json()["cached"] for response in (again, last)] == [False, True]
    assert body_of(again) == body_of(last) == body_of(first)
    assert metric(service, "cache_corrupt_entries") == num_corrupt
    assert metric(service, "cache_lookups", result="miss") == misses + 1


# All kinds are refused in tests/unit/app/scoring/test_entries.py.
@pytest.mark.parametrize("kind", ["null", "no generation", "a similarity of 5", "no probe"])
async def test_a_sealed_entry_of_statistics_that_make_no_sense_is_a_miss(service, kind):
    first = await service.generate(**EVERYTHING)
    [(name, entry)] = entries_of(service, "statistics").items()
    forged = orjson.dumps(KINDS[kind](orjson.loads(unseal(name, entry))))
    cache_of(service).put({name: seal(name, forged)})

    await assert_missed_and_overwritten(service, 1, first, EVERYTHING)


async def test_a_sealed_entry_of_a_pair_that_makes_no_sense_is_a_miss(service):
    first = await service.generate(**EVERYTHING)
    names = entries_of(service, "pair")
    num_pairs = sum(service.pair_model.batches)
    cache_of(service).put({name: seal(name, b"[[5.0], false]") for name in names})

    # Another request of the same texts, which finds no statistics.
    body = EVERYTHING | {"max_new_tokens": 63}
    await assert_missed_and_overwritten(service, len(names), first, body)
    assert sum(service.pair_model.batches) > num_pairs


def flipped(data):
    """Another first bit."""
    return bytes([data[0] ^ 1]) + data[1:]


DAMAGE = {
    "nothing": lambda entry, other: b"",
    "half a seal": lambda entry, other: entry[:8],
    "a seal": lambda entry, other: entry[:16],
    "no seal": lambda entry, other: entry[16:],
    "a byte less": lambda entry, other: entry[:-1],
    "a byte more": lambda entry, other: entry + b" ",
    "a bit of the seal flipped": lambda entry, other: flipped(entry),
    "a bit of the payload flipped": lambda entry, other: entry[:-9] + flipped(entry[-9:]),
    "another's entry": lambda entry, other: other,
    "another's payload": lambda entry, other: entry[:16] + other[16:],
    "junk": lambda entry, other: b"\xff\x00" * 1000,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=list(DAMAGE))
async def test_an_entry_of_statistics_that_was_damaged_or_moved_is_a_miss(service, damage):
    await service.generate(**EVERYTHING | {"seed": 4})
    [(other_name, other)] = entries_of(service, "statistics").items()
    first = await service.generate(**EVERYTHING)
    [name] = entries_of(service, "statistics").keys() - {other_name}
    entry = entries_of(service, "statistics")[name]
    cache_of(service).put({name: damage(entry, other)})

    await assert_missed_and_overwritten(service, 1, first, EVERYTHING)


# All replies without sense are tried in tests/chaos/test_chaos_redis_replies.py.
NONSENSE = {
    "another protocol": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "an array of what is no entry": b"*1\r\n$5\r\nhello\r\n",
}


@pytest.mark.parametrize("reply", NONSENSE.values(), ids=list(NONSENSE))
async def test_a_reply_of_redis_without_sense_is_a_miss_and_the_cache_serves_again(reply, tmp_path):
    with running_redis(tmp_path) as redis_server:
        async with proxy_to(redis_server.port) as proxy:
            cache = CacheConfig(url=SecretStr(proxy.url), timeout_s=1.0)
            async with serving(cache=cache) as service:
                await until(lambda: service.metric("cocoa_cache_breaker_open") == 0)
                await until_cached(service)
                first = await service.generate(prompt="Is Redis there?", seed=0)
                proxy.instead = {b"MGET": reply}
                again = await service.generate(prompt="Is Redis there?", seed=0)
                proxy.instead = {}
                await until_cached(service)

    assert again.json()["cached"] is False
    assert body_of(again) == body_of(first)
