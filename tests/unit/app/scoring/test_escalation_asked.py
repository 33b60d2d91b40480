"""What a second model is not asked."""

import pytest

from app.scoring.ask import Ask
from app.scoring.limits import check_escalation
from models.errors import InvalidRequest
from models.images import PARTS

IMAGE = {"role": "user", "content": "", PARTS: [{"type": "image_url"}]}


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({}, "no second model"),
        ({"tools": ({"type": "function"},)}, "shown no tools"),
        ({"messages": (IMAGE,)}, "shown no images"),
    ],
)
def test_a_second_model_is_not_asked_what_it_would_not_see(asked, why):
    with pytest.raises(InvalidRequest, match=why) as refused:
        check_escalation(Ask(on_reject="escalate", **asked), has_second=bool(asked))
    assert refused.value.field == "on_reject"
    check_escalation(Ask(**asked), has_second=False)
