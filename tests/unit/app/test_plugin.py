"""Plugins are found by entry points; one that cannot be used is refused by its name."""

from importlib.metadata import EntryPoint

import pytest

from app import plugin
from app.plugin import Gateway, Plugin, PluginInvalid, installed

ONE, OTHER = (Plugin(name, lambda gateway: None) for name in ("one", "other"))
NONE = "a text"


@pytest.fixture
def installed_are(monkeypatch):
    def are(**targets):
        points = []
        for name, target in targets.items():
            points.append(EntryPoint(name, target, "cocoa.plugins"))
        monkeypatch.setattr(plugin, "entry_points", lambda group: points)
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
    ],
)
def test_a_plugin_that_cannot_be_used_is_refused_by_its_name(installed_are, target, reason):
    installed_are(good=f"{__name__}:ONE", bad=target)
    with pytest.raises(PluginInvalid, match=rf"the plugin bad .*{reason}"):
        installed()


def test_ours_are_those_of_the_project_file():
    assert {"page"} <= {found.name for found in installed()}
    assert Gateway(None).routers == []
