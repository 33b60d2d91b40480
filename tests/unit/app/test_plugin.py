"""Plugins are found by entry points; one that cannot be used is refused by its name."""

import os
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import EntryPoint, EntryPoints

import pytest
from fastapi import APIRouter
from starlette.applications import Starlette

from app import installed as module
from app.installed import hand_over, installed
from app.main import create_app
from app.plugin import Gateway, Plugin, PluginInvalid
from app.settings import Settings, completed, load_settings, settings_class

pytestmark = pytest.mark.anyio

ONE, OTHER = (Plugin(name, lambda gateway: None) for name in ("one", "other"))
NONE = "a text"


@pytest.fixture
def installed_are(monkeypatch):
    def are(**targets):
        points = []
        for name, target in targets.items():
            points.append(EntryPoint(name, target, "cocoa.plugins"))
        monkeypatch.setattr(module, "entry_points", EntryPoints(points).select)
        installed.cache_clear()

    yield are
    monkeypatch.undo()
    installed.cache_clear()


def test_plugins_come_in_the_order_of_their_names(installed_are):
    installed_are(other=f"{__name__}:OTHER", one=f"{__name__}:ONE")
    assert [found.name for found in installed()] == ["one", "other"]


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("nosuch.module:PLUGIN", "ModuleNotFoundError"),
        (f"{__name__}:NOSUCH", "AttributeError"),
        (f"{__name__}:NONE", "is no Plugin"),
        (f"{__name__}:OTHER", "is no Plugin of this name"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_refused_by_its_name(installed_are, target, reason):
    installed_are(good=f"{__name__}:ONE", bad=target)
    with pytest.raises(PluginInvalid, match=rf"the plugin bad .*{reason}"):
        installed()


def test_ours_are_those_of_the_project_file():
    ours = {"keys", "labels", "mcp", "page", "responses", "servers", "traces"}
    assert ours <= {found.name for found in installed()}


def test_settings_of_a_plugin_are_settings_where_it_is_installed(monkeypatch):
    guest = Plugin("guest", settings=lambda: {"greeting": (str, "hello")})
    monkeypatch.setenv("COCOA_GREETING", "welcome")
    assert settings_class((guest,))().greeting == "welcome"
    assert completed(Settings(), (guest,)).greeting == "hello"
    with pytest.raises(ValueError, match="COCOA_GREETING is no setting"):
        load_settings()


def test_two_settings_of_one_name_are_refused():
    greedy = Plugin("greedy", settings=lambda: {"port": (int, 1)})
    with pytest.raises(PluginInvalid, match="the plugin greedy has a setting port, as others do"):
        settings_class((greedy,))


@pytest.mark.parametrize("path", ["/score", "/livez", "/greeting"])
def test_a_path_that_is_served_already_is_refused(path):
    router = APIRouter()
    router.add_api_route(path, lambda: "hello")
    one, other = (Plugin(name, lambda gateway: gateway.add_routes(router)) for name in "ab")
    with pytest.raises(PluginInvalid, match=f"a plugin serves {path}, as another"):
        create_app(Settings(), plugins=(one, other))
    hand_over(installed())


async def test_what_runs_beside_begins_in_order_and_ends_in_reverse():
    seen = []

    @asynccontextmanager
    async def beside(name):
        seen.append(f"{name} begins")
        yield
        seen.append(f"{name} ends")

    gateway = Gateway(Starlette(), None)
    for name in ("one", "other"):
        gateway.run_beside(partial(beside, name))
    async with gateway.running():
        assert seen == ["one begins", "other begins"]
    assert seen[2:] == ["other ends", "one ends"]


def test_by_default_no_plugin_stands_around_a_request(monkeypatch):
    for name in list(os.environ):
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)
    app = create_app(Settings())
    assert app.state.service.around == []
    around = [one.cls.__module__ for one in app.user_middleware]
    assert not [module for module in around if not module.startswith("app.http.")]
