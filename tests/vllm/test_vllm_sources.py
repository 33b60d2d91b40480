"""What the plugin touches is there in vLLM's sources: `make test-vllm-sources`."""

import ast
import inspect

import pytest
from cocoa_vllm import hooks
from cocoa_vllm.hooks import CHECKED, COMPUTED, LOADED, SAMPLED, SCHEDULED, STARTED

from tests.vllm.sources import installed, released, releases
from tests.vllm.touched import FUNCTIONS, NAMES

METHODS = {
    CHECKED: hooks.around_verify_args,
    STARTED: hooks.around_init_device,
    LOADED: hooks.around_setup,
    SCHEDULED: hooks.around_update_states,
    COMPUTED: hooks.around_sample_tokens,
    SAMPLED: hooks.around_sample,
}
NUM_RELEASES = 2
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def latest():
    return list(releases(NUM_RELEASES))


@pytest.mark.parametrize("age", range(NUM_RELEASES))
def test_a_release_has_all_that_the_plugin_touches(latest, age):
    version, url = latest[age]
    print(f"\nvLLM {version}")
    with released(url) as sources:
        assert absent(sources) == []


def test_the_installed_vllm_has_all_that_the_plugin_touches():
    if (sources := installed()) is None:
        pytest.skip("no vLLM is installed: `make test-vllm` installs one")
    assert absent(sources) == []


def test_what_is_gone_or_takes_other_parameters_is_found():
    gone = absent(
        lambda module: ast.parse("class GPUModelRunner:\n  def _sample(self, logits): ...")
    )
    assert f"{SAMPLED} takes ('self', 'logits')" in gone
    assert CHECKED in gone
    assert "vllm.v1.outputs.LogprobsTensors.logprobs" in gone
    assert FUNCTIONS[0] in gone
    listed = sum(len(names.split()) for names in NAMES.values())
    assert len(gone) == len(METHODS) + listed + len(FUNCTIONS)


def absent(sources):
    """What is not there, or takes other parameters."""
    found = []
    for method, instead in METHODS.items():
        module, _, path = method.partition(":")
        owner, _, name = path.partition(".")
        function = declared(class_of(sources(module), owner)).get(name)
        known = tuple(inspect.signature(instead).parameters)[1:]
        if function is None:
            found.append(method)
        elif "args" not in known and known != parameters(function):
            found.append(f"{method} takes {parameters(function)}")
    for owner, names in NAMES.items():
        module, _, name = owner.rpartition(".")
        there = declared(class_of(sources(module), name))
        found += [f"{owner}.{one}" for one in names.split() if one not in there]
    for path in FUNCTIONS:
        module, _, name = path.rpartition(".")
        if name not in functions(sources(module)):
            found.append(path)
    return found


def class_of(module, name):
    """A class of a module; one without anything where there is none."""
    for node in module.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return node
    return ast.Module([], [])


def declared(owner):
    """What a class or its instances have: methods by their nodes, and fields."""
    found = {}
    for node in ast.walk(owner):
        match node:
            case ast.FunctionDef() if node in owner.body:
                found[node.name] = node
                if node.name == "__init__":
                    found |= dict.fromkeys(parameters(node))
            case ast.AnnAssign(target=ast.Name(name)):
                found.setdefault(name, node)
            case ast.Attribute(value=ast.Name("self"), attr=name, ctx=ast.Store()):
                found.setdefault(name, node)
    return found


def functions(module):
    return {node.name for node in module.body if isinstance(node, ast.FunctionDef)}


def parameters(function):
    """Names of a function's parameters, those that gather the rest left out."""
    given = function.args
    return tuple(one.arg for one in [*given.posonlyargs, *given.args, *given.kwonlyargs])
