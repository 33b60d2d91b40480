"""The examples in docstrings hold."""

import doctest
from importlib import import_module

import pytest

MODULES = ["cocoa_lab.metrics", "cocoa_lab.quality", "cocoa_lab.atlas.computed", "cocoa_lab.report"]
MODULES += ["cocoa_lab.probes.collecting", "cocoa_lab.probes.splits", "cocoa_lab.judge"]
MODULES += ["models.engines.texts", "cocoa_lab.alignment"]
MODULES += ["models.similarity.classifier", "cocoa_lab.lexical", "models.similarity.nli"]
MODULES += ["models.similarity.vectors", "cocoa_lab.overlap"]
MODULES += ["models.units.comparison", "models.units.characters", "models.units.chunks"]
MODULES += ["models.units.json_values", "models.units.markdown", "models.units.prose"]
MODULES += ["models.engines.tags", "models.units.schemas", "models.units.sentences"]
MODULES += ["app.scoring.units", "cocoa_vllm.columns", "cocoa_lab.programs"]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_hold(name):
    result = doctest.testmod(import_module(name))

    assert result.attempted > 0
    assert result.failed == 0
