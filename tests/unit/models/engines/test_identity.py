"""An engine's identity holds whatever decides an answer."""

import pytest

from tests.tiny_models import byte_tokenizer, random_model
from tests.unit.models.engines.tiny_engines import engine_of, worker_of


def identity_of(model=None, tokenizer=None, **options):
    return worker_of(engine_of(model or random_model("llama"), tokenizer, **options)).info.identity


def with_other_eos():
    model = random_model("llama")
    model.generation_config.eos_token_id = 2
    return model


def with_another_token():
    tokenizer = byte_tokenizer()
    tokenizer.add_tokens(["Paris"])
    return tokenizer


def test_two_engines_over_the_same_model_have_the_same_identity():
    assert identity_of() == identity_of() != ""
    assert identity_of() == identity_of(max_rows=3, max_cache_tokens=300), "no answer depends on it"


# id: what makes an engine that is not the tiny one
OTHERS = {
    "model": lambda: {"model_id": "other"},
    "revision": lambda: {"revision": "2"},
    "dtype": lambda: {"model": random_model("llama").bfloat16()},
    "terminating tokens": lambda: {"model": with_other_eos()},
    "tokenizer": lambda: {"tokenizer": with_another_token()},
    "chat template": lambda: {"tokenizer": byte_tokenizer(chat_template="{{ messages }}")},
    "no chat template": lambda: {"tokenizer": byte_tokenizer(chat_template=None)},
}


@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS)
def test_whatever_decides_an_answer_is_in_the_identity(changes):
    assert identity_of(**changes()) != identity_of()
