"""Prompts as a server takes them, and calls that fit their bodies to its profile."""

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from typing import Annotated, Any, TypeVar

from pydantic import Strict, TypeAdapter
from typing_extensions import TypedDict

from models.engines.shown_messages import StandIns
from models.engines.tags import KNOWN_TAGS
from models.errors import ChatTemplateError, InvalidRequest
from models.images import as_sent, images_of
from models.records import EFFORT, NO_EFFORT, GenerationRequest
from models.units.tool_calls import CallTrial
from models.warnings import Warned
from workers.openai.choices import Choice
from workers.openai.found import OpenAIServer
from workers.openai.profiles import LOGPROBS
from workers.openai.replies import all_taken, read_choices
from workers.openai.requests import Prompt, completion
from workers.protocol import refuse_unheeded
from workers.remote.calls import Calls, Read, shaped
from workers.remote.client import Client
from workers.remote.refusals import ALL_TAKEN, Denied, Rejected

Reply = TypeVar("Reply")

# A fixed text, sent to every server and no client's. Most models answer it in the same words each
# time, and few of them equally surely.
HOUSE = "Translate to German: the old house by the river."
# Variables of a template that the client must not set.
_RESERVED = frozenset(
    {"messages", "conversation", "tools", "documents", "chat_template", "add_generation_prompt"}
    | {"continue_final_message", "tokenize", "padding", "truncation", "max_length", "return_dict"}
    | {"return_tensors", "return_assistant_tokens_mask", "tokenizer_kwargs", "raise_exception"}
    | {"bos_token", "eos_token", "pad_token", "unk_token", "sep_token", "cls_token", "mask_token"}
)
# Tokens at a prompt's end that suffice to see how it ends.
TAIL = 4
_STARTS = tuple(tags.start for tags in KNOWN_TAGS)


class _Tokens(TypedDict):
    tokens: list[Annotated[int, Strict()]]


class _Text(TypedDict):
    prompt: str


_TOKENS, _TEXT = TypeAdapter(_Tokens), TypeAdapter(_Text)


class ModelCalls(Calls):
    """Calls whose bodies are fitted to the profile of a server, which its refusals change."""

    def __init__(self, client: Client, server: OpenAIServer, **options: Any) -> None:
        super().__init__(client, **options)
        self.server = server

    async def complete(
        self, prompt: Prompt, num: int = 1, further: Mapping[str, Any] | None = None, **options: Any
    ) -> list[Choice]:
        """`num` choices of a reply to a `completion` with `options` and `further` parameters."""
        body = {**completion(self.server, prompt, **options), **(further or {})}
        return read_choices([await self.post(prompt.path, body)], num)

    async def try_complete(
        self, prompt: Prompt, further: Mapping[str, Any] | None = None, **options: Any
    ) -> Choice | None:
        """The choice of such a reply; None where the server takes no such body.

        Its refusal is logged at DEBUG.
        """
        quiet = copy(self)
        quiet.level_of_rejections = logging.DEBUG
        self.num_posts += 1
        try:
            [choice] = await quiet.complete(prompt, 1, further, **options)
        except self.server.refusals:
            return None
        return choice

    async def _posted(self, path: str, body: Mapping[str, Any], read: Read[Reply]) -> Reply:
        """The reply to the body as the server takes it; raises the first refusal if none is taken.

        After each refusal the profile has learned something, or the body has less, until neither
        helps.
        """
        if path.startswith("/v1/"):
            path = self.server.profile.prefix + path.removeprefix("/v1")
        profile, has_learned = self.server.profile, False
        first: Exception | None = None
        while True:
            rendered = profile.rendered({"model": self.server.model_id, **body})
            try:
                reply = await super()._posted(path, rendered, read)
            except (Rejected, Denied) as refusal:
                first = first or refusal
                if profile.refuses_here(refusal, body):
                    body = {name: one for name, one in body.items() if name not in LOGPROBS}
                    continue
                learned = profile.learned(refusal, body)
                if learned is not None:
                    profile, has_learned = learned, True
                    continue
                if not refusal.is_of_prompt:
                    raise first from None
                if has_learned:  # all but the prompt is taken
                    self.server.profile = profile
                if refusal.code != ALL_TAKEN:
                    raise
                return await self._as_reply(read, all_taken(body.get("n", 1), body["max_tokens"]))
            if not has_learned:  # other calls may have, meanwhile
                profile = self.server.profile
            self.server.profile = profile.after(body)
            return reply


async def token_ids(calls: Calls, **body: Any) -> tuple[int, ...]:
    """Token ids in the reply of `/tokenize` to a body."""
    return tuple(shaped(_TOKENS, await calls.post("/tokenize", body), "its token ids")["tokens"])


async def render(calls: ModelCalls, request: GenerationRequest) -> Prompt:
    """The prompt of a request as the server takes it, behind a closed reasoning if it wants none.

    Raises:
        ChatTemplateError: it takes no messages, or its template refuses these, or leaves one out.
        InvalidRequest: the prompt has no tokens, or a template variable is reserved.
    """
    if clash := sorted(_RESERVED & request.chat_template_kwargs.keys()):
        raise InvalidRequest(f"reserved names: {', '.join(clash)}", field="chat_template_kwargs")
    warnings: tuple[Warned, ...] = ()
    if request.documents:  # what the server's template does with them is not known
        request, warnings = request.with_documents_said(), (Warned.DOCUMENTS_IN_MESSAGE,)
    prompt = await _rendered(calls, request)
    prompt = replace(prompt, warnings=prompt.warnings + warnings)
    is_text = request.prompt is not None and prompt.messages is None and not prompt.opened
    if request.sampling.max_reasoning_tokens == 0 and not is_text:
        [prompt] = await closed(calls, prompt) or [prompt]
    return prompt


async def _rendered(calls: ModelCalls, request: GenerationRequest) -> Prompt:
    server, variables = calls.server, dict(request.chat_template_kwargs)
    may_reason = server.reasons or server.profile.reasons
    if variables.get(EFFORT) == NO_EFFORT and not may_reason:
        del variables[EFFORT]
        request = replace(request, chat_template_kwargs=variables)
    images = dict(images_of(request.messages or ()))
    for field in images:
        refuse_unheeded(field, server.no_images)
    if server.profile.tokenizes and not images:  # images are of chats, never of token ids
        return await _render_ids(calls, request)
    takes_no, such = "the server of the model takes no", "with such a chat"
    if request.tools and not server.calls_tools:
        raise ChatTemplateError(f"{takes_no} tools {such}", field="tools")
    if request.chat_template_kwargs.keys() - {EFFORT}:
        words = f"{takes_no} variables of a chat template {such}"
        raise InvalidRequest(words, field="chat_template_kwargs")
    if request.messages is not None:
        if not server.profile.chats:
            raise ChatTemplateError(f"{takes_no} messages: send `prompt`", field="messages")
        further = {**request.chat_template_kwargs, **_tools_sent(server, request)}
        return Prompt(messages=tuple(map(as_sent, request.messages)), further=further)
    text = request.prompt or ""
    if not text:
        raise InvalidRequest("the prompt has no tokens", field="prompt")
    if server.profile.completes:
        return Prompt(text=text, opened=_ends_in(text, *_STARTS))
    return Prompt(messages=({"role": "user", "content": text},))


def _tools_sent(server: OpenAIServer, request: GenerationRequest) -> dict[str, Any]:
    """The fields of a body for tools; a grammar that is a schema of one call requires one."""
    if not request.tools:
        return {}
    sent: dict[str, Any] = {"tools": list(request.tools)}
    if server.holds_calls(request) and request.grammar is not None:
        schema = json.loads(request.grammar.source)  # see `tool_calls.schema_of_one`
        branches = schema.get("anyOf", [schema])
        allowed = [branch["properties"]["name"]["const"] for branch in branches]
        sent["tool_choice"] = "required"
        if len(allowed) == 1 < len(request.tools):
            sent["tool_choice"] = {"type": "function", "function": {"name": allowed[0]}}
    return sent


async def question(calls: ModelCalls, text: str) -> Prompt:
    """A question as a chat, or as a raw prompt where there are none."""
    if calls.server.profile.chats:
        with suppress(ChatTemplateError):
            messages = ({"role": "user", "content": text},)
            return await render(calls, GenerationRequest(messages=messages))
        calls.server.learn(chats=False)
    return await render(calls, GenerationRequest(prompt=text))


async def tokenize(calls: Calls, text: str) -> tuple[int, ...]:
    """Token ids of a text as it continues another."""
    return await token_ids(calls, prompt=text, add_special_tokens=False) if text else ()


async def _render_ids(calls: ModelCalls, request: GenerationRequest) -> Prompt:
    warnings: tuple[Warned, ...] = ()
    if request.prompt is not None:
        ids = await token_ids(calls, prompt=request.prompt)
        # A prompt that spells out the BOS token would otherwise start with two.
        prefix = calls.server.special_prefix
        if ids[len(prefix) : 2 * len(prefix)] == prefix:
            ids = ids[len(prefix) :]
        opened, field = _ends_in(request.prompt, *_STARTS), "prompt"
    else:
        field = "messages"
        if request.tools:
            await _check_tools(calls, request)
        ids = await _render_chat(calls, request)
        warnings = await _left_out(calls, request)
        if EFFORT in request.chat_template_kwargs:
            await _check_template_reads_effort(calls, request, ids)
        opened = _ends_in(await detokenize(calls, ids[-TAIL:]), *_STARTS)
        if opened:  # a tag that ends a message is text
            ended = await _render_chat(calls, request, add_generation_prompt=False)
            opened = ended[: len(ids)] != ids
    if not ids:
        raise InvalidRequest("the prompt has no tokens", field=field)
    return Prompt(ids=ids, opened=opened, warnings=warnings)


async def closed(calls: ModelCalls, prompt: Prompt) -> list[Prompt]:
    """The prompt with a reasoning that is over, where its model reasons and the server can say so.

    None where the template has ended it already.
    """
    if prompt.messages is not None and calls.server.heeds_no_effort:
        return [replace(prompt, further={**prompt.further, EFFORT: NO_EFFORT})]
    tags, ids = calls.server.tags, prompt.ids
    if tags is None or ids is None or _ends_in(await detokenize(calls, ids[-TAIL:]), tags.end):
        return []
    empty = await tokenize(calls, tags.empty(opened=prompt.opened))
    return [replace(prompt, ids=ids + empty, opened=False)]


async def _check_tools(calls: Calls, request: GenerationRequest) -> None:
    """Refuse tools where the template shows none, or writes calls that are not read here."""
    trial = CallTrial()
    chat = tuple(trial.chat)
    with suppress(ChatTemplateError):
        # One after the other: a new connection would have the server tried out again.
        plain = await _render_chat(calls, replace(request, messages=chat[:1], tools=()))
        offered = await _render_chat(calls, replace(request, messages=chat[:1]))
        called = replace(request, messages=chat)
        ids = await _render_chat(calls, called, add_generation_prompt=False)
        if len(offered) > len(plain):
            prompt, rendered = await detokenize(calls, offered), await detokenize(calls, ids)
            if trial.reads_back(prompt, rendered):
                return
    message = "the chat template of the model's server takes no tools, or writes calls in a format"
    raise ChatTemplateError(f"{message} that is not read here", field="tools")


async def _left_out(calls: Calls, request: GenerationRequest) -> tuple[Warned, ...]:
    """Warnings of what the template leaves out; refuses where that is a message or a call."""
    stand_ins, rendered = StandIns(request), None
    if stand_ins.words:
        with suppress(ChatTemplateError):  # it reads the messages' texts, and has just taken those
            rendered = await detokenize(calls, await _render_chat(calls, stand_ins.request))
    return stand_ins.left_out(rendered)


async def _check_template_reads_effort(
    calls: Calls, request: GenerationRequest, ids: tuple[int, ...]
) -> None:
    """Refuse an effort that changes nothing of the prompt: with another one it is the same."""
    other = "high" if request.chat_template_kwargs[EFFORT] == "low" else "low"
    variables = {**request.chat_template_kwargs, EFFORT: other}
    try:
        changed = await _render_chat(calls, replace(request, chat_template_kwargs=variables))
    except ChatTemplateError:  # the template knows efforts, and this is none of them
        return
    if changed == ids:
        message = f"the chat template of this model does not read {EFFORT}"
        raise InvalidRequest(message, field=EFFORT)


async def _render_chat(
    calls: Calls, request: GenerationRequest, *, add_generation_prompt: bool = True
) -> tuple[int, ...]:
    messages = list(map(dict, request.messages or ()))
    further: dict[str, Any] = {"add_generation_prompt": add_generation_prompt}
    if request.tools:
        further["tools"] = list(request.tools)
    if request.chat_template_kwargs:
        further["chat_template_kwargs"] = dict(request.chat_template_kwargs)
    try:
        return await token_ids(calls, messages=messages, **further)
    except Rejected:
        message = "the server's chat template refused the messages, or it has none"
        raise ChatTemplateError(message, field="messages") from None


async def detokenize(calls: Calls, ids: Sequence[int]) -> str:
    """Text of token ids, special ones among them."""
    reply = await calls.post("/detokenize", {"tokens": list(ids)})
    return shaped(_TEXT, reply, "its text of tokens")["prompt"]


def _ends_in(text: str, *tags: str) -> bool:
    return text.rstrip().endswith(tags)
