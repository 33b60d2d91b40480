"""What a server is, by one look, and what is tried out of it: that on which numbers stand.

Whether log-probs are those of the untouched distribution, whether a reasoning comes before answers,
how a text that exists can be read; and, once a request needs it, what a schema makes of log-probs.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from models.engines.protocol import EngineConfig
from models.errors import ChatTemplateError, ModelNotLoaded
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
from workers.openai.prompts import render, token_ids, tokenize
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
_BEGINNING_TOKENS = 48
# Statuses of an endpoint that there is not.
_NOT_THERE = (404, 405)
# Likeliest tokens that are compared, and nats by which those of one distribution may differ.
_COMPARED, _NOISE = 5, 0.05
# Laws of draws, and of which samples log-probs are raw where they are a greedy answer's.
_LAWS: Mapping[RawLogprobs, Mapping[str, Any]] = {
    "always": {"temperature": 2.0, "top_p": 1.0, "top_k": 2},
    "at_temperature_one": {"temperature": 1.0, "top_p": 1.0, "top_k": 2},
    "never": {"temperature": 1.0, "top_p": 1.0, "top_k": 0},
}
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
            _as_said({"context": settings.context, **said}, kind, look, Tongue(dialect)),
            revision=settings.revision,
            is_routed=settings.routing == "upstream",
        )
        tried = _Trial(client, can)
        if not can.profile.is_hosted or can.logprobs is not None:
            await tried.all(settings.end_token)
        can = with_known(tried.can, self._probes, self._prompts)
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
        if common(known.fingerprint, await tried.fingerprint()) != known.fingerprint:
            return None
        if known.columns and await read_columns(tried.calls, tried.prompts[0]) != known.columns:
            return None
        return known

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
        entry.get("context"),  # that of the settings
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
        self.calls = ModelCalls(client, can, said=(*_PROMPTS, _SUM, _SHORT), **options)
        # The fixed ones, as they were last asked.
        self.prompts: list[Prompt] = []

    @property
    def can(self) -> OpenAIServer:
        """What it is known to do by now."""
        return self.calls.can

    def _set(self, **found: Any) -> None:
        self.calls.can = replace(self.can, **found)

    async def all(self, end_token: str) -> None:
        """Try it out; its fingerprint is what it answers to the fixed prompts."""
        greedy = await self._endpoint()
        if self.can.logprobs is not None and not self.can.no_greedy:
            await self._raw_logprobs(_first(greedy[:1]))
        if self.can.profile.is_hosted:  # the same weights answer now so, now otherwise
            return
        await self._beginnings(end_token)
        if self.can.tokenizes:
            self._set(columns=await read_columns(self.calls, self.prompts[0]))
        if self.can.no_greedy:
            return
        fingerprint = fingerprint_of(greedy, self.can)
        if self.can.columns is None:  # as they do at some other servers to some prompts
            fingerprint = common(fingerprint, await self.fingerprint())
        self._set(fingerprint=fingerprint)

    async def fingerprint(self) -> Fingerprint:
        """What it answers to the fixed prompts."""
        return fingerprint_of(await self._greedy(), self.can)

    async def _greedy(self) -> list[Choice]:
        """Greedy answers to the fixed prompts, by one call."""
        num = len(_PROMPTS) if self.can.tokenizes else 1
        self.prompts = [await render(self.calls, GenerationRequest(one)) for one in _PROMPTS[:num]]
        asked = {"max_tokens": _FINGERPRINT_TOKENS, "top": self.can.logprobs}
        return await self._complete(self.prompts, **asked)

    async def _complete(self, prompts: Sequence[Prompt], **asked: Any) -> list[Choice]:
        """A choice of each prompt, by one call."""
        further = {}
        if self.can.tokenizes:
            further = {"prompt": [list(one.ids or ()) for one in prompts]}
        return await self.calls.complete(prompts[0], len(prompts), further, **asked)

    async def _endpoint(self) -> list[Choice]:
        """Find the endpoint that answers, and tells log-probs if one does, by its first answers."""
        profile, top = self.can.profile, self.can.tongue.dialect.tops
        ways = [(False, True)] * profile.completes + [(False, False)]
        if profile.tokenizes:
            ways.insert(0, (True, True))
        refusal: Exception | None = None
        best: tuple[OpenAIServer, list[Prompt], list[Choice]] | None = None
        for tokenizes, completes in ways:
            # Log-probs that one endpoint refuses another may tell.
            tongue = Tongue(replace(self.can.tongue.dialect, tops=top))
            self._set(tokenizes=tokenizes, completes=completes, logprobs=top, tongue=tongue)
            try:
                if tokenizes:
                    await self._look_at_tokens()
                greedy = await self._greedy()
            except (Rejected, Denied, Failed) as error:
                refusal = refusal or error
                continue
            if tokenizes and greedy[0].token_ids is None:
                continue
            self._look_at(greedy)
            is_best = tokenizes or self.can.logprobs is not None or bool(self.can.unsound)
            if is_best or best is None:
                best = self.can, self.prompts, greedy
            if is_best:
                break
        if best is None:
            raise Refused(f"it neither completes prompts nor chats ({refusal})")
        self.calls.can, self.prompts, greedy = best
        return greedy

    async def _look_at_tokens(self) -> None:
        """What begins a prompt of token ids, and which tags of reasonings are tokens."""
        try:
            prefix = token_ids(await self.calls.post("/tokenize", {"prompt": ""}))
        except Unreachable:  # it has another path of this name
            raise Rejected(404, "") from None
        self._set(special_prefix=prefix, tag_ids=tuple(await tags_in_vocabulary(self.calls)))

    def _look_at(self, greedy: Sequence[Choice]) -> None:
        """What log-probs greedy answers have; none where they cannot be any."""
        told = [one.logprobs for one in greedy if one.logprobs is not None]
        reasons = [one.unsound for one in greedy if one.unsound]
        if told and not any(logprobs.any() for logprobs in told):
            reasons.append(ALL_ZERO)
        num: int | None = None
        if told and not reasons:
            counts = map(len, (greedy[0].tops or ({},))[:2])  # tokens may share a text
            num = min(self.can.tongue.dialect.tops or 0, *counts)
        self._set(logprobs=num, unsound=reasons[0] if reasons else "")

    async def _raw_logprobs(self, greedy: Mapping[str, float]) -> None:
        """Whether log-probs are those of the untouched distribution: of answers, of samples.

        The first token's are compared: two laws that agree cannot both have changed them.
        """
        for raw_samples, law in _LAWS.items():
            if _agree(greedy, await self._first_logprobs(law)):
                self._set(raw_greedy=True, raw_samples=raw_samples)
                return

    async def _first_logprobs(self, law: Mapping[str, Any]) -> dict[str, float]:
        """Log-probs of first tokens that are drawn so, by names: each draw tells the likeliest."""
        found: list[Choice] = []
        top = min(self.can.logprobs or 0, _COMPARED)
        for seed in (3,) if top else (3, 4, 5, 6):
            drawn = {**law, "seed": seed}
            found += await self.calls.try_complete(self.prompts[0], drawn, max_tokens=1, top=top)
        return _first(found)

    async def _beginnings(self, end_token: str) -> None:
        """Whether it reasons before it answers, and the id that ends its answers, by one call.

        Raises:
            Refused: what the settings say that ends them is no token.
        """
        prompts = [await self._asked(_SUM)]
        if self.can.tokenizes:  # of those that reason, a closed reasoning alone ends so soon
            short = await self._asked(_SHORT)
            prompts += [short, *closed(short, self.can), *self.prompts]
        try:
            begun = await self._complete(prompts, max_tokens=_BEGINNING_TOKENS)
            first, opened = begun[0], prompts[0].opened
            whole = behind_reasoning(to_sequence(first), first, None, opened=opened)
            ends = [one.token_ids[-1] for one in begun if one.ended_by_eos and one.token_ids]
            self._set(reasons=whole.reasoning is not None, eos_id=next(iter(ends), None))
        except (Rejected, Failed) as error:
            is_there = not isinstance(error, Rejected) or error.status not in _NOT_THERE
            self._set(chats=self.can.chats and is_there)
        if end_token and self.can.tokenizes:
            ids = await tokenize(self.calls, end_token)
            if len(ids) != 1:
                raise Refused(f"{variable('generation.end_token')} is not one token there")
            self._set(eos_id=ids[0])

    async def _asked(self, text: str) -> Prompt:
        """A question as a chat, or as a raw prompt where there are none."""
        if self.can.chats:
            with suppress(ChatTemplateError):
                return await render(self.calls, _asking(text, is_chat=True))
            self._set(chats=False)
        return await render(self.calls, _asking(text, is_chat=False))


def _asking(text: str, *, is_chat: bool) -> GenerationRequest:
    if is_chat:
        return GenerationRequest(messages=({"role": "user", "content": text},))
    return GenerationRequest(prompt=text)


async def tags_in_vocabulary(calls: ModelCalls) -> list[TagIds]:
    """Those of the known tags that are tokens of their own, by one call."""
    known = (*KNOWN_TAGS, HARMONY)
    text = "".join(tags.start + tags.end for tags in known)
    body = {"prompt": text, "add_special_tokens": False, "return_token_strs": True}
    reply = await calls.post("/tokenize", body)
    ids, spelt = token_ids(reply), reply.get("token_strs") or ()
    found = []
    for tags in known:
        size = _END_TAG_TOKENS.get(tags, 1)
        ends = [i for i in range(len(spelt)) if "".join(spelt[i : i + size]) == tags.end]
        if tags.start in spelt and ends:
            end = ids[ends[0] : ends[0] + size]
            found.append(TagIds(tags, ids[spelt.index(tags.start)], end))
    return found


def closed(prompt: Prompt, can: OpenAIServer) -> list[Prompt]:
    """The prompt with a reasoning that is over, for each way to write one."""
    ids = prompt.ids or ()
    return [replace(prompt, ids=(*ids, one.start, *one.end)) for one in can.tag_ids]


def fingerprint_of(choices: Sequence[Choice], can: OpenAIServer) -> Fingerprint:
    """What the fixed prompts' answers are remembered by."""
    found: list[tuple[str, float | None]] = []
    for choice in choices:
        mean = None
        if can.logprobs is not None and choice.logprobs is not None and len(choice.logprobs):
            mean = float(choice.logprobs.mean())
        found.append((choice.text, mean))
    return tuple(found)


def _first(choices: Sequence[Choice]) -> dict[str, float]:
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
    for asked in (prompt, *closed(prompt, can)):
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
