"""The page of the API shows a request for each field."""

import pytest

from app.http.requests.bodies import GenerateRequest, ScoreBatch, ScoreRequest
from app.plugins.labels.bodies import FeedbackRequest
from tests.docs.blocks import blocks_of

BODIES = (GenerateRequest, ScoreRequest, ScoreBatch, FeedbackRequest)
# It takes the place of `correct`, which has a request.
ELSEWHERE = {"quality"}
SHOWN = "".join(block.text for block in blocks_of("docs/api.md")).replace("\\", "")


@pytest.mark.parametrize(
    "field", sorted({name for body in BODIES for name in body.model_fields} - ELSEWHERE)
)
def test_a_field_has_a_request_that_uses_it(field):
    assert f'"{field}":' in SHOWN
