"""What a server is, by one look, and what is tried out of it: that on which numbers stand.

Whether log-probs are those of the untouched distribution, whether a reasoning comes before answers,
how a text that exists can be read; and, once a request needs it, what a schema makes of log-probs.
"""

import logging
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

from models.engines.protocol import EngineConfig
from models.errors import ModelNotLoaded
from models.grammars import grammar_of
from models.records import GenerationRequest
from models.units.reasoning import HARMONY, KNOWN_TAGS
from workers.calls import Denied, Failed, Rejected, listed_model
from workers.client import Client, Refused, Unreachable
from workers.config import OpenAIServers, variable
from workers.openai.columns import read_columns, with_known
from workers.openai.dialect import Dialect, Tongue
from workers.openai.found import (
    LARGEST_VOCABULARY,
    UNKNOWN_CONTEXT,
    Fingerprint,
    OpenAIServer,
    RawLogprobs,
    TagIds,
    common,
)
from workers.openai.model_calls import ModelCalls
from workers.openai.profiles import GENERIC, PROFILES, Profile, by_entry, by_host
from workers.openai.prompts import detokenize, render, token_ids, tokenize
from workers.openai.reasoning import behind_reasoning
from workers.openai.replies import Choice, to_sequence
from workers.openai.requests import Prompt, under_grammar
from workers.openai.soundness import ALL_ZERO, UNMASKED
from workers.protocol import ProbeInfo

logger = logging.getLogger(__name__)

# Fixed texts, asked of every server; none of them is a client's. Where the server takes token ids,
# all of them go with one call; else the first stands for them.
_FRANCE = "What is the capital of France?"
_PROMPTS = (
    _FRANCE,
    "The three primary colours are",
    "Translate to German: the old house by the river.",
)
_SUM, _SHORT = "What is 12 + 5 + 7?", "Reply with one word: yes or no?"
_FINGERPRINT_TOKENS = 12
_END_TOKENS = 48
# Likeliest tokens that are compared, and nats by which those of one distribution may differ.
_COMPARED, _NOISE = 5, 0.05
# Laws of draws, the narrowest first, whose log-probs are compared with a greedy answer's.
_HOT: Mapping[str, Any] = {"temperature": 2.0, "top_p": 1.0, "top_k": 2}
_NARROW, _WHOLE = {**_HOT, "temperature": 1.0}, {**_HOT, "temperature": 1.0, "top_k": 0}
# What of a model's entry says what it is; the rest is of the moment.
_TELLING = ("id", "root", "max_model_len", "meta", "context_length", "context_window", "owned_by")
_NO_IMAGES = "the server of the model takes no images"
# What the server is held to while a schema is tried out: nobody answers the question so by chance.
_VALUE = '{"word":"cocoa"}'
_SCHEMA = {
    "type": "object",
    "properties": {"word": {"const": "cocoa"}},
    "required": ["word"],
    "additionalProperties": False,
}
# Tokens for it, and for the thoughts before it.
_NUM_TOKENS = 96
# Likeliest tokens that are asked for with it, and log-probs of what cannot and of what has to come.
_TOP, _UNLIKELY, _FORCED = 5, -20.0, -3.0
_NO_LOGPROBS = "the server of the model tells no log-probs under a response_format"
_REFUSED = "the server of the model takes no response_format"
_IGNORED = "the server of the model takes a response_format, and answers otherwise"
# Tokens of an end tag, where it is not one.
_END_TAG_TOKENS = {HARMONY: 3}


class GeneratorTrial:
    """How an OpenAI-compatible server is found out: see `workers.standing.Kind`.

    Attributes:
        unknown_fingerprints: `system_fingerprint`s of replies that nobody knows yet.

    Args:
        servers: what the deployment says of it; without a model the first that it lists is asked.
        probes: that this deployment knows, by the statistic that each predicts.
        prompts: sha256 of its calibration's prompts; "" for none.

    Raises:
        ModelNotLoaded: the deployment names a kind of server that there is not.
    """

    def __init__(
        self, servers: OpenAIServers, probes: Mapping[str, ProbeInfo], prompts: str
    ) -> None:
        if servers.server and servers.server not in PROFILES:
            message = f"must be one of {', '.join(PROFILES)}"
            raise ModelNotLoaded(f"{variable('generation.server')} {message}")
        self.unknown_fingerprints: frozenset[str] = frozenset()
        is_default = servers.model == EngineConfig().model
        self._model = "" if is_default else servers.model
        self._servers = servers
        self._probes = probes
        self._prompts = prompts
        # As far as the settings and the host's name tell it.
        self._kind = servers.server or by_host(next(iter(servers.urls)), self._model)

    @property
    def profile(self) -> Profile:
        """What is known of it as far as that."""
        return PROFILES[self._kind or GENERIC]

    async def look_up(self, client: Client) -> Mapping[str, Any]:
        if not self.profile.lists:
            if not self._model:
                raise Refused(f"{variable('generation.model')} must name its deployment")
            return {"id": self._model}
        entry = await listed_model(self._calls(client, self._kind), self._model)
        return {name: entry.get(name) for name in _TELLING}

    async def try_out(self, client: Client, said: Mapping[str, Any]) -> OpenAIServer:
        settings, kind, look = self._servers, self._kind or by_entry(said), {}
        for name in [kind] if kind != GENERIC or self._kind else PROFILES:
            if look := await self._look(client, name):
                kind = name
                break
        dialect = self._dialect(kind)
        if type(slots := look.get("total_slots")) is int and slots > 0:
            dialect = replace(dialect, most_samples=slots)
        can = replace(
            _as_said(said, kind, look, Tongue(dialect)),
            revision=settings.revision,
            is_routed=settings.routing == "upstream",
        )
        if settings.context:
            can = replace(can, max_context_tokens=settings.context)
        tried = _Trial(client, can)
        if not can.profile.is_hosted or can.logprobs is not None:
            await tried.all(settings.end_token)
        can = replace(tried.can, system_fingerprints=frozenset(tried.calls.system_fingerprints))
        can = with_known(can, self._probes, self._prompts)
        price = kind, tried.calls.num_posts, tried.calls.num_tokens
        logger.info("the language model's server is %s: looked at by %d calls, %d tokens", *price)
        found = ", ".join(f"{name}={one}" for name, one in can.told.items() if one)
        logger.info("it can: %s", found)
        lacks = {**can.absent, "response_format": can.no_grammar, "images": can.no_images}
        words = [f"{name}: {reason}" for name, reason in sorted(lacks.items()) if reason]
        logger.info("it cannot: %s", "; ".join(words))
        return can

    async def ask_again(self, client: Client, known: OpenAIServer) -> OpenAIServer | None:
        if not known.fingerprint:
            return known
        tongue = Tongue(known.tongue.dialect)
        tried = _Trial(client, replace(known, tongue=tongue), is_trial=True)
        await tried.set_prompts()
        if common(known.fingerprint, await tried.fingerprint()) != known.fingerprint:
            return None
        if known.columns and await read_columns(tried.calls, tried.prompt) != known.columns:
            return None
        words = self.unknown_fingerprints.union(tried.calls.system_fingerprints)
        self.unknown_fingerprints = frozenset()
        return replace(known, system_fingerprints=known.system_fingerprints | words)

    def _dialect(self, kind: str) -> Dialect:
        dialect = Dialect.of(PROFILES[kind or GENERIC])
        return replace(dialect, prefix="") if self._servers.api_version else dialect

    def _calls(self, client: Client, kind: str) -> ModelCalls:
        nothing = OpenAIServer("", Tongue(self._dialect(kind)))
        return ModelCalls(client, nothing, is_trial=True)

    async def _look(self, client: Client, kind: str) -> dict[str, Any]:
        """What a server of this kind says of itself; nothing where it is none, or says nothing."""
        path, name = PROFILES[kind].look
        if not path:
            return {}
        with suppress(Rejected, Failed, Unreachable, Refused):
            reply = await self._calls(client, kind).get(path)
            if isinstance(reply, Mapping) and name in reply:
                return {**reply, "version": reply[name]}
        return {}


def _as_said(
    entry: Mapping[str, Any], kind: str, look: Mapping[str, Any], tongue: Tongue
) -> OpenAIServer:
    """What a server says of itself in the entry of its model, each in its own way."""
    meta, profile = _mapping(entry.get("meta")), PROFILES[kind]
    counts = (
        entry.get("max_model_len"),
        _mapping(look.get("default_generation_settings")).get("n_ctx"),
        meta.get("n_ctx"),
        entry.get("context_length"),
        entry.get("context_window"),
        meta.get("n_ctx_train"),
    )
    sees = profile.images and _mapping(look.get("modalities")).get("vision", True)
    version, no_grammar, unmasked = look.get("version"), None, None
    if not profile.formats:
        no_grammar = _REFUSED
    elif profile.logprobs is None:
        no_grammar = unmasked = ""
    return OpenAIServer(
        model_id=entry["id"],
        tongue=tongue,
        root=str(entry.get("root") or ""),
        kind=kind,
        version=version if isinstance(version, str) else "",
        max_context_tokens=_first_count(*counts, UNKNOWN_CONTEXT),
        vocabulary_size=_first_count(meta.get("n_vocab"), LARGEST_VOCABULARY),
        completes=profile.completes,
        chats=profile.chats,
        logprobs=profile.logprobs,
        no_grammar=no_grammar,
        unmasked=unmasked,
        no_images="" if sees else _NO_IMAGES,
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _first_count(*said: Any) -> int:
    """The first of these that is a positive integer, which the last one is."""
    return next(one for one in said if type(one) is int and one > 0)


class _Trial:
    """One server while it is tried out; each step adds to what it is known to do."""

    def __init__(self, client: Client, can: OpenAIServer, **options: Any) -> None:
        self.calls = ModelCalls(client, can, said=_PROMPTS, **options)
        self.prompt = Prompt()
        self._fixed: list[Prompt] = []
        self._greedy: list[Choice] = []

    async def all(self, end_token: str) -> None:
        """Try it out; its fingerprint is what it answers to the fixed prompts."""
        fingerprint, hosted = await self._endpoints(), self.can.profile.is_hosted
        self._set(tag_ids=await self._tag_ids() if self.can.tokenizes else ())
        asked, free = (self.prompt, None) if hosted else await self._sum_answer()
        if not self.can.no_greedy:
            await self._raw_logprobs()
        scoring = self.can.profile.scoring if self.can.tells_logprobs else "none"
        if scoring == "prompt_logprobs" and not self.can.tokenizes:
            scoring = "echo"
        if scoring == "echo" and not (self.can.completes and await self._echoes()):
            scoring = "none"
        self._set(scoring=scoring)
        if self.can.tokenizes:
            self._set(eos_id=await self._eos_id(free, end_token))
        if free is not None:
            whole = behind_reasoning(to_sequence(free), free, None, opened=asked.opened)
            self._set(reasons=whole.reasoning is not None)
        if self.can.profile.tokenizes:
            self._set(columns=await read_columns(self.calls, self.prompt))
        if hosted or self.can.no_greedy:  # the same weights answer now so, now otherwise
            return
        if self.can.columns is None:  # as they do at some other servers to some prompts
            fingerprint = common(fingerprint, await self.fingerprint())
        self._set(fingerprint=fingerprint)

    async def set_prompts(self) -> None:
        """Render the fixed prompts."""
        num = len(_PROMPTS) if self.can.tokenizes else 1
        self._fixed = []
        for text in _PROMPTS[:num]:
            self._fixed.append(await render(self.calls, GenerationRequest(text)))
        self.prompt = self._fixed[0]

    async def fingerprint(self) -> Fingerprint:
        """Greedy answers to the fixed prompts, by one call."""
        asked = {"max_tokens": _FINGERPRINT_TOKENS, "top": self.can.logprobs}
        further = {}
        if self.can.tokenizes:
            further = {"prompt": [list(prompt.ids or ()) for prompt in self._fixed]}
        self._greedy = await self.calls.complete(self.prompt, len(self._fixed), further, **asked)
        found: list[tuple[str, float | None]] = []
        for choice in self._greedy:
            logprobs, mean = choice.logprobs, None
            if self.can.logprobs is not None and logprobs is not None and len(logprobs):
                mean = float(logprobs.mean())
            found.append((choice.text, mean))
        return tuple(found)

    @property
    def can(self) -> OpenAIServer:
        """What it is known to do by now."""
        return self.calls.can

    def _set(self, **found: Any) -> None:
        self.calls.can = replace(self.can, **found)

    async def _endpoints(self) -> Fingerprint:
        """Find the way that answers, and tells log-probs if one does: the first answers show it."""
        refusal: Exception | None = None
        found: tuple[OpenAIServer, list[Prompt], Fingerprint] | None = None
        for way in self._ways():
            self._set(tokenizes=way == "ids", completes=way != "chats")
            self._set(logprobs=self.can.tongue.dialect.tops)
            try:
                if self.can.tokenizes:
                    self._set(**await self._tokens())
                await self.set_prompts()
                fingerprint = await self.fingerprint()
            except (Rejected, Denied, Failed) as error:
                refusal = refusal or error
                continue
            if self.can.tokenizes and self._greedy[0].token_ids is None:
                continue
            self._look_at_greedy()
            is_best = self.can.logprobs is not None or bool(self.can.unsound)
            if is_best or found is None:
                found = self.can, self._fixed, fingerprint
            if is_best or self.can.tokenizes:
                break
        if found is None:
            raise Refused(f"it neither completes prompts nor chats ({refusal})")
        self.calls.can, self._fixed, fingerprint = found
        self.prompt = self._fixed[0]
        return fingerprint

    def _ways(self) -> list[Literal["ids", "texts", "chats"]]:
        """Ways to ask it, the richest first."""
        profile = self.can.profile
        if profile.tokenizes:
            return ["ids", "texts", "chats"]
        return ["texts", "chats"] if profile.completes else ["chats"]

    async def _tokens(self) -> dict[str, Any]:
        message = {"role": "user", "content": "Hello"}
        chat = {"messages": [message], "add_generation_prompt": True}
        reply = await self.calls.post("/tokenize", {"prompt": ""})
        try:
            prefix = token_ids(reply)
        except Unreachable:  # it has another path of this name
            raise Rejected(404, "") from None
        try:
            chats = bool(token_ids(await self.calls.post("/tokenize", chat)))
        except Rejected:
            chats = False
        return {"special_prefix": prefix, "chats": chats}

    async def _tag_ids(self) -> tuple[TagIds, ...]:
        """Those of the known tags that are tokens of their own."""
        calls, found = self.calls, []
        for tags in (*KNOWN_TAGS, HARMONY):
            if len(start := await tokenize(calls, tags.start)) != 1:
                continue
            end = await tokenize(calls, tags.end)
            is_known = len(end) == _END_TAG_TOKENS.get(tags, 1)
            if not is_known or await detokenize(calls, end) != tags.end:
                continue  # what the vocabulary does not know may be one token, too
            allowed = {"allowed_token_ids": list(start)}
            for choice in await calls.try_complete(self.prompt, allowed, max_tokens=1):
                found.append(TagIds(tags, start[0], end, are_special=not choice.text))
        return tuple(found)

    def _look_at_greedy(self) -> None:
        """What log-probs greedy answers have; none where they cannot be any."""
        told = [one.logprobs for one in self._greedy if one.logprobs is not None]
        reasons = [one.unsound for one in self._greedy if one.unsound]
        if told and not any(logprobs.any() for logprobs in told):
            reasons.append(ALL_ZERO)
        num: int | None = None
        if told and not reasons:
            counts = map(len, (self._greedy[0].tops or ({},))[:2])  # tokens may share a text
            num = min(self.can.tongue.dialect.tops or 0, *counts)
        self._set(logprobs=num, unsound=reasons[0] if reasons else "")

    async def _sum_answer(self) -> tuple[Prompt, Choice | None]:
        """How it begins to answer a sum, which a model that reasons thinks about."""
        for chats in (True, False) if self.can.chats else (False,):
            self._set(chats=chats)
            prompt = await render(self.calls, _asking(_SUM, is_chat=chats))
            if choices := await self.calls.try_complete(prompt, max_tokens=_END_TOKENS):
                return prompt, choices[0]
        return self.prompt, None

    async def _raw_logprobs(self) -> None:
        """Whether log-probs are those of the untouched distribution: of answers, of samples.

        The first token's are compared: two laws that agree cannot both have changed them.
        """
        if self.can.logprobs is None:
            return
        greedy = _first(self._greedy[:1])
        raw_greedy = True
        raw_samples: RawLogprobs = "always"
        if not _agree(greedy, await self._first_logprobs(_HOT)):
            raw_samples = "at_temperature_one"
            narrow = await self._first_logprobs(_NARROW)
            if not _agree(greedy, narrow):
                whole = await self._first_logprobs(_WHOLE)
                raw_greedy = _agree(whole, greedy)
                if not _agree(whole, narrow):
                    raw_samples = "never"
        self._set(raw_greedy=raw_greedy, raw_samples=raw_samples)

    async def _echoes(self) -> bool:
        text, asked = self.prompt.text or "", {"max_tokens": 1, "top": self.can.logprobs}
        choices = await self.calls.try_complete(self.prompt, {"echo": True}, **asked)
        tokens = "".join((choices[0].tokens or ()) if choices else ())
        return bool(choices) and choices[0].text.startswith(text) and len(tokens) >= len(text)

    async def _eos_id(self, free: Choice | None, end_token: str) -> int | None:
        """The id that ends answers: that of the settings, or of an answer that ends.

        Raises:
            Refused: what the settings say is no token.
        """
        if end_token:
            ids = await tokenize(self.calls, end_token)
            if len(ids) != 1:
                raise Refused(f"{variable('generation.end_token')} is not one token there")
            return ids[0]
        # A reasoning may take longer than these few tokens, and is closed at once then.
        prompts, found = list(self._fixed), [] if free is None else [free]
        if self.can.chats:  # which most models end soonest
            prompts.insert(0, await render(self.calls, _asking(_SHORT, is_chat=True)))
        for closed in (None, (), *((one.start, *one.end) for one in self.can.tag_ids)):
            if closed is not None:
                asked = [[*(prompt.ids or ()), *closed] for prompt in prompts]
                most = {"max_tokens": _END_TOKENS}
                found = await self.calls.complete(prompts[0], len(asked), {"prompt": asked}, **most)
            for choice in found:
                if choice.ended_by_eos and choice.token_ids:
                    return choice.token_ids[-1]
        return None

    async def _first_logprobs(self, law: Mapping[str, Any]) -> dict[str, float]:
        """Log-probs of first tokens that are drawn so, by names: each draw tells the likeliest."""
        found: list[Choice] = []
        top = min(self.can.logprobs or 0, _COMPARED)
        for seed in (3,) if top else (3, 4, 5, 6):
            drawn = {**law, "seed": seed}
            found += await self.calls.try_complete(self.prompt, drawn, max_tokens=1, top=top)
        return _first(found)


def _asking(text: str, *, is_chat: bool) -> GenerationRequest:
    if is_chat:
        return GenerationRequest(messages=({"role": "user", "content": text},))
    return GenerationRequest(prompt=text)


def _first(choices: list[Choice]) -> dict[str, float]:
    """Log-probs of first tokens by their names."""
    found: dict[str, float] = {}
    for choice in choices:
        found |= (choice.tops or ({},))[0]
        if choice.tokens and choice.logprobs is not None:
            found[choice.tokens[0]] = float(choice.logprobs[0])
    return found


def _agree(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    """Whether the log-probs that both know are the same; where they share none, they are not."""
    shared = one.keys() & other.keys()
    return bool(shared) and all(math.isclose(one[n], other[n], abs_tol=_NOISE) for n in shared)


async def under_schema(
    calls: ModelCalls, request: GenerationRequest, can: OpenAIServer
) -> OpenAIServer:
    """What the server can, `no_grammar` and `unmasked` included, if the request needs to know."""
    if not can.needs_schema(request):  # another one has found it out
        return can
    calls.can = can
    top = min(can.logprobs or 0, _TOP) if can.tells_logprobs else None
    reason, choice = await _held(calls, top)
    if choice is None and top is not None:  # maybe it takes one of the two alone
        reason, _ = await _held(calls, None)
    unmasked = "" if top is None or (choice is not None and _is_masked(choice)) else UNMASKED
    if unmasked and (choice is None or (choice.logprobs is None and not choice.unsound)):
        unmasked = _NO_LOGPROBS
    return replace(can, no_grammar=reason, unmasked=unmasked)


def _is_masked(choice: Choice) -> bool:
    """Whether the log-probs of the text that had to come are those among what was allowed.

    They are where nothing else is likely in the place of its brace.
    """
    if choice.unsound or choice.tokens is None or choice.logprobs is None:
        return False
    places = [i for i, token in enumerate(choice.tokens) if "{" in token]
    if not places:
        return False
    tops = choice.tops[places[-1]] if choice.tops else {}
    if len(tops) < 2:  # the chosen one alone
        return bool((choice.logprobs[places[-1] :] > _FORCED).all())
    likely = [name for name, one in tops.items() if one > _UNLIKELY]
    return all(not name.strip() or name.lstrip().startswith("{") for name in likely)


async def _held(calls: ModelCalls, top: int | None) -> tuple[str, Choice | None]:
    """Why it does not follow a schema that has one text, "" where it does; and its last answer.

    `top` is how many likeliest tokens are asked for with it; None for no log-probs.
    """
    can, reason, choice = calls.can, _REFUSED, None
    prompt = await render(calls, _asking(_FRANCE, is_chat=can.chats))
    # Some begin behind a reasoning, which is closed at once where that is possible.
    for closed in ((), *((one.start, *one.end) for one in can.tag_ids)):
        asked = prompt
        if closed:
            asked = replace(prompt, ids=(*(prompt.ids or ()), *closed))
        held = under_grammar(can, asked, grammar_of(_SCHEMA))
        choices = await calls.try_complete(
            asked, held, max_tokens=_NUM_TOKENS, top=top, by_text=True
        )
        if not choices:
            break
        [choice] = choices
        if _is_held(choice.text):
            return "", choice
        reason = _IGNORED
    return reason, choice


def _is_held(text: str) -> bool:
    """Whether an answer is the one valid value, as far as it came; a reasoning aside.

    A model may fill its tokens with the blanks that JSON leaves open.
    """
    _, begin, rest = text.rpartition("{")
    written = "".join((begin + rest).split())
    return bool(begin) and _VALUE.startswith(written)
