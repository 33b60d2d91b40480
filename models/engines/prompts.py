"""From a request to prompt token ids, with every check that needs a tokenizer."""

import inspect
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from models.engines.texts import unshared
from models.errors import ChatTemplateError, InvalidRequest
from models.records import AnswerForm, GenerationRequest

# Tokens at a prompt's end that tell how it ends.
_TAIL = 4


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


def encode_answer_forms(
    tokenizer: PreTrainedTokenizerBase, prompt_ids: Sequence[int], text: str, eos_id: int | None
) -> dict[AnswerForm, tuple[int, ...]]:
    """Ways in which a given answer may continue its prompt.

    A model continues "… of France?" with " Paris", and whoever brings the answer has stripped it.
    """
    forms: dict[AnswerForm, tuple[int, ...]] = {"literal": encode_answer(tokenizer, text, eos_id)}
    tail = str(tokenizer.decode(list(prompt_ids[-_TAIL:]), skip_special_tokens=False))
    if text[:1].strip() and tail[-1:].strip():
        blank_led = encode_answer(tokenizer, f" {text}", eos_id)
        if blank_led != forms["literal"]:
            forms["blank_led"] = blank_led
    return forms


def first_token_ids(
    tokenizer: PreTrainedTokenizerBase, groups: Sequence[Sequence[str]]
) -> list[tuple[int, ...]]:
    """First token ids of each group's spellings; an id that two groups share counts in neither."""
    return unshared([[encode_answer(tokenizer, one, None)[0] for one in group] for group in groups])


def opens_reasoning(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> bool:
    """Whether the rendered prompt ends in `<think>`, as some chat templates' do."""
    tail = tokenizer.decode(ids[-_TAIL:], skip_special_tokens=False)
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
    if clash := sorted(_reserved_names(tokenizer) & request.chat_template_kwargs.keys()):
        raise InvalidRequest(f"reserved names: {', '.join(clash)}", field="chat_template_kwargs")
    marks = _marks(tokenizer)
    messages = [_marked(message, marks) for message in request.messages or ()]
    try:
        rendered = tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, **request.chat_template_kwargs
        )
    except Exception as error:  # a template is a program, and may fail in any way a program can
        raise ChatTemplateError(
            _template_complaint(str(error), tokenizer.chat_template), field="messages"
        ) from None
    return _encode_marked(tokenizer, str(rendered), marks)


def _reserved_names(tokenizer: PreTrainedTokenizerBase) -> set[str]:
    """Variables that the client must not set: they would replace the rendering or its tokens."""
    rendering = inspect.signature(tokenizer.apply_chat_template).parameters.keys()
    return {"messages", *rendering, *tokenizer.SPECIAL_TOKENS_ATTRIBUTES}


def _marks(tokenizer: PreTrainedTokenizerBase) -> dict[str, str]:
    """Each special token's text to what stands for it where a message spells it out.

    A mark is none that a message could hold: it is drawn anew for each request.
    """
    specials = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
    drawn = secrets.token_hex(8)
    return {text: f"\ue000{drawn}.{i}\ue001" for i, text in enumerate(specials)}


def _marked(message: Mapping[str, str], marks: Mapping[str, str]) -> dict[str, str]:
    """The message with marks in its content in place of special tokens."""
    return dict(message) | {"content": _replace_all(message["content"], marks)}


def _encode_marked(
    tokenizer: PreTrainedTokenizerBase, text: str, marks: Mapping[str, str]
) -> list[int]:
    """Ids of a rendered chat, in which what stands for a mark is text and no special token.

    So a message cannot end its turn and begin another one.
    """
    spelt = {mark: special for special, mark in marks.items()}
    pieces = re.split(_any_of(spelt), text) if spelt else [text]
    ids: list[int] = []
    for piece in pieces:
        is_spelt = piece in spelt
        encoded = tokenizer(
            spelt.get(piece, piece),
            add_special_tokens=False,
            split_special_tokens=is_spelt,
            verbose=False,
        )
        ids += encoded["input_ids"]
    return ids


def _replace_all(text: str, replacements: Mapping[str, str]) -> str:
    if not replacements:
        return text
    return re.sub(_any_of(replacements), lambda found: replacements[found[0]], text)


def _any_of(texts: Iterable[str]) -> str:
    """A pattern of one group for any of the texts, the longest first."""
    escaped = [re.escape(text) for text in sorted(texts, key=len, reverse=True)]
    return f"({'|'.join(escaped)})"


def _template_complaint(message: str, template: Any) -> str:
    """The template's own words, where they are a constant of the template.

    A constant cannot quote the messages.
    """
    words = "the model's chat template refused the messages"
    return f"{words}: {message}" if message and message in str(template) else words
