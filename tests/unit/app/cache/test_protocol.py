"""What a deployment can say about its cache, and what of it is ever printed."""

import pytest
from pydantic import SecretStr
from redis.asyncio.connection import parse_url

from app.cache.memory import MemoryCache, make_cache
from app.cache.protocol import CacheConfig
from app.cache.redis import RedisCache
from app.settings import Settings, load_settings

PASSWORD = "sesame-open-4711"


def settings(monkeypatch, **variables):
    for name, value in variables.items():
        monkeypatch.setenv(f"COCOA_CACHE__{name}", value)
    return load_settings().cache


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost",
        "redis://localhost:6379/3",
        f"rediss://cocoa:{PASSWORD}@cache.example:6380",
        f"redis://:{PASSWORD}@[::1]:6379",
    ],
)
def test_a_url_of_redis_makes_a_cache_in_redis(monkeypatch, url):
    assert isinstance(make_cache(settings(monkeypatch, URL=url), lambda is_open: None), RedisCache)


@pytest.mark.parametrize("variables", [{}, {"URL": ""}], ids=["no url", "empty url"])
def test_without_a_url_entries_stay_in_this_process(monkeypatch, variables):
    assert isinstance(
        make_cache(settings(monkeypatch, **variables), lambda is_open: None), MemoryCache
    )


def test_where_it_is_not_enabled_there_is_no_cache(monkeypatch):
    assert (
        make_cache(
            settings(monkeypatch, ENABLED="false", URL="redis://localhost"), lambda is_open: None
        )
        is None
    )


@pytest.mark.parametrize(
    "url",
    [
        f"http://:{PASSWORD}@localhost",
        f"redis://:{PASSWORD}@localhost:port",
        f"redis://:{PASSWORD}@localhost:70000",
        f"redis://:{PASSWORD}@localhost:0",
        f"redis://:{PASSWORD}@",
        f"redis://:4711/{PASSWORD}@localhost",
        f"redis://:{PASSWORD}@localhost/database",
        f"rediss://:{PASSWORD}@localhost?ssl_cert_reqs=none",
        f"redis://:{PASSWORD}@[localhost",
        PASSWORD,
    ],
)
def test_another_url_is_refused_without_being_quoted(monkeypatch, url):
    with pytest.raises(ValueError, match="COCOA_CACHE__URL") as refused:
        settings(monkeypatch, URL=url)
    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TTL_S", "0"),
        ("MAX_ENTRY_BYTES", "0"),
        ("MEMORY_BYTES", "-1"),
        ("TIMEOUT_S", "0"),
        ("TIMEOUT_S", "2"),
        ("TIMEOUT_S", "nan"),
        ("NAMESPACE", ""),
        ("NAMESPACE", "a:b"),
        ("CA_FILE", "/nowhere/ca.pem"),
    ],
)
def test_a_value_out_of_its_bounds_is_refused_by_name(monkeypatch, name, value):
    with pytest.raises(ValueError, match=f"COCOA_CACHE__{name}: "):
        settings(monkeypatch, **{name: value})


ODD = "a/b#c@d%e:f?g"


@pytest.mark.parametrize("user", ["", "cocoa@"])
@pytest.mark.parametrize("by", ["PASSWORD", "PASSWORD_FILE"])
def test_a_password_is_told_as_it_is(monkeypatch, tmp_path, by, user):
    file = tmp_path / "password"
    file.write_text(f"{ODD}\n")
    told = {"PASSWORD": ODD, "PASSWORD_FILE": str(file)}[by]
    config = settings(monkeypatch, URL=f"redis://{user}localhost:6379/3", **{by: told})
    found = parse_url(config.whole_url())
    assert found["password"] == ODD
    assert found.get("username", "") == user.rstrip("@")
    assert (found["host"], found["port"], found["db"]) == ("localhost", 6379, 3)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"PASSWORD": PASSWORD}, "wants a url"),
        ({"URL": "redis://:x@host", "PASSWORD": PASSWORD}, "one that has none"),
        ({"URL": "redis://h", "PASSWORD": PASSWORD, "PASSWORD_FILE": __file__}, "exclude"),
        ({"URL": "redis://h", "PASSWORD_FILE": "/dev/null"}, "PASSWORD_FILE"),
    ],
)
def test_a_password_that_cannot_be_heeded_is_refused(monkeypatch, variables, message):
    with pytest.raises(ValueError, match=message) as refused:
        settings(monkeypatch, **variables)
    assert PASSWORD not in str(refused.value)


def test_a_password_is_in_no_representation():
    configured = Settings(cache=CacheConfig(url=SecretStr(f"redis://:{PASSWORD}@localhost")))
    cache = make_cache(configured.cache, lambda is_open: None)
    for printed in (
        repr(configured),
        str(configured.cache),
        configured.model_dump_json(),
        repr(cache),
    ):
        assert PASSWORD not in printed
