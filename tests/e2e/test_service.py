"""The service as it ships: embedded language model, cross-encoder and NLI model, over HTTP."""

import pytest

from tests.conftest import GENERATE
from tests.e2e.embedded_service import embedded_service
from tests.fakes.estimators import OF_ANSWERS
from tests.reasons import score_reasons

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def client(anyio_backend):
    async with embedded_service() as running:
        yield running


async def ask(client, prompt=None, **body):
    if prompt is not None:
        body["prompt"] = prompt
    response = await client.post(GENERATE, json={"max_new_tokens": 48, "seed": 7} | body)
    assert response.status_code == 200, response.text
    return response.json()


async def test_what_the_model_knows_scores_lower_than_what_it_makes_up(client):
    right = await ask(client, "What is the capital of France?")
    made_up = await ask(client, "Which country is Pirot in?")

    assert "Paris" in right["text"]
    assert "Serbia" not in made_up["text"]
    for name in ("cocoa_sp", "cocoa_ppl", "cocoa_mte", "inconsistency"):
        assert right["scores"][name] < made_up["scores"][name]


async def test_one_meaning_in_several_wordings_is_consistent(client):
    result = await ask(
        client, "What is the capital of France?", num_samples=30, return_samples=True
    )

    assert result["provenance"]["num_distinct_samples"] > 1
    assert all("Paris" in sample["text"] for sample in result["samples"])
    assert result["scores"]["inconsistency"] < 0.1


async def test_chats_and_given_answers_have_the_scores_of_the_prompt_and_its_confidence(client):
    for prompt in (
        "What is the capital of France?",
        "Which country is Pirot in?",
        "What is 7 + 8?",
    ):
        asked = {"max_new_tokens": 64, "seed": 7}
        plain = await ask(client, prompt, **asked)
        messages = [{"role": "user", "content": prompt}]
        chat = await ask(client, messages=messages, **asked)
        given = []
        for question in ({"prompt": prompt}, {"messages": messages}):
            item = {"answer": plain["text"].strip()} | asked | question
            response = await client.post("/score", json=item)
            given.append(response.json())
        assert plain["confidence"] is not None
        for other in (chat, *given):
            assert other["scores"] == pytest.approx(plain["scores"], abs=1e-3)
            assert other["confidence"] == pytest.approx(plain["confidence"], abs=0.01)


async def test_every_estimator_has_a_value(client):
    documents = {"documents": ["Douala is in Cameroon."], "documents_in": "prompt"}
    asked = "Douala is in Cameroon. Which country is Douala in?"
    result = await ask(client, asked, estimators=list(OF_ANSWERS), **documents)

    # P(True) is defined, because " True" and " False" begin with different tokens here.
    assert score_reasons(result) == {}
    assert result["provenance"]["nli_model"]["id"] == "embedded"


@pytest.mark.parametrize("similarity", ["cross_encoder", "nli", "rouge_l", "jaccard", "added"])
async def test_every_similarity_function_serves(client, similarity):
    result = await ask(client, "Which country is Pirot in?", similarity=similarity)

    assert 0 < result["scores"]["inconsistency"] <= 1


async def test_a_right_answer_scores_better_than_a_wrong_one(client):
    async def score(answer):
        body = {"prompt": "What is the capital of France?", "answer": answer}
        body |= {"seed": 7, "max_new_tokens": 48}
        return (await client.post("/score", json=body)).json()["scores"]

    right, wrong = await score(" It is Paris."), await score(" It is Rome.")
    assert right["cocoa_ppl"] < wrong["cocoa_ppl"]
    assert right["inconsistency"] < 0.2 < 0.8 < wrong["inconsistency"]
