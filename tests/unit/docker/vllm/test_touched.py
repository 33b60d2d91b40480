"""The list of what the plugin touches of vLLM is whole, and held to at the start."""

import ast
import sys
from pathlib import Path
from types import ModuleType

import pytest
from cocoa_vllm.hooks import Unfit, hook

from tests.vllm.touched import FUNCTIONS, NAMES

PLUGIN = Path("docker/vllm/cocoa_vllm")
# What in the plugin's modules stands for something of vLLM's.
VLLMS = {
    "self", "runner", "state", "batch", "params", "scheduler_output", "new", "config",
    "model_config", "parallel", "output", "input_batch",
}  # fmt: skip
# Of Python and torch, at the end of what is read of them.
OTHERS = {"get", "index_select"}


def read_of_vllm(path):
    """Names of attributes that a module reads of vLLM's objects."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        chain = []
        while isinstance(node, ast.Attribute | ast.Subscript):
            if isinstance(node, ast.Attribute):
                chain.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in VLLMS:
            for name in reversed(chain):
                if name.startswith("cocoa"):  # the plugin's own, and what it has
                    break
                found.add(name)
    return found - OTHERS


def test_the_list_names_all_that_the_plugin_reads():
    listed = {name for names in NAMES.values() for name in names.split()}
    found = read_of_vllm(PLUGIN / "hooks.py")
    assert found
    assert found <= listed


def test_the_list_names_no_more_than_the_plugin_touches():
    source = "".join(path.read_text(encoding="utf-8") for path in PLUGIN.glob("*.py"))
    for names in NAMES.values():
        for name in names.split():
            assert name in source
    for path in FUNCTIONS:
        assert path.rpartition(".")[2] in source


@pytest.fixture
def there(monkeypatch):
    """A module with a class that a hook may stand around."""

    class Owner:
        def ask(self, first, *rest):
            return first

    module = ModuleType("there")
    module.Owner = Owner
    monkeypatch.setitem(sys.modules, "there", module)
    return Owner


def test_a_method_is_hooked_where_it_takes_what_the_plugin_knows(there):
    hook("there:Owner.ask", lambda ask, self, first: ask(self, first) + 1)
    assert there().ask(1) == 2


def test_whatever_a_method_takes_is_passed_on_where_the_plugin_reads_none_of_it(there):
    hook("there:Owner.ask", lambda ask, *args, **kwargs: ask(*args, **kwargs) + 1)
    assert there().ask(1) == 2


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("there:Owner.ask", "takes"),
        ("there:Owner.gone", "has no there:Owner.gone"),
        ("there:Gone.ask", "has no there:Gone.ask"),
        ("gone:Owner.ask", "has no gone:Owner.ask"),
    ],
)
@pytest.mark.usefixtures("there")
def test_a_vllm_that_the_plugin_does_not_know_ends_at_its_start(method, words):
    with pytest.raises(Unfit, match=words):
        hook(method, lambda ask, self, other: ask(self, other))
