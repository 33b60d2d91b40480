"""Similarity "llm": the language model is asked whether two answers say the same."""

import math

import pytest

from models.errors import PromptTooLong
from tests.api.generated import generated
from tests.api.scored import scored
from tests.conftest import serving
from workers.protocol import FirstTokenReply

pytestmark = pytest.mark.anyio

SAMPLES = [{"text": text} for text in ("It is Lima.", "Cusco", "Cusco", "Lima", "lima.")]


@pytest.fixture
async def service(anyio_backend):
    async with serving() as running:
        yield running


def answering(service, reply):
    """Have the model reply so, and the requests that it gets."""
    asked = []

    async def first_token_logprobs(request, groups):
        asked.append(request)
        return FirstTokenReply(reply(request), service.generator.info.identity)

    service.generator.first_token_logprobs = first_token_logprobs
    return asked


def says_lima(request):
    """Yes where both answers name Lima, and more so in one order."""
    words = request.prompt or request.messages[0]["content"]
    if words.count("Lima") < 2:
        return None, math.log(0.5)  # a server tells no log-prob of what is not among the likeliest
    return math.log(0.6 if "First answer: Lima" in words else 0.4), math.log(0.2)


async def test_each_distinct_pair_is_asked_in_both_orders_and_the_share_of_yes_is_the_score(
    service,
):
    asked = answering(service, says_lima)
    result = await scored(
        service,
        prompt="Peru?",
        answer="Lima",
        samples=SAMPLES,
        similarity="llm",
        estimators=["consistency"],
        return_samples=True,
    )
    alike = (0.6 / 0.8 + 0.4 / 0.6) / 2
    similarities = [sample["similarity"] for sample in result["samples"]]
    assert similarities == pytest.approx([alike, 0.0, 0.0, 1.0, 1.0])
    assert len(asked) == 4  # equal texts are known, and what is equal but for case and stops
    question = (
        "Question: Peru?\nFirst answer: Lima\nSecond answer: Cusco\n"
        "Do both answers say the same? Reply with yes or no.\nReply:"
    )
    assert question in [request.prompt for request in asked]
    provenance = result["provenance"]
    assert (provenance["similarity"], provenance["similarity_model"]["id"]) == ("llm", "fake")


async def test_a_chat_is_asked_as_a_chat_and_its_scores_are_remembered_with_the_question(service):
    asked = answering(service, says_lima)
    body = {
        "answer": "Lima",
        "samples": SAMPLES,
        "similarity": "llm",
        "estimators": ["consistency"],
    }
    for question, so_far in (("Peru?", 4), ("Peru?", 4), ("And now?", 8)):
        message = {"role": "user", "content": question}
        await scored(service, messages=[message], max_new_tokens=60 + so_far, **body)
        assert len(asked) == so_far
    assert asked[0].messages[0]["content"].startswith("Question: Peru?\n")
    await scored(service, prompt="Peru?", **body)
    assert len(asked) == 12


async def test_it_compares_what_the_model_draws_and_what_comes_without_a_question(service):
    answering(service, says_lima)
    assert (await generated(service, similarity="llm"))["scores"]["consistency"] is not None
    body = {"answer": "Lima", "samples": SAMPLES, "estimators": ["consistency"]}
    assert (await scored(service, similarity="llm", **body))["uncertainty"] > 0


@pytest.mark.parametrize(
    ("reply", "status", "code", "field"),
    [
        (lambda _: (None, None), 503, "similarity_unavailable", None),
        (lambda _: (-12.3, -13.0), 503, "similarity_unavailable", None),
        (lambda _: too_long(), 422, "invalid_request", "similarity"),
    ],
    ids=["neither", "another reply", "too long"],
)
async def test_what_it_cannot_say_is_an_error(service, reply, status, code, field):
    answering(service, reply)
    body = {"answer": "Lima", "samples": SAMPLES, "similarity": "llm"}
    response = await service.client.post("/score", json={"prompt": "Peru?", **body})
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["field"]) == (status, code, field)


def too_long():
    raise PromptTooLong("the prompt has 9000 tokens")


async def test_tokens_are_not_compared_by_it(service):
    response = await service.generate(similarity="llm", estimators=["token_sar"])
    error = response.json()["error"]
    assert (response.status_code, error["field"]) == (422, "similarity")
    assert error["message"] == "must not be llm for token_sar, which compares by token"


async def test_other_weights_are_not_remembered(service):
    asked = []

    async def replaced(request, groups):
        asked.append(request)
        return FirstTokenReply(says_lima(request), "other weights")

    service.generator.first_token_logprobs = replaced
    body = {"prompt": "Peru?", "answer": "Lima", "samples": SAMPLES, "similarity": "llm"}
    for so_far in (4, 8):
        await scored(service, estimators=["consistency"], **body)
        assert len(asked) == so_far
