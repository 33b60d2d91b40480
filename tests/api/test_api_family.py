"""Every estimator, similarity and strategy over HTTP; what nobody reads is not computed."""

from dataclasses import replace

import numpy as np
import pytest

from cocoa_lab.lexical import lexical_similarity
from models.estimators import ESTIMATORS, needs
from models.probes.protocol import ProbeConfig
from models.statistics import supplied_by
from tests.conftest import serving
from tests.fakes.estimators import OF_ANSWERS, OF_DOCUMENTS
from tests.reasons import score_reasons
from tests.tiny_probes import saved

pytestmark = pytest.mark.anyio


@pytest.fixture
async def service(anyio_backend, tmp_path):
    """With probes, so that every estimator is available."""
    async with serving(
        probes=ProbeConfig(saved(tmp_path), saved(tmp_path, "semantic_entropy"))
    ) as running:
        yield running


async def generated(service, **body):
    """A response; over documents, where an estimator reads them."""
    if not needs(body.get("estimators", [])).isdisjoint(OF_DOCUMENTS):
        body |= {"prompt": "Lima. Is it?", "documents": ["Lima."], "documents_in": "prompt"}
    response = await service.generate(**{"seed": 3} | body)
    assert response.status_code == 200, response.text
    return response.json()


class Calls:
    """What a request costs: engine calls, sequences, and pairs of the similarity and NLI models."""

    def __init__(self, service):
        self._service = service
        self._before = self._count()

    def _count(self):
        engine, pair_model, nli_model = (
            self._service.engine,
            self._service.pair_model,
            self._service.nli_model,
        )
        counts = (
            engine.num_calls,
            engine.num_sequences,
            sum(pair_model.batches),
            sum(nli_model.batches),
        )
        return np.array(counts)

    def spent(self):
        return dict(
            zip(
                ("calls", "sequences", "pairs", "nli_pairs"),
                self._count() - self._before,
                strict=True,
            )
        )


async def test_every_estimator_has_a_value_from_one_generation(service):
    calls = Calls(service)
    result = await generated(service, estimators=list(OF_ANSWERS), estimator="cocoa_ppl")

    assert score_reasons(result) == {}
    assert all(isinstance(value, float) for value in result["scores"].values())
    # One generation, one question about the answer, and one reading of it without documents.
    assert (calls.spent()["calls"], calls.spent()["sequences"]) == (3, 12)


QUESTIONS = {"p_true_logprob", "closed_book_token_logprobs"}
SAMPLED = {
    "mcse",
    "mcnse",
    "inconsistency",
    "semantic_entropy",
    "semantic_density",
    "bsdetector",
}
PAIRS = {"similarity", "similarity_matrix", "token_relevance", "sample_token_relevance"}
NLI = {"entailment", "contradiction", "answer_entailment", "answer_contradiction"}


@pytest.mark.parametrize("name", OF_ANSWERS)
async def test_an_estimator_alone_costs_only_what_it_reads(service, name):
    calls = Calls(service)
    result = await generated(service, estimators=[name])
    spent, read = calls.spent(), needs([name])
    provenance = result["provenance"]
    distinct = provenance.get("num_distinct_samples", 0)

    assert result["scores"].keys() == {name}
    assert spent["calls"] == 1 + len(read & QUESTIONS)
    reads_samples = bool(
        read
        - {"answer_token_logprobs", "answer_token_entropies", "token_relevance"}
        - QUESTIONS
        - supplied_by("probe", "parts")
    )
    num_read = "closed_book_token_logprobs" in read  # the answer, once more
    assert spent["sequences"] == (11 if reads_samples else 1) + num_read
    assert (spent["pairs"] > 0) == bool(read & PAIRS)
    assert (spent["nli_pairs"] > 0) == bool(read & NLI)
    assert ("nli_model" in provenance) == bool(read & NLI)
    assert ("similarity" in provenance) == bool(read & PAIRS)
    if read & PAIRS == {"similarity"}:
        assert spent["pairs"] <= 2 * distinct
    if read & PAIRS == {"similarity_matrix"} or read & NLI == {"entailment"}:
        assert max(spent["pairs"], spent["nli_pairs"]) <= distinct * (distinct - 1)


@pytest.mark.parametrize("strategy", ["most_probable", "most_probable_normalized", "mbr"])
async def test_a_sampled_answer_is_scored_against_the_other_samples(service, strategy):
    # Probes read the greedy answer, and a sample may have no sentence that documents could say.
    others = supplied_by("probe", "parts")
    sampled = [name for name in OF_ANSWERS if not needs([name]) & others]
    result = await generated(service, strategy=strategy, estimators=sampled, return_samples=True)
    chosen, samples = result["provenance"]["answer_sample"], result["samples"]

    assert result["provenance"]["strategy"] == strategy
    assert result["text"] == samples[chosen]["text"]
    assert samples[chosen]["similarity"] is None
    assert result["scores"]["sp"] == pytest.approx(-samples[chosen]["logprob"])
    others = [sample["similarity"] for i, sample in enumerate(samples) if i != chosen]
    assert result["scores"]["inconsistency"] == pytest.approx(1 - np.mean(others))
    assert result["scores"]["cocoa_sp"] == pytest.approx(
        result["scores"]["sp"] * result["scores"]["inconsistency"]
    )
    assert score_reasons(result) == {}


async def test_the_most_probable_sample_has_the_highest_log_prob(service):
    result = await generated(service, strategy="most_probable", return_samples=True)

    logprobs = [sample["logprob"] for sample in result["samples"]]
    assert result["provenance"]["answer_sample"] == int(np.argmax(logprobs))


async def test_a_sampled_answer_brings_its_own_tokens(service):
    result = await generated(service, strategy="mbr", return_tokens=True)

    assert "".join(token["text"] for token in result["tokens"]) == result["text"]
    assert -sum(token["logprob"] for token in result["tokens"]) == pytest.approx(
        result["scores"]["sp"]
    )


async def test_the_only_sample_as_answer_has_no_inconsistency(service):
    result = await generated(
        service, strategy="mbr", num_samples=1, estimators=["inconsistency", "cocoa_ppl", "ppl"]
    )

    assert result["scores"]["inconsistency"] is result["scores"]["cocoa_ppl"] is None
    assert score_reasons(result) == {"inconsistency": "no samples", "cocoa_ppl": "no samples"}
    assert result["scores"]["ppl"] is not None


@pytest.mark.parametrize("similarity", ["fake", "nli", "rouge_l", "jaccard", "added"])
async def test_the_similarity_function_is_chosen_per_request(service, similarity):
    names = ["inconsistency", "ce_degmat", "degmat", "semantic_entropy", "sar"]
    result = await generated(service, similarity=similarity, estimators=names)

    assert result["provenance"]["similarity"] == similarity
    assert result["provenance"]["similarity_model"]["id"] in {"fake", similarity}
    assert 0 <= result["scores"]["inconsistency"] <= 1
    assert None not in result["scores"].values()


async def test_a_similarity_function_that_is_not_there_is_refused_with_what_to_send(service):
    response = await service.generate(similarity="cross_encoder")

    error = response.json()["error"]
    assert (response.status_code, error["code"], error["field"]) == (
        422,
        "invalid_request",
        "similarity",
    )
    assert error["message"] == "must be one of added, fake, jaccard, nli, rouge_l"


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("similarity", "rouge_l"),
        ("similarity", "jaccard"),
        ("estimator", "lexical_similarity"),
        ("estimators", ["sp", "lexical_similarity"]),
    ],
)
@pytest.mark.usefixtures("without_lab")
async def test_what_the_lab_adds_is_refused_without_it_with_what_to_install(field, name):
    async with serving() as service:
        response = await service.generate(**{field: name})
        listed = (await service.client.get("/estimators")).json()["estimators"]

    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (422, "invalid_request")
    assert error["field"].startswith(field)
    assert error["message"].endswith("install the lab (`pip install ./lab` from the checkout)")
    assert [one["name"] for one in listed] == list(ESTIMATORS)


async def test_the_estimator_of_the_lab_is_scored_beside_the_services_own(service):
    result = await generated(service, estimators=["lexical_similarity", "sp"], return_samples=True)

    texts = [sample["text"] for sample in result["samples"]]
    assert result["scores"]["lexical_similarity"] == lexical_similarity(texts)


async def test_without_an_nli_model_its_estimators_are_refused_by_name(service):
    service.core.scorer.workers = replace(service.workers, nli=None)
    response = await service.generate(estimators=["degmat"])

    assert response.json()["error"]["code"] == "statistic_unavailable"
    assert "entailment" in response.json()["error"]["message"]


async def test_p_true_without_room_for_its_question_is_null_with_the_reason(service):
    prompt = " ".join(["word"] * 500)
    result = await generated(service, prompt=prompt, max_new_tokens=8, estimators=["p_true", "sp"])

    assert result["scores"]["p_true"] is None
    assert result["reasons"]["p_true"] == "the question about the answer exceeds the context"


async def test_p_true_of_a_chat_asks_as_a_chat(service):
    asked = []
    original = service.generator.first_token_logprobs

    async def recording(request, groups):
        asked.append(request)
        return await original(request, groups)

    service.generator.first_token_logprobs = recording
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Capital of France?"},
    ]
    await generated(service, messages=messages, estimators=["p_true"])

    (message,) = asked[0].messages
    assert message["role"] == "user"
    assert message["content"].startswith("Question: Capital of France?\n Possible answer: ")
