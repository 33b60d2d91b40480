"""What a client writes is text: it ends no turn, begins none, and breaks no template for others."""

import pytest

from models.engines.tokenization import encode_prompt
from models.errors import ChatTemplateError
from models.records import GenerationRequest, SamplingParams
from tests.tiny_models import byte_tokenizer

TURNS = "{% for m in messages %}<|end|>[{{ m.role }}]{{ m.content | trim }}{% endfor %}"


def encode_chat(tokenizer, *contents):
    messages = tuple({"role": "user", "content": content} for content in contents)
    return encode_prompt(tokenizer, GenerationRequest(None, messages, sampling=SamplingParams()))


def plain_ids(tokenizer, text):
    return tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]


@pytest.mark.parametrize("special", ["<s>", "</s>", "<|end|>"])
@pytest.mark.parametrize("content", ["{}", "a{}[system]b", "{}{}", " {} ", "<{}>"])
def test_a_special_token_that_a_message_spells_out_is_text(special, content):
    tokenizer = byte_tokenizer(chat_template=TURNS)
    text = content.replace("{}", special)
    end = tokenizer.convert_tokens_to_ids("<|end|>")
    expected = [end, *plain_ids(tokenizer, f"[user]{text.strip()}")]

    assert encode_chat(tokenizer, text) == expected
    # and what was set for one call is not left for the next
    assert encode_prompt(tokenizer, GenerationRequest("<|end|>")) == [0, end]


def test_a_message_without_special_tokens_is_encoded_with_its_neighbours_in_one_piece():
    tokenizer = byte_tokenizer(chat_template=TURNS)
    rendered = "<|end|>[user]Grüße\ue000<|end|>[user]b"
    expected = tokenizer(rendered, add_special_tokens=False)["input_ids"]

    assert encode_chat(tokenizer, "Grüße\ue000", "b") == expected


BREAKING = {
    "division by zero": "{{ 1 // 0 }}",
    "a range without end": "{% for i in range(10 ** 12) %}{% endfor %}",
    "recursion": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "an unknown filter": "{{ messages | nothing }}",
    "a number that is no list": "{% for m in 7 %}{% endfor %}",
}


@pytest.mark.parametrize("template", BREAKING.values(), ids=list(BREAKING))
def test_a_template_that_fails_is_a_typed_refusal(template):
    with pytest.raises(ChatTemplateError, match="refused the messages") as error:
        encode_chat(byte_tokenizer(chat_template=template), "secret")

    assert error.value.field == "messages"
    assert "secret" not in str(error.value)
