"""Messages as the prompt that the model's own chat template makes of them."""

import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from models.engines.shown_messages import ROLES, StandIns, about_role
from models.engines.template_variables import check_variables, variables_of
from models.errors import ChatTemplateError
from models.pretrained import PreTrainedTokenizerBase
from models.records import GenerationRequest
from models.units.tool_calls import CallTrial


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
    if request.tools:
        _check_tools(tokenizer, request)
    messages = [_marked(message, marks) for message in plain_messages(request)]
    try:
        rendered = rendered_chat(tokenizer, request, messages, marks=marks)
    except Exception as error:  # a template is a program, and may fail in any way a program can
        complaint = _complaint(str(error), tokenizer.chat_template)
        roles = [message["role"] for message in request.messages or ()]
        others = [number for number, role in enumerate(roles) if role not in ROLES]
        if not others:
            raise ChatTemplateError(complaint, field="messages") from None
        complaint += about_role(roles[others[0]])
        raise ChatTemplateError(complaint, field=f"messages.{others[0]}") from None
    stand_ins = StandIns(request)
    if stand_ins.words:
        shown = None
        with suppress(Exception):  # it reads the messages' texts, and has just taken those sent
            shown = rendered_chat(tokenizer, stand_ins.request, plain_messages(stand_ins.request))
        if shown is not None:
            stand_ins.check(shown)
    return _encode_marked(tokenizer, rendered, marks)


def takes_turns(tokenizer: PreTrainedTokenizerBase) -> bool:
    turns = [("user", "a"), ("assistant", "b"), ("user", "c")]
    chat = tuple({"role": role, "content": content} for role, content in turns)
    try:
        encode_chat(tokenizer, GenerationRequest(messages=chat))
    except ChatTemplateError:
        return False
    return True


def rendered_chat(
    tokenizer: PreTrainedTokenizerBase,
    request: GenerationRequest,
    messages: Sequence[Mapping[str, Any]],
    *,
    add_generation_prompt: bool = True,
    marks: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Messages in the model's template, with the tools and variables of a request.

    Raises:
        Exception: whatever the template raises.
    """
    options: dict[str, Any] = dict(request.chat_template_kwargs)
    if request.tools:
        options["tools"] = _marked(list(request.tools), marks)
    rendered = tokenizer.apply_chat_template(
        list(map(dict, messages)),
        tokenize=False,
        add_generation_prompt=add_generation_prompt,
        **options,
    )
    return str(rendered)


def plain_messages(request: GenerationRequest) -> list[dict[str, Any]]:
    """Messages as templates expect them: arguments of calls are objects, in place of their JSON."""
    messages = []
    for message in request.messages or ():
        plain = dict(message)
        if "tool_calls" in message:
            plain["tool_calls"] = list(map(_plain_call, message["tool_calls"]))
        messages.append(plain)
    return messages


def _plain_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    arguments = json.loads(function["arguments"])
    return {**call, "function": {**function, "arguments": arguments}}


def _check_tools(tokenizer: PreTrainedTokenizerBase, request: GenerationRequest) -> None:
    """Refuse tools where the template shows none, or writes calls so that nobody reads them."""
    known = variables_of(str(tokenizer.get_chat_template(tools=list(map(dict, request.tools)))))
    if known is not None and "tools" not in known:
        raise ChatTemplateError("the model's chat template takes no tools", field="tools")
    trial = CallTrial()
    called = plain_messages(replace(request, messages=tuple(trial.chat)))
    try:
        prompt = rendered_chat(tokenizer, request, called[:1])
        rendered = rendered_chat(tokenizer, request, called, add_generation_prompt=False)
    except Exception:  # a template is a program, and may fail in any way a program can
        prompt = rendered = ""
    if not trial.reads_back(prompt, rendered):
        message = "the model's chat template writes tool calls in a format that is not read here"
        raise ChatTemplateError(message, field="tools")


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


def _marked(value: Any, marks: Mapping[str, str]) -> Any:
    """The value with marks in place of special tokens in all its texts, keys among them."""
    if not marks:
        return value
    if isinstance(value, str):
        return re.sub(_any_of(marks), lambda match: marks[match[0]], value)
    if isinstance(value, Mapping):
        return {_marked(key, marks): _marked(item, marks) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_marked(item, marks) for item in value]
    return value


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
    for place, piece in enumerate(pieces):
        encode = ids_behind if place else ids_of
        ids += encode(tokenizer, spelt.get(piece, piece), as_text=piece in spelt)
    return ids


def ids_of(tokenizer: PreTrainedTokenizerBase, text: str, *, as_text: bool = False) -> list[int]:
    """Token ids of a text, in which special tokens that are spelt out are text or themselves."""
    encoded = tokenizer(text, add_special_tokens=False, split_special_tokens=as_text, verbose=False)
    ids: list[int] = encoded["input_ids"]
    return ids


def ids_behind(
    tokenizer: PreTrainedTokenizerBase, text: str, *, as_text: bool = False
) -> list[int]:
    """The same of a text that goes on with another one.

    Tokenizers like those of Llama 2 and Mistral put a blank in front of each text by itself.
    """
    ids = ids_of(tokenizer, text, as_text=as_text)
    if ids_of(tokenizer, " x") != ids_of(tokenizer, "x"):
        return ids
    before, whole = (ids_of(tokenizer, variant, as_text=as_text) for variant in ("\n", f"\n{text}"))
    if whole[: len(before)] != before:
        return ids
    return whole[len(before) :]


def _any_of(texts: Iterable[str]) -> str:
    return f"({'|'.join(map(re.escape, sorted(texts, key=len, reverse=True)))})"


def _complaint(message: str, template: Any) -> str:
    """The template's own words, where they are a constant of the template.

    A constant cannot quote the messages.
    """
    words = "the model's chat template refused the messages"
    if message and message in str(template):
        words += f": {message}"
    return words
