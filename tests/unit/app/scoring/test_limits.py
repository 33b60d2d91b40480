"""What an ask may not want, before any work."""

import pytest

from app.scoring.ask import Ask
from app.scoring.limits import check_distinct, check_reasoning
from models.errors import InvalidRequest
from models.records import GivenAnswer, SamplingParams


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
        check_reasoning(asked(max_new_tokens=new_tokens, **{name: bound}), no_limit)
    assert refused.value.field == name


def test_a_bound_that_leaves_room_is_taken_and_none_is_always_taken():
    check_reasoning(asked(max_new_tokens=64, max_reasoning_tokens=63), "")
    check_reasoning(asked(), "the model is not known to reason")


RB = ("rb_cocoa_sp", "capped_rb_cocoa_sp", "unseen_rb_consistency", "sp", "p_true")


def unrepeated(**wanted):
    return Ask(prompt="Hi", sampling=SamplingParams(distinct=True), **wanted)


def test_draws_that_do_not_repeat_are_for_scores_that_weigh_by_probability():
    check_distinct(unrepeated(), RB, "")


@pytest.mark.parametrize(
    ("wanted", "estimators", "no_distinct", "field", "why"),
    [
        ({}, RB, "of another server", "distinct", "must be false here: of another server"),
        ({"strategy": "mbr"}, RB, "", "strategy", "must be greedy with distinct"),
        ({"answer": GivenAnswer("Rome")}, RB, "", "strategy", "must be greedy"),
        ({"estimators": ("cocoa_sp",)}, ("cocoa_sp",), "", "estimators", "cocoa_sp counts samples"),
        ({"primary": "mcse"}, (*RB, "mcse"), "", "primary", "mcse counts samples"),
        ({"explain": True}, RB, "", "explain", "must be false with distinct"),
        ({"units": "fields"}, RB, "", "units", "must be answer with distinct"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_counts_samples_is_refused_where_they_do_not_repeat(
    wanted, estimators, no_distinct, field, why
):
    with pytest.raises(InvalidRequest, match=why) as refused:
        check_distinct(unrepeated(**wanted), estimators, no_distinct)
    assert refused.value.field == field
