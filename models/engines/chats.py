"""Messages as the prompt that the model's own chat template makes of them."""

import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from models.engines.template_variables import check_variables
from models.errors import ChatTemplateError
from models.records import GenerationRequest

# That chat templates know. An error names no other one: that would be the client's text.
_ROLES = ("system", "user", "assistant", "tool")


def encode_chat(tokenizer: PreTrainedTokenizerBase, request: GenerationRequest) -> list[int]:
    """Token ids of messages in the model's template.

    Raises:
        ChatTemplateError: no template, or it refused the messages, or leaves one out.
        InvalidRequest: a variable is not the client's to set, or one that the template does not
            read.
    """
    if not tokenizer.chat_template:
        raise ChatTemplateError("this model has no chat template: send `prompt`", field="messages")
    check_variables(tokenizer, request.chat_template_kwargs)
    marks = _marks(tokenizer)
    messages = []
    for message in request.messages or ():
        messages.append({**message, "content": _marked(message["content"], marks)})
    try:
        rendered = tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, **request.chat_template_kwargs
        )
    except Exception as error:  # a template is a program, and may fail in any way a program can
        complaint = _complaint(str(error), tokenizer.chat_template)
        number = _first_of_other_role(request.messages)
        if number is None:
            raise ChatTemplateError(complaint, field="messages") from None
        complaint += _about_role(request.messages, number)
        raise ChatTemplateError(complaint, field=f"messages.{number}") from None
    if (number := _left_out(tokenizer, request)) is not None:
        complaint = "the model's chat template leaves this message out: send the others without it"
        complaint += _about_role(request.messages, number)
        raise ChatTemplateError(complaint, field=f"messages.{number}")
    return _encode_marked(tokenizer, str(rendered), marks)


def _left_out(tokenizer: PreTrainedTokenizerBase, request: GenerationRequest) -> int | None:
    """Number of the first message that the template drops in silence.

    It is rendered once more, with a drawn word in place of each message.
    """
    messages = request.messages or ()
    if [message["role"] for message in messages] == ["user"]:
        return None
    words = [secrets.token_hex(8) for _ in messages]
    stand_ins = []
    for message, word in zip(messages, words, strict=True):
        stand_ins.append({**message, "content": word})
    try:
        rendered = tokenizer.apply_chat_template(
            stand_ins, tokenize=False, add_generation_prompt=True, **request.chat_template_kwargs
        )
    except Exception:  # it reads the messages' texts, and has just taken those that were sent
        return None
    return next((i for i, word in enumerate(words) if word not in rendered), None)


def _first_of_other_role(messages: Sequence[Mapping[str, str]] | None) -> int | None:
    """Number of the first message of a role that few templates know."""
    for number, message in enumerate(messages or ()):
        if message["role"] not in _ROLES:
            return number
    return None


def _about_role(messages: Sequence[Mapping[str, str]] | None, number: int) -> str:
    """The role of a message, which is named only where it is no text of the client's own."""
    role = (messages or ())[number]["role"]
    if role in _ROLES:
        return f" (its role is {role})"
    return f" (its role is none of {', '.join(_ROLES)})"


def _marks(tokenizer: PreTrainedTokenizerBase) -> dict[str, str]:
    """Each special token's text to what stands for it where a message spells it out.

    No message can hold a mark: they are drawn anew for each request.
    """
    marks: dict[str, str] = {}
    drawn = secrets.token_hex(8)
    for token in tokenizer.added_tokens_decoder.values():
        if token.special:
            marks[token.content] = f"\ue000{drawn}.{len(marks)}\ue001"
    return marks


def _marked(text: str, marks: Mapping[str, str]) -> str:
    """The text with marks in place of special tokens."""
    if not marks:
        return text
    return re.sub(_any_of(marks), lambda found: marks[found[0]], text)


def _encode_marked(
    tokenizer: PreTrainedTokenizerBase, text: str, marks: Mapping[str, str]
) -> list[int]:
    """Ids of a rendered chat, in which a mark becomes its text, never the special token.

    So a message cannot end its turn and begin another one.
    """
    spelt = {mark: special for special, mark in marks.items()}
    ids: list[int] = []
    pieces = [text]
    if marks:
        pieces = re.split(_any_of(spelt), text)
    for piece in pieces:
        encoded = tokenizer(
            spelt.get(piece, piece),
            add_special_tokens=False,
            split_special_tokens=piece in spelt,
            verbose=False,
        )
        ids += encoded["input_ids"]
    return ids


def _any_of(texts: Iterable[str]) -> str:
    """A pattern of one group for any of the texts, the longest first."""
    return f"({'|'.join(map(re.escape, sorted(texts, key=len, reverse=True)))})"


def _complaint(message: str, template: Any) -> str:
    """The template's own words, where they are a constant of the template.

    A constant cannot quote the messages.
    """
    words = "the model's chat template refused the messages"
    if message and message in str(template):
        words += f": {message}"
    return words
