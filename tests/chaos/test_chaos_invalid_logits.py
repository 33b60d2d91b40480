"""A model that returns NaN or infinity for one of several running requests.

That request fails, and the others notice nothing.

The real engine over a tiny random model, whose tokens are bytes, behind the whole application.
"""

import asyncio

import pytest

from models.engines import ENGINES
from models.engines.transformers import TransformersEngine
from tests.conftest import serving
from tests.tiny_models import byte_tokenizer, random_model

pytestmark = pytest.mark.anyio

PROMPTS = [
    "Hi",
    "What is the capital of France?",
    "12 + 30 =",
    "A prompt that is a good deal longer than the others",
]
SHARED = {"seed": 5, "max_new_tokens": 24, "num_samples": 4, "return_samples": True, "cache": False}


class TinyEngine(TransformersEngine):
    """Keeps its model in reach."""

    @classmethod
    def load(cls, config):
        model = random_model("llama")
        engine = cls(model, byte_tokenizer(), config, model_id="tiny", revision="1")
        engine.model = model
        return engine


async def ask_all(service):
    return await asyncio.gather(*(service.generate(prompt=prompt, **SHARED) for prompt in PROMPTS))


def decoded(response):
    """Characters of one request that were fed back to the model: all but the last of each text."""
    result = response.json()
    texts = [result["text"], *(sample["text"] for sample in result["samples"])]
    return set("".join(text[:-1] for text in texts))


def own_token(responses):
    """A token id that one request decodes and no other has anywhere, and that request's index."""
    tokenizer = byte_tokenizer()
    for index, response in enumerate(responses):
        elsewhere = {prompt[-1] for prompt in PROMPTS}.union(
            *(response.text for i, response in enumerate(responses) if i != index)
        )
        for character in sorted(decoded(response)):
            if character.isascii() and character.isalnum() and character not in elsewhere:
                return tokenizer(character).input_ids[-1], index
    raise AssertionError("the texts have no character of their own")


@pytest.mark.parametrize("value", [float("nan"), float("inf")], ids=["nan", "inf"])
async def test_invalid_logits_in_the_middle_of_one_request_leave_the_others_as_they_are(
    monkeypatch, value
):
    monkeypatch.setitem(ENGINES, "tiny", f"{__name__}:TinyEngine")
    async with serving(engine="tiny", threads=1) as service, asyncio.timeout(120):
        healthy = await ask_all(service)
        assert {response.status_code for response in healthy} == {200}
        token, poisoned = own_token(healthy)

        def poison(_, args, kwargs, output):
            output.logits[kwargs["input_ids"][:, -1] == token] = value
            return output

        handle = service.engine.model.register_forward_hook(poison, with_kwargs=True)
        responses = await ask_all(service)
        handle.remove()
        failed = responses.pop(poisoned)
        assert (failed.status_code, failed.json()["error"]["code"]) == (500, "invalid_logits")
        assert_same(responses, healthy[:poisoned] + healthy[poisoned + 1 :])
        assert_same(await ask_all(service), healthy)
        assert service.admission.num_admitted == 0
        assert service.deaths == []


def assert_same(responses, expected):
    for response, other in zip(responses, expected, strict=True):
        assert response.status_code == 200
        result, wanted = response.json(), other.json()
        assert result["text"] == wanted["text"]
        texts = [sample["text"] for sample in result["samples"]]
        assert texts == [sample["text"] for sample in wanted["samples"]]
        assert result["scores"] == pytest.approx(wanted["scores"], abs=1e-4)
