"""Names of the release before: heeded in requests, with a warning that names the new one."""

import pytest

from tests.api.openai_calls import uncertainty_of

pytestmark = pytest.mark.anyio

OLD = ["rb_consistency", "sp", "consistency"]
NEW = ["rb_inconsistency", "sp", "inconsistency"]
HI = [{"role": "user", "content": "Hi"}]


async def test_old_names_of_scores_bring_the_scores_under_their_new_names(service):
    wanted = {"seed": 1, "estimator": "consistency"}
    told = (await service.generate(**wanted, estimators=OLD)).json()
    same = await service.generate(seed=1, estimator="inconsistency", estimators=NEW)

    assert list(told["scores"]) == NEW
    assert (told["scores"], told["estimator"]) == (same.json()["scores"], "inconsistency")
    assert told["warnings"] == ["renamed_to_inconsistency"]
    assert same.json()["warnings"] == []


async def test_chats_take_them_as_well(service):
    body = {"model": "fake", "messages": HI, "uncertainty": {"estimators": OLD}}
    response = await service.client.post("/v1/chat/completions", json=body)
    told = uncertainty_of(response.json())

    assert list(told["scores"]) == NEW
    assert "renamed_to_inconsistency" in told["warnings"]


async def test_the_old_field_of_the_floor_is_checked_as_the_new_one(service):
    refused = await service.generate(escalate_below=0.5)
    twice = await service.generate(escalate_below=0.5, hand_over_below=0.5, target_error=0.1)

    assert refused.json()["error"]["field"] == "hand_over_below"
    assert twice.json()["error"]["field"] == "escalate_below"
    assert "the old name of hand_over_below" in twice.json()["error"]["message"]
