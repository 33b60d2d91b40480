"""Prompts of `/v1/completions` as evaluators send them, over a tiny model with random weights."""

import numpy as np
import pytest
from transformers import AutoTokenizer

from tests.api.openai_calls import TEXT, answered, post
from tests.conftest import serving
from tests.tiny_models import byte_tokenizer, random_model
from tests.unit.models.engines.tiny_engines import teacher_forced

pytestmark = pytest.mark.anyio

PROMPTS = ["Hi", "What is the capital of France?", "12 + 30 ="]
_OF_TOKENS = "token_logprobs", "top_logprobs", "text_offset"
SCORED = {"max_tokens": 6, "uncertainty": {"estimators": ["sp"], "cache": False}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("tiny")
    random_model("llama").save_pretrained(path)
    byte_tokenizer().save_pretrained(path)
    return str(path)


@pytest.fixture(scope="module", params=["embedded", "remote"])
async def service(anyio_backend, request, folder):
    """Each test once with the model in the service's process, and once behind HTTP."""
    async with serving(placement=request.param, engine="transformers", model=folder) as running:
        yield running


@pytest.fixture
def tokenizer(folder):
    return AutoTokenizer.from_pretrained(folder)


def said(choice):
    return choice["text"], choice["finish_reason"], choice["logprobs"]["tokens"]


async def test_choices_of_several_prompts_come_one_prompt_after_another(service):
    drawn = SCORED | {"n": 2, "seed": 3, "logprobs": 1}
    together = await answered(service, TEXT, prompt=PROMPTS, **drawn)
    alone = [await answered(service, TEXT, prompt=prompt, **drawn) for prompt in PROMPTS]

    choices = [choice for body in alone for choice in body["choices"]]
    assert [choice["index"] for choice in together["choices"]] == list(range(6))
    assert list(map(said, together["choices"])) == list(map(said, choices))
    for choice, other in zip(together["choices"], choices, strict=True):
        assert (choice["uncertainty"] is None) == (other["uncertainty"] is None)
        values = other["logprobs"]["token_logprobs"]
        assert choice["logprobs"]["token_logprobs"] == pytest.approx(values, abs=1e-5)
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert together["usage"][name] == sum(body["usage"][name] for body in alone)


async def test_ids_of_tokens_are_taken_as_they_are(service, tokenizer):
    ids = list(map(tokenizer.encode, PROMPTS))
    texts = await answered(service, TEXT, prompt=PROMPTS, logprobs=0, **SCORED)
    for prompt, expected in ((ids, texts["choices"]), (ids[1], texts["choices"][1:2])):
        body = await answered(service, TEXT, prompt=prompt, logprobs=0, **SCORED)
        assert list(map(said, body["choices"])) == list(map(said, expected))
    without_bos = await answered(service, TEXT, prompt=ids[1][1:], **SCORED)
    assert without_bos["usage"]["prompt_tokens"] == len(ids[1]) - 1


@pytest.mark.parametrize(
    ("prompt", "param", "status"),
    [
        ([[1, 2], [3, 259]], "prompt.1", 422),
        ([5, 259], "prompt", 422),
        ([[1, 2], [-1]], "prompt.1.0", 422),
        ([[1], []], "prompt.1", 422),
        (["a", "b", "c" * 600], "prompt.2", 400),
        ([[5] * 600], "prompt.0", 400),
        ([[5] * 600, [5] * 600], "prompt.0", 400),
    ],
)
async def test_one_bad_prompt_is_named_before_anything_is_computed(service, prompt, param, status):
    undo = service.generation_raises(AssertionError("something was computed"))
    response = await post(service, TEXT, prompt=prompt, **SCORED)
    undo()
    assert (response.status_code, response.json()["error"]["param"]) == (status, param)


async def test_all_prompts_of_a_request_hold_one_place_and_have_one_deadline(service, monkeypatch):
    monkeypatch.setattr(service.admission, "limit", 1)
    assert len((await answered(service, TEXT, prompt=PROMPTS, **SCORED))["choices"]) == 3
    late = SCORED | {"uncertainty": {"estimators": ["sp"], "cache": False, "timeout_s": 0.2}}
    undo = service.generation_takes(0.15)
    assert (await post(service, TEXT, prompt=PROMPTS * 10, **late)).status_code == 504
    undo()
    monkeypatch.setattr(service.admission, "limit", 0)
    assert (await post(service, TEXT, prompt=PROMPTS, **SCORED)).status_code == 429


@pytest.mark.parametrize("max_tokens", [0, 1, 3])
async def test_an_echo_tells_what_the_model_says_of_the_prompt(service, tokenizer, max_tokens):
    model = random_model("llama")
    asked = {"echo": True, "logprobs": 2, "max_tokens": max_tokens, "temperature": 0}
    ids = list(map(tokenizer.encode, PROMPTS))
    for prompts, lead in ((PROMPTS, ""), (ids, "<s>")):
        body = await answered(service, TEXT, prompt=prompts, **asked)
        assert body["usage"]["completion_tokens"] == max_tokens * len(PROMPTS)
        for prompt, of_prompt, choice in zip(PROMPTS, ids, body["choices"], strict=True):
            text, told, most = choice["text"], choice["logprobs"], len(of_prompt)
            assert len(told["tokens"]) == most + max_tokens
            assert "".join(told["tokens"]) == "<s>" + text.removeprefix("<s>")
            assert text.startswith(lead + prompt)
            expected, _ = teacher_forced(model, of_prompt[:1], of_prompt[1:])
            np.testing.assert_allclose(told["token_logprobs"][1:most], expected, atol=1e-4)
            assert choice["finish_reason"] == "length"
            assert choice["uncertainty"]["sample_tokens"] == 0
            assert not choice["uncertainty"]["cached"]


async def test_each_token_of_an_echo_stands_where_it_says_and_is_among_the_likeliest(service):
    [choice] = (await answered(service, TEXT, prompt=PROMPTS[1], echo=True, logprobs=2))["choices"]
    told = choice["logprobs"]
    first, *rest = zip(*map(told.get, ("tokens", *_OF_TOKENS)), strict=True)
    assert first == ("<s>", None, None, 0)
    for token, logprob, tops, start in rest:
        assert choice["text"][start:].startswith(token)
        assert tops[token] == logprob
        assert len(tops) in (2, 3)
        assert max(tops.values()) >= logprob


async def test_without_log_probs_an_echo_is_the_text_and_samples_come_where_they_are_named(service):
    body = await answered(service, TEXT, prompt="Hi", echo=True, max_tokens=2)
    [choice] = body["choices"]
    assert choice["text"].startswith("Hi")
    assert choice["logprobs"] is None
    drawn = {"echo": True, "max_tokens": 2, "n": 2, "uncertainty": {"num_samples": 3}}
    body = await answered(service, TEXT, prompt=["Hi", "Ho"], logprobs=0, seed=1, **drawn)
    assert [choice["text"][:2] for choice in body["choices"]] == ["Hi", "Hi", "Ho", "Ho"]
    assert [choice["logprobs"]["token_logprobs"][0] for choice in body["choices"]] == [None] * 4
    assert body["choices"][0]["logprobs"]["top_logprobs"] is None
    assert body["choices"][2]["uncertainty"]["provenance"]["num_samples"] == 3
    for wanted in ({"estimators": ["inconsistency"]}, {"strategy": "mbr"}):
        body = await answered(
            service, TEXT, prompt="Hi", echo=True, max_tokens=2, uncertainty=wanted
        )
        assert body["choices"][0]["uncertainty"]["provenance"]["num_samples"] == 10


async def test_tokens_of_texts_are_told_where_evaluators_look_for_them(service, tokenizer):
    info = (await service.client.get("/tokenizer_info")).json()
    assert (info["bos_token"], info["eos_token"]) == ("<s>", "</s>")
    assert info["chat_template"] == tokenizer.chat_template
    for special in (True, False):
        body = {"model": "any", "prompt": "Hé", "add_special_tokens": special}
        told = (await service.client.post("/tokenize", json=body)).json()
        assert told["tokens"] == tokenizer.encode("Hé", add_special_tokens=special)
        assert told["count"] == 3 + special
