"""What an ask may not want, before any work."""

import pytest

from app.scoring.ask import Ask
from app.scoring.limits import check_reasoning
from models.errors import InvalidRequest
from models.records import SamplingParams


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
