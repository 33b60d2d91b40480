"""Prompts of several kinds: which others lie far from all of them, and the file that tells it."""

import hashlib

import numpy as np
import pytest

from cocoa_lab.distances import domain_to_bytes, fit_distance
from models.errors import ModelNotLoaded
from models.probes.domain import PromptDomain, beside

RNG = np.random.default_rng(0)
SIZE = 8
KINDS = (-20.0, 20.0)


def of_kind(centre, number):
    return RNG.standard_normal((number, SIZE)) + centre


def domain():
    kinds = [fit_distance(of_kind(centre, 600), of_kind(centre, 400)) for centre in KINDS]
    return PromptDomain("fake", 2, tuple(kinds))


DOMAIN = domain()


@pytest.mark.parametrize("centre", KINDS)
def test_about_one_in_a_hundred_prompts_of_a_kind_counts_as_foreign(centre):
    told = [DOMAIN.is_foreign(state) for state in of_kind(centre, 4000)]
    assert 0.003 < np.mean(told) < 0.02


@pytest.mark.parametrize("centre", [0.0, 15.0, -60.0])
def test_what_lies_between_two_kinds_or_beyond_them_is_foreign(centre):
    assert all(DOMAIN.is_foreign(state) for state in of_kind(centre, 50))


def test_the_percentile_is_that_of_the_nearest_kind():
    state = of_kind(KINDS[1], 1)[0]
    assert DOMAIN.percentile(state) == DOMAIN.kinds[1].percentile(state[None])[0]
    assert DOMAIN.kinds[0].percentile(state[None])[0] == 100.0


def test_what_is_no_number_is_foreign():
    assert DOMAIN.is_foreign(np.full(SIZE, np.nan))


def saved(tmp_path, content=None):
    content = domain_to_bytes(DOMAIN) if content is None else content
    path = beside(tmp_path / "calibrator.json")
    path.write_bytes(content)
    return path, hashlib.sha256(content).hexdigest()


def test_the_file_holds_what_was_written(tmp_path):
    path, sha256 = saved(tmp_path)
    found = PromptDomain.load(path, sha256)

    assert path.name == "calibrator.prompts.npz"
    assert (found.generator, found.layer, found.sha256) == ("fake", 2, sha256)
    for state in (*of_kind(KINDS[0], 20), *of_kind(KINDS[1], 20)):
        assert found.percentile(state) == pytest.approx(DOMAIN.percentile(state), abs=0.01)


def test_another_file_than_the_calibrator_names_is_refused(tmp_path):
    path, _ = saved(tmp_path)
    with pytest.raises(ModelNotLoaded, match="not the file that the calibrator names"):
        PromptDomain.load(path, "0" * 64)


@pytest.mark.parametrize(
    "content", [b"", b"no arrays", domain_to_bytes(PromptDomain("fake", 2, ()))]
)
def test_a_file_without_prompts_is_refused(tmp_path, content):
    with pytest.raises(ModelNotLoaded, match="holds no prompts"):
        PromptDomain.load(*saved(tmp_path, content))


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ModelNotLoaded, match="holds no prompts"):
        PromptDomain.load(tmp_path / "none", "")
