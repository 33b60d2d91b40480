"""What an ask may not want here, before any work."""

from dataclasses import replace

import pytest

from app.scoring.ask import Ask, GivenSample
from app.scoring.check import check
from app.scoring.deployment import UNBOUNDED
from app.scoring.planning import make_plan
from models.errors import InvalidRequest
from models.grammar.grammars import grammar_of
from models.images import PARTS
from models.records import GivenAnswer, SamplingParams
from models.statistics import supplied_by
from tests.made_calibrators import calibration, calibrator
from tests.results import a_deployment

SUPPLIED = supplied_by("answer", "samples", "question")


def checked(ask, **deployment):
    """Refuses an ask, or nothing, where a generator like this serves."""
    here = a_deployment(SUPPLIED, **deployment)
    check(make_plan(ask, here), here)


def asked(**sampling):
    return Ask(prompt="Hi", sampling=SamplingParams(**sampling))


@pytest.mark.parametrize("name", ["max_reasoning_tokens", "max_sample_reasoning_tokens"])
@pytest.mark.parametrize(
    ("new_tokens", "bound", "no_limit", "why"),
    [
        (64, 64, "", "less than max_new_tokens, which is 64"),
        (None, 256, "", "less than max_new_tokens, which is 256"),
        (64, 8, "the model is not known to reason", "is not heeded here: the model is not known"),
    ],
)
def test_a_bound_that_bounds_nothing_is_refused_by_name(name, new_tokens, bound, no_limit, why):
    with pytest.raises(InvalidRequest, match=why) as refused:
        checked(asked(max_new_tokens=new_tokens, **{name: bound}), no_reasoning_limit=no_limit)
    assert refused.value.field == name


def test_a_bound_that_leaves_room_is_taken_and_none_is_always_taken():
    checked(asked(max_new_tokens=64, max_reasoning_tokens=63), no_reasoning_limit="")
    checked(asked(), no_reasoning_limit="the model is not known to reason")


IMAGE = {
    "role": "user",
    "content": "",
    PARTS: [{"type": "image_url", "image_url": {"url": "data:,"}}],
}
TARGET = {"estimators": ("sp",), "target_error": 0.05}


def calibrated(**binding):
    return calibrator({"all": {"sp": calibration()}}, **binding)


TOOL = {"type": "function", "function": {"name": "now"}}


@pytest.mark.parametrize("tools", [(), (TOOL,)], ids=["a format", "a call that is required"])
def test_what_would_end_the_words_of_a_format_is_refused_and_a_required_call_has_none(tools):
    ask = replace(
        asked(stop=("Observation:",)), tools=tools, grammar=grammar_of({"type": "object"})
    )
    if not tools:
        with pytest.raises(InvalidRequest, match="must be left out where an answer is held to"):
            checked(ask, no_grammar="")
        return
    checked(ask, no_grammar="")
    assert make_plan(ask, a_deployment(SUPPLIED)).request.sampling.stop == ()


@pytest.mark.parametrize("most", [6, 5])
def test_a_pair_that_several_statistics_read_counts_once(most):
    samples = tuple(map(GivenSample, ("Paris", "Rome", "Lyon", "Rome")))
    ask = Ask(
        answer=GivenAnswer("Paris"), samples=samples, estimators=("inconsistency", "ce_degmat")
    )
    limits = replace(UNBOUNDED, max_pairs=most)
    if most == 6:
        checked(ask, limits=limits)
        return
    with pytest.raises(InvalidRequest, match="takes 6 pairs of texts to compare, and may take 5"):
        checked(ask, limits=limits)
