"""Messages as the prompt that the model's own chat template makes of them."""

import json
import re
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import product
from operator import itemgetter
from types import MappingProxyType
from typing import Any

from models.engines.shown_messages import ROLES, StandIns, about_role
from models.engines.template_variables import check_variables, variables_of
from models.errors import ChatTemplateError
from models.pretrained import PreTrainedTokenizerBase
from models.records import EFFORT, GenerationRequest
from models.units.tool_calls import CallTrial
from models.warnings import Warned


def encode_chat(tokenizer: PreTrainedTokenizerBase, request: GenerationRequest) -> list[int]:
    """Token ids of messages in the model's template.

    Raises:
        ChatTemplateError: no template, or it refused the messages; names the field at fault.
        InvalidRequest: a variable is not the client's to set, or the template does not read it.
    """
    if not tokenizer.chat_template:
        raise ChatTemplateError("this model has no chat template: send `prompt`", field="messages")
    check_variables(tokenizer, request.chat_template_kwargs)
    marks = _marks(tokenizer)
    try:
        rendered = rendered_chat(tokenizer, request, marks=marks)
    except Exception as error:  # a template is a program, and may fail in any way a program can
        raise _refusal(tokenizer, request, error) from None
    if request.tools:
        _check_tools(tokenizer, request)
    return _encoded(tokenizer, rendered, marks)


def left_out(tokenizer: PreTrainedTokenizerBase, request: GenerationRequest) -> tuple[Warned, ...]:
    """Warnings of what the template leaves out of messages that it takes.

    Raises:
        ChatTemplateError: it leaves out a message or a call.
    """
    stand_ins, rendered = StandIns(request), None
    if stand_ins.words:
        with suppress(Exception):  # it reads the messages' texts, and has just taken those sent
            rendered = rendered_chat(tokenizer, stand_ins.request)
    warnings = stand_ins.left_out(rendered)
    if request.documents and "documents" not in _shown(tokenizer, request).chat_template_kwargs:
        warnings += (Warned.DOCUMENTS_IN_MESSAGE,)
    return warnings


def refusal_of(tokenizer: PreTrainedTokenizerBase, *roles: str) -> str:
    """Why the template shows no chat of ours of such messages; "" where it does."""
    chat = tuple({"role": role, "content": "a"} for role in roles)
    try:
        rendered_chat(tokenizer, GenerationRequest(messages=chat))
        left_out(tokenizer, GenerationRequest(messages=chat))
    except Exception as error:
        return f"{type(error).__name__}: {error}".partition("\n")[0]
    return ""


def rendered_chat(
    tokenizer: PreTrainedTokenizerBase,
    request: GenerationRequest,
    *,
    add_generation_prompt: bool = True,
    marks: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Messages in the model's template, with the tools, documents and variables of a request.

    Where it refuses them as transformers' users give them, some take an empty list of tools, or
    arguments of calls as JSON. Raises whatever the template raises first.
    """
    if request.documents:
        request = _shown(tokenizer, request, marks)
    variables = dict(request.chat_template_kwargs)  # a client's, which never take the place of ours
    variables |= {"tokenize": False, "add_generation_prompt": add_generation_prompt}
    offers: list[Any] = [list(request.tools)] if request.tools else [None, []]
    errors = []
    for tools, form in product(offers, (_plain, dict)):
        chat = _marked(list(map(form, request.messages or ())), marks)
        try:
            shown = _marked(tools, marks)
            return str(tokenizer.apply_chat_template(chat, tools=shown, **variables))
        except Exception as error:
            errors.append(error)
    raise errors[0]


def _shown(
    tokenizer: PreTrainedTokenizerBase,
    request: GenerationRequest,
    marks: Mapping[str, str] = MappingProxyType({}),
) -> GenerationRequest:
    """The request with its documents as a variable, or in a message if the template shows none.

    It shows them where words in their place come out; one that fails on them has read them.
    """
    kwargs, drawn = dict(request.chat_template_kwargs), list[Any]()
    for document in request.documents:
        drawn.append({**document, "text": f"f{secrets.token_hex(8)}"})
    trial = replace(request, documents=(), chat_template_kwargs={**kwargs, "documents": drawn})
    with suppress(Exception):  # a template is a program, and may fail in any way a program can
        rendered = rendered_chat(tokenizer, trial)
        if not all(map(rendered.__contains__, map(itemgetter("text"), drawn))):
            return request.with_documents_said()
    kwargs["documents"] = _marked(request.documents, marks)
    return replace(request, documents=(), chat_template_kwargs=kwargs)


def _plain(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as most templates expect it: arguments of calls are objects, not their JSON."""
    plain, calls = dict(message), []
    for call in message.get("tool_calls", ()):
        function = {**call["function"], "arguments": json.loads(call["function"]["arguments"])}
        calls.append({**call, "function": function})
    if calls:
        plain["tool_calls"] = calls
    return plain


def _refusal(
    tokenizer: PreTrainedTokenizerBase, request: GenerationRequest, error: Exception
) -> ChatTemplateError:
    """The refusal of the first field without which the template takes the chat."""
    words, variables = _own_words(tokenizer, error), dict(request.chat_template_kwargs)
    variables.pop(EFFORT, None)
    less: dict[str, dict[str, Any]] = {EFFORT: {"chat_template_kwargs": variables}}
    less |= {"chat_template_kwargs": {"chat_template_kwargs": {}}, "tools": {"tools": ()}}
    less["documents"] = {"documents": ()}
    for field, changed in less.items():
        with suppress(Exception):
            rendered_chat(tokenizer, replace(request, **changed))
            return ChatTemplateError(f"the model's chat template refused it{words}", field=field)
    complaint = f"the model's chat template refused the messages{words}"
    for number, message in enumerate(request.messages or ()):
        if message["role"] not in ROLES:
            complaint += about_role(message["role"])
            return ChatTemplateError(complaint, field=f"messages.{number}")
    return ChatTemplateError(complaint, field="messages")


def _check_tools(tokenizer: PreTrainedTokenizerBase, request: GenerationRequest) -> None:
    """Refuse tools where the template shows none, or writes calls so that nobody reads them."""
    known = variables_of(str(tokenizer.get_chat_template(tools=list(map(dict, request.tools)))))
    if known is not None and "tools" not in known:
        raise ChatTemplateError("the model's chat template takes no tools", field="tools")
    trial = CallTrial()
    asked, called = (replace(request, messages=tuple(trial.chat[:size])) for size in (1, 2))
    try:
        prompt = rendered_chat(tokenizer, asked)
        rendered = rendered_chat(tokenizer, called, add_generation_prompt=False)
    except Exception:  # a template is a program, and may fail in any way a program can
        prompt = rendered = ""
    if not trial.reads_back(prompt, rendered):
        message = "the model's chat template writes tool calls in a format that is not read here"
        raise ChatTemplateError(message, field="tools")


def _marks(tokenizer: PreTrainedTokenizerBase) -> dict[str, str]:
    """Each special token's text to what stands for it where a message spells it out.

    No message can hold a mark: they are drawn anew for each request.
    """
    marks, drawn = dict[str, str](), secrets.token_hex(8)
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


def _encoded(tokenizer: PreTrainedTokenizerBase, text: str, marks: Mapping[str, str]) -> list[int]:
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


def _own_words(tokenizer: PreTrainedTokenizerBase, error: Exception) -> str:
    """The beginning of an error that is a constant of the template, so that it quotes no message.

    Without one, what the template says of a plain question.
    """
    words, template = str(error)[:500], str(tokenizer.chat_template)
    while words and f"{words}'" not in template and f'{words}"' not in template:
        words = words[:-1]
    if " " not in words.strip():  # no sentence
        words = refusal_of(tokenizer, "user")
    return words and f": {words.strip()}"
