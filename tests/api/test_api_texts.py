"""Which texts are drawn: by seeds, up to stop strings and bounds."""

import pytest

from tests.api.generated import SEEDED, generated

pytestmark = pytest.mark.anyio


async def test_a_seed_repeats_texts_and_scores(service):
    first = await generated(service, **SEEDED, return_samples=True)
    second = await generated(service, **SEEDED, return_samples=True)
    assert first["provenance"]["seed"] == second["provenance"]["seed"] == 2
    for key in ("text", "samples", "scores"):
        assert first[key] == second[key]


async def test_another_seed_draws_other_samples_and_the_same_answer(service):
    results = [await generated(service, seed=seed, return_samples=True) for seed in range(4)]
    assert len({result["text"] for result in results}) == 1
    assert len({tuple(sample["text"] for sample in result["samples"]) for result in results}) > 1


async def test_the_seed_that_the_engine_drew_repeats_the_response(service):
    drawn = await generated(service, return_samples=True)
    repeated = await generated(service, return_samples=True, seed=drawn["provenance"]["seed"])
    assert (repeated["samples"], repeated["scores"]) == (drawn["samples"], drawn["scores"])


@pytest.mark.parametrize(
    ("body", "warnings"),
    [
        pytest.param(
            {"max_new_tokens": 1}, {"answer_truncated", "samples_truncated"}, id="all cut"
        ),
        pytest.param(
            {"max_new_tokens": 1, "estimators": ["sp"]}, {"answer_truncated"}, id="the answer cut"
        ),
        pytest.param({}, set(), id="none"),
    ],
)
async def test_what_was_cut_is_warned_of(service, body, warnings):
    result = await generated(service, seed=1, **body)
    assert set(result["warnings"]) == warnings
    assert result["finish_reason"] == ("length" if warnings else "stop")


async def test_a_pair_cut_to_the_models_length_is_warned_of(service):
    service.pair_model.max_length = 1
    assert (await generated(service, seed=1))["warnings"] == ["similarity_truncated"]


async def test_a_stop_string_ends_the_text_before_it(service):
    prompt = await prompt_answered(service, " It is Paris.")
    result = await generated(service, prompt=prompt, stop=["Paris"])
    assert (result["text"], result["finish_reason"]) == (" It is ", "stop")


async def test_one_stop_string_may_stand_alone(service):
    prompt = await prompt_answered(service, " It is Paris.")
    result = await generated(service, prompt=prompt, stop="Paris")
    assert (result["text"], result["finish_reason"]) == (" It is ", "stop")


async def prompt_answered(service, text):
    """A prompt to which the fake engine answers `text`."""
    for number in range(64):
        prompt = f"Question {number}?"
        if (await generated(service, prompt=prompt, estimators=["sp"]))["text"] == text:
            return prompt
    raise AssertionError(f"no prompt is answered by {text!r}")


async def test_the_default_of_new_tokens_is_clamped_to_what_fits_and_an_explicit_one_is_refused(
    service,
):
    prompt = "word " * 400  # of 512
    body = {"prompt": prompt, "seed": 1, "max_new_tokens": None}
    first, again = await service.generate(**body), await service.generate(**body)
    explicit = await service.generate(**body | {"max_new_tokens": 256})
    short = await service.generate(max_new_tokens=None)

    assert first.json()["warnings"] == again.json()["warnings"] == ["max_new_tokens_clamped"]
    assert again.json()["cached"]
    assert (explicit.status_code, explicit.json()["error"]["field"]) == (422, "max_new_tokens")
    assert short.json()["warnings"] == []


async def test_where_nothing_is_generated_there_is_no_new_token_to_clamp(service):
    body = {"prompt": "word " * 400, "answer": "Paris", "estimators": ["sp"]}
    response = await service.client.post("/score", json=body)

    assert response.json()["warnings"] == []
