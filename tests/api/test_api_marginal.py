"""The probability of a reasoned answer over all samples' reasonings, at the door."""

import pytest

from tests.api.test_api_reasoning import BODY, answered
from tests.api.test_api_reasoning import service as reasoning_service
from tests.conftest import GENERATE
from tests.reasons import score_reasons

pytestmark = pytest.mark.anyio

service = reasoning_service


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


MARGINAL = ["marginal_sp", "marginal_rb_consistency", "marginal_cocoa_sp"]


async def test_an_answers_probability_over_all_reasonings_is_scored_and_remembered(service):
    question = {"messages": [{"role": "user", "content": "Add 61 and 35."}]}
    body = BODY | question | {"num_samples": 8, "estimators": [*MARGINAL, "consistency", "sp"]}
    first = await answered(service, **body)
    again = await answered(service, **body)

    scores = first["scores"]
    product = scores["marginal_sp"] * scores["marginal_rb_consistency"]
    assert scores["marginal_cocoa_sp"] == pytest.approx(product)
    # Samples disagree, though behind its own reasoning the answer is nearly certain.
    assert scores["consistency"] > 0.1
    assert scores["marginal_sp"] > 10 * scores["sp"]
    assert again["cached"]
    assert again["scores"] == scores


async def test_fewer_samples_from_the_cache_are_as_if_they_were_drawn(service):
    question = {"messages": [{"role": "user", "content": "Add 46 and 59."}]}
    body = BODY | question | {"estimators": MARGINAL}
    await answered(service, **body | {"num_samples": 8})
    taken = await answered(service, **body | {"num_samples": 3})
    drawn = await answered(service, **body | {"num_samples": 3, "cache": False})

    assert (taken["cached"], drawn["cached"]) == (True, False)
    assert taken["scores"] == pytest.approx(drawn["scores"], abs=1e-5)


async def test_auto_is_refused_where_answers_are_read_behind_all_samples(service):
    body = BODY | {"estimators": MARGINAL, "num_samples": "auto"}
    response = await service.client.post(GENERATE, json=body)
    assert response.status_code == 422
    assert response.json()["error"]["field"] == "num_samples"


async def test_without_reasonings_there_is_no_probability_over_them(service):
    body = BODY | {"estimators": MARGINAL, "chat_template_kwargs": {"enable_thinking": False}}
    answer = await answered(service, **body)
    assert set(answer["scores"].values()) == {None}
    assert all("no reasoning before it" in why for why in score_reasons(answer).values())
