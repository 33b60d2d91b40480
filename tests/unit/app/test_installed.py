"""What plugins add to models and workers; entry points of older releases."""

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from app import installed as module
from app.installed import hand_over, installed
from app.plugin import Plugin, PluginInvalid
from models.errors import ModelNotLoaded
from models.estimators import ESTIMATORS, known_estimators
from models.others import SIMILARITIES
from workers.build import connect_generator
from workers.config import GeneratorConfig, SimilaritySettings, WorkerConfig
from workers.hooks import Hooks

ROW = "tests.skeletons.estimator:ROW"
pytestmark = pytest.mark.anyio


@pytest.fixture
def handed_over():
    """A function that hands over one plugin with these fields, in place of what is installed."""
    yield lambda **fields: hand_over([Plugin("guest", **fields)])
    hand_over(installed())


def test_estimators_of_plugins_stand_behind_our_own_and_replace_none(handed_over):
    handed_over(estimators={"spread": ROW, "sp": ROW})

    known = known_estimators()
    assert list(known) == [*ESTIMATORS, "spread"]
    assert (known["spread"].needs, known["sp"]) == ({"sample_token_logprobs"}, ESTIMATORS["sp"])


def test_similarity_functions_of_plugins_are_known_by_their_paths_and_replace_none_of_ours(
    handed_over,
):
    handed_over(similarities=dict.fromkeys(("mine", "added"), "no_such_package:MODEL"))

    assert SIMILARITIES == {"mine": "no_such_package:MODEL"}


@pytest.mark.parametrize("path", ["no_such_package:ROW", "tests.skeletons.estimator:NO_SUCH"])
def test_an_estimator_that_cannot_be_imported_is_named(handed_over, path):
    handed_over(estimators={"mine": path})

    with pytest.raises(ModelNotLoaded, match="the estimator mine cannot be loaded: "):
        known_estimators()


def test_what_a_plugin_added_is_gone_with_it(handed_over):
    handed_over(estimators={"spread": ROW}, similarities={"mine": "no_such_package:MODEL"})
    handed_over()

    assert (known_estimators(), SIMILARITIES) == (ESTIMATORS, {})


async def test_without_a_plugin_for_it_the_api_of_a_server_is_refused(handed_over):
    handed_over()
    generation = GeneratorConfig(api="openai", url="http://127.0.0.1:9")
    config = WorkerConfig(generation, SimilaritySettings())

    with pytest.raises(ModelNotLoaded, match="API is 'openai', and no installed plugin"):
        await connect_generator(config, Hooks())


async def test_a_plugin_connects_the_generator_of_its_api(handed_over):
    handed_over(generators={"openai": f"{__name__}:connect"})
    generation = GeneratorConfig(api="openai", url="http://127.0.0.1:9")

    generator = await connect_generator(WorkerConfig(generation, SimilaritySettings()), Hooks())
    assert generator == "connected with http://127.0.0.1:9"


async def connect(generation, hooks, probes):
    return f"connected with {generation.url}"


@pytest.mark.parametrize(
    ("group", "field"),
    [
        ("cocoa.commands", "commands"),
        ("cocoa.estimators", "estimators"),
        ("cocoa.similarities", "similarities"),
    ],
)
def test_entry_points_of_older_releases_are_refused_with_what_to_do(monkeypatch, group, field):
    point = EntryPoint("mine", "no_such_package:MINE", group)
    monkeypatch.setattr(module, "entry_points", EntryPoints([point]).select)
    installed.cache_clear()

    with pytest.raises(PluginInvalid, match=f"mine is an entry point of {group}.*in `{field}`"):
        installed()
    monkeypatch.undo()
    installed.cache_clear()
