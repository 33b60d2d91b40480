"""From a request to prompt token ids, with every check that needs a tokenizer."""

import inspect
from collections import Counter
from collections.abc import Sequence
from typing import Any

from jinja2.exceptions import TemplateError
from transformers import PreTrainedTokenizerBase

from models.errors import ChatTemplateError, InvalidRequest
from models.records import GenerationRequest


def encode_prompt(tokenizer: PreTrainedTokenizerBase, request: GenerationRequest) -> list[int]:
    """Prompt token ids.

    A raw prompt gets the tokenizer's special tokens once, messages get the model's template.

    Raises:
        ChatTemplateError: no template, or it refused the messages.
        InvalidRequest: the prompt has no tokens.
    """
    if request.prompt is not None:
        field, ids = "prompt", _encode_text(tokenizer, request.prompt)
    else:
        field, ids = "messages", _encode_chat(tokenizer, request)
    if not ids:
        raise InvalidRequest("the prompt has no tokens", field=field)
    return ids


def encode_answer(
    tokenizer: PreTrainedTokenizerBase, text: str, eos_id: int | None
) -> tuple[int, ...]:
    """Token ids of a given answer as it continues a prompt, then `eos_id` where one is given."""
    ids: list[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    return (*ids, eos_id) if eos_id is not None else tuple(ids)


def first_token_ids(
    tokenizer: PreTrainedTokenizerBase, groups: Sequence[Sequence[str]]
) -> list[tuple[int, ...]]:
    """First token ids of each group's spellings; an id that two groups share counts in neither."""
    ids = [{encode_answer(tokenizer, text, None)[0] for text in group} for group in groups]
    counts = Counter(token for group in ids for token in group)
    return [tuple(sorted(token for token in group if counts[token] == 1)) for group in ids]


def opens_reasoning(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> bool:
    """Whether the rendered prompt ends in `<think>`, as some chat templates' do."""
    tail = tokenizer.decode(ids[-4:], skip_special_tokens=False)
    return str(tail).rstrip().endswith("<think>")


def _encode_text(tokenizer: PreTrainedTokenizerBase, prompt: str) -> list[int]:
    ids: list[int] = tokenizer(prompt, verbose=False)["input_ids"]
    # A prompt that spells out the BOS token would otherwise start with two.
    if len(ids) > 1 and ids[0] == ids[1] == tokenizer.bos_token_id:
        return ids[1:]
    return ids


def _encode_chat(tokenizer: PreTrainedTokenizerBase, request: GenerationRequest) -> list[int]:
    if not tokenizer.chat_template:
        raise ChatTemplateError("this model has no chat template: send `prompt`", field="messages")
    # The client fills the template's variables; it must not replace the template or the rendering.
    reserved = inspect.signature(tokenizer.apply_chat_template).parameters.keys() | {"messages"}
    if clash := sorted(reserved & request.chat_template_kwargs.keys()):
        raise InvalidRequest(f"reserved names: {', '.join(clash)}", field="chat_template_kwargs")
    messages: list[dict[str, str]] = [dict(message) for message in request.messages or ()]
    try:
        text = tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, **request.chat_template_kwargs
        )
    except (TemplateError, TypeError, ValueError, KeyError) as error:
        raise ChatTemplateError(
            _template_complaint(str(error), tokenizer.chat_template), field="messages"
        ) from None
    ids: list[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    return ids


def _template_complaint(message: str, template: Any) -> str:
    """The template's own words, where they are a constant of the template.

    A constant cannot quote the messages.
    """
    words = "the model's chat template refused the messages"
    return f"{words}: {message}" if message and message in str(template) else words
