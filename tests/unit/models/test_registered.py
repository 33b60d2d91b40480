"""What other distributions register, by entry points: it stands beside our own."""

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from models.errors import ModelNotLoaded
from models.estimators import ESTIMATORS, known_estimators
from models.similarity import registered_models

ROW = "tests.skeletons.estimator:ROW"


@pytest.fixture
def registered(monkeypatch):
    """A function that registers names under a group, in place of what is installed."""

    def register(group, **paths):
        points = [EntryPoint(name, path, group) for name, path in paths.items()]
        monkeypatch.setattr("models.registered.entry_points", EntryPoints(points).select)
        known_estimators.cache_clear()

    yield register
    known_estimators.cache_clear()


def test_estimators_of_others_stand_behind_our_own_and_replace_none(registered):
    registered("cocoa.estimators", spread=ROW, sp=ROW)

    known = known_estimators()
    assert list(known) == [*ESTIMATORS, "spread"]
    assert (known["spread"].needs, known["sp"]) == ({"sample_token_logprobs"}, ESTIMATORS["sp"])


def test_similarity_functions_of_others_are_known_by_their_paths_and_replace_none_of_ours(
    registered,
):
    registered("cocoa.similarities", mine="no_such_package:MODEL", added="no_such_package:MODEL")

    assert registered_models() == {"mine": "no_such_package:MODEL"}


@pytest.mark.parametrize("path", ["no_such_package:ROW", "tests.skeletons.estimator:NO_SUCH"])
def test_an_estimator_that_cannot_be_imported_is_named(registered, path):
    registered("cocoa.estimators", mine=path)

    with pytest.raises(ModelNotLoaded, match="the estimator mine cannot be loaded: "):
        known_estimators()
