"""What a server is, by one look, and what is tried out of it: that on which numbers stand.

Whether log-probs are those of the untouched distribution, whether a reasoning comes before answers,
what ends these; and, once a request needs it, what a schema makes of log-probs.
"""

import logging
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from models.engines.protocol import EngineConfig
from models.engines.texts import tags_in
from models.errors import ChatTemplateError, ModelNotLoaded
from models.grammars import grammar_of
from models.records import GenerationRequest
from workers.calls import Denied, Failed, Rejected, listed_model
from workers.client import Client, Refused, Unreachable
from workers.config import GeneratorConfig, variable
from workers.openai.found import UNKNOWN_CONTEXT, Columns, Fingerprint, OpenAIServer, common
from workers.openai.profiles import (
    GENERIC,
    NO_FORMAT,
    PROFILES,
    UNMASKED,
    Profile,
    by_entry,
    by_host,
)
from workers.openai.prompts import ModelCalls, render, token_ids, tokenize
from workers.openai.replies import ALL_ZERO, Choice, count, first_columns, to_sequence
from workers.openai.requests import Prompt, under_grammar
from workers.openai.streaming import behind_reasoning
from workers.protocol import ProbeInfo

logger = logging.getLogger(__name__)

# Fixed texts, asked of every server; none of them is a client's. Most models answer the first one
# in the same words each time, and few of them equally surely.
_HOUSE, _SUM = "Translate to German: the old house by the river.", "What is 12 + 5 + 7?"
_FINGERPRINT_TOKENS, _BEGINNING_TOKENS = 12, 48
# Statuses of an endpoint that there is not.
_NOT_THERE = (404, 405)
# Likeliest tokens that are compared, and nats by which those of one distribution may differ.
_COMPARED, _NOISE = 5, 0.05
# Laws of draws: where log-probs are not changed by the first, those of samples are raw; where they
# are not by the second, those of a greedy answer are.
_CHANGED = {"temperature": 2.0, "top_p": 1.0, "top_k": 2}
_UNCHANGED = {"temperature": 1.0, "top_p": 1.0, "top_k": 0}
# What of a model's entry says what it is; the rest is of the moment.
_CONTEXTS = ("max_model_len", "context_length", "context_window", "max_context_length")
_TELLING = ("id", "root", "meta", "owned_by", *_CONTEXTS)
_NO_IMAGES = "the server of the model takes no images"
# What the server is held to while a schema is tried out: nobody answers the question so by chance.
_VALUE = '{"word":"cocoa"}'
_SCHEMA = {
    "type": "object",
    "properties": {"word": {"const": "cocoa"}},
    "required": ["word"],
    "additionalProperties": False,
}
# Tokens for it, and for the thoughts before it; and the log-prob of what has to come, at least.
_NUM_TOKENS, _FORCED = 96, -3.0
_NO_LOGPROBS = "the server of the model tells no log-probs under a response_format"
_IGNORED = "the server of the model takes a response_format, and answers otherwise"
# Of the plugin's mode "identity": its page's version, its columns beside probes, and at most.
_FORMAT, _OTHERS, _MOST = 2, 6, 20
_NO_LIGHT = {
    0: "",
    1: "its plugin has no probes",
    2: "vLLM does not show those of this model",
    3: "not with speculative decoding",
    4: "not with pipeline or context parallelism",
    5: "not with its --logprobs-mode",
}


class GeneratorTrial:
    """How an OpenAI-compatible server is found out: see `workers.standing.Kind`.

    Where the deployment names no model, the first that it lists is asked.

    Raises:
        ModelNotLoaded: the deployment names a kind of server that there is not.
    """

    def __init__(self, servers: GeneratorConfig, probes: Mapping[str, ProbeInfo]) -> None:
        if servers.server and servers.server not in PROFILES:
            message = f"must be one of {', '.join(PROFILES)}"
            raise ModelNotLoaded(f"{variable('generation.server')} {message}")
        is_default = servers.model == EngineConfig().model
        self._model = "" if is_default else servers.model
        self._servers = servers
        self._probes = probes
        # As far as the settings and the host's name tell it.
        self._kind = servers.server or by_host(next(iter(servers.urls)), self._model)

    @property
    def profile(self) -> Profile:
        """What is known of it as far as that."""
        return self._profile(self._kind or GENERIC)

    async def look_up(self, client: Client) -> Mapping[str, Any]:
        if not self.profile.lists:
            if not self._model:
                raise Refused(f"{variable('generation.model')} must name its deployment")
            return {"id": self._model}
        entry = await listed_model(self._calls(client, self.profile), self._model)
        return {name: entry.get(name) for name in _TELLING}

    async def try_out(self, client: Client, said: Mapping[str, Any]) -> OpenAIServer:
        kind, look = self._kind or by_entry(said), {}
        for name in [kind] if kind != GENERIC or self._kind else PROFILES:
            if look := await self._look(client, self._profile(name)):
                kind = name
                break
        # The first answer may take as long as a request's: some load their model for it.
        calls = self._calls(client, self._profile(kind), is_trial=False)
        calls.can = self._as_said(calls.can, {"context": self._servers.context, **said}, look)
        calls.can.kind = kind
        if not calls.can.profile.is_hosted or calls.can.profile.logprobs is not None:
            await _try(calls, self._servers.end_token)
        self._bind(calls.can)
        logger.info("the language model's server is %s: tried by %d calls", kind, calls.num_posts)
        return calls.can

    async def ask_again(self, client: Client, known: OpenAIServer) -> OpenAIServer | None:
        if known.fingerprint is None:
            return known
        calls = self._calls(client, known.profile)
        calls.can = known
        prompt, greedy = await _greedy(calls)
        if common(known.fingerprint, _fingerprint(greedy)) is None:
            return None
        if known.columns and await _columns(calls, prompt) != known.columns:
            return None
        return known

    def _profile(self, kind: str) -> Profile:
        profile = PROFILES[kind]
        return replace(profile, prefix="") if self._servers.api_version else profile

    def _calls(self, client: Client, profile: Profile, *, is_trial: bool = True) -> ModelCalls:
        nothing = OpenAIServer("", profile)
        return ModelCalls(client, nothing, is_trial=is_trial)

    async def _look(self, client: Client, profile: Profile) -> dict[str, Any]:
        """What a server of this kind says of itself; nothing where it is none, or says nothing."""
        path, name = profile.look
        if not path:
            return {}
        with suppress(Rejected, Failed, Unreachable, Refused):
            reply = await self._calls(client, profile).get(path)
            if isinstance(reply, Mapping) and name in reply:
                return {**reply, "version": reply[name]}
        return {}

    def _as_said(
        self, can: OpenAIServer, entry: Mapping[str, Any], look: Mapping[str, Any]
    ) -> OpenAIServer:
        """What a server says of itself in the entry of its model, each in its own way."""
        counts = (
            count(entry, "context"),  # that of the settings
            count(look, "default_generation_settings", "n_ctx"),
            count(entry, "meta", "n_ctx"),
            *(count(entry, name) for name in _CONTEXTS),
            count(entry, "meta", "n_ctx_train"),
        )
        if slots := count(look, "total_slots"):
            can.draws_at_most(slots)
        modalities = look.get("modalities")
        sees = not isinstance(modalities, Mapping) or modalities.get("vision", True)
        version = look.get("version")
        return replace(
            can,
            model_id=entry["id"],
            root=str(entry.get("root") or ""),
            version=version if isinstance(version, str) else "",
            max_context_tokens=next(filter(None, counts), UNKNOWN_CONTEXT),
            no_images="" if sees else _NO_IMAGES,
            revision=self._servers.revision,
            is_routed=self._servers.routing == "upstream",
        )

    def _bind(self, can: OpenAIServer) -> None:
        """Remember those of the known probes that the server's plugin reads.

        Raises:
            Refused: its weights have another revision than the deployment says.
        """
        said, columns = can.revision, can.columns
        if columns is None:
            return
        if said and columns.revision and not said.startswith(columns.revision):
            raise Refused("its weights have another revision than the settings say")
        if not columns.no_light:
            can.probes = {name: self._probes[name] for name in columns.places(self._probes)}


async def _try(calls: ModelCalls, end_token: str) -> None:
    """Try a server out."""
    can = calls.can
    prompt, greedy = await _endpoint(calls)
    if can.profile.logprobs is not None and not can.no_greedy:
        first = _first_logprobs([greedy])
        can.raw_samples = _agree(first, await _drawn_first(calls, prompt, _CHANGED))
        can.raw_greedy = can.raw_samples or _agree(
            first, await _drawn_first(calls, prompt, _UNCHANGED)
        )
    if can.profile.is_hosted:  # the same weights answer now so, now otherwise
        return
    await _begin(calls, greedy, end_token)
    if can.profile.tokenizes:
        can.columns = await _columns(calls, prompt)
    if can.no_greedy:
        return
    can.fingerprint = _fingerprint(greedy)
    if can.columns is None:  # as they do at some other servers to some prompts
        _, again = await _greedy(calls)
        can.fingerprint = common(can.fingerprint, _fingerprint(again))


async def _greedy(calls: ModelCalls) -> tuple[Prompt, Choice]:
    """A fixed prompt, and the greedy answer to it."""
    prompt = await render(calls, GenerationRequest(_HOUSE))
    top = calls.can.profile.logprobs
    [choice] = await calls.complete(prompt, max_tokens=_FINGERPRINT_TOKENS, top=top)
    return prompt, choice


def _fingerprint(greedy: Choice) -> Fingerprint:
    mean = None
    if greedy.logprobs is not None and len(greedy.logprobs) and not greedy.unsound:
        mean = float(greedy.logprobs.mean())
    return greedy.text, mean


async def _endpoint(calls: ModelCalls) -> tuple[Prompt, Choice]:
    """Find the endpoint that answers, and tells log-probs if one does, by its first answer."""
    can, profile = calls.can, calls.can.profile
    ways = [(False, True)] * profile.completes + [(False, False)]
    if profile.tokenizes:
        ways.insert(0, (True, True))
    refusal: Exception | None = None
    blind: tuple[Profile, Prompt, Choice] | None = None
    for tokenizes, completes in ways:
        # Log-probs that one endpoint refuses another may tell.
        can.learn(tokenizes=tokenizes, completes=completes, logprobs=profile.logprobs)
        try:
            if tokenizes:
                can.special_prefix = await _ids_of_nothing(calls)
            prompt, greedy = await _greedy(calls)
        except (Rejected, Denied, Failed) as error:
            refusal = refusal or error
            continue
        if tokenizes and greedy.token_ids is None:
            continue
        _look_at_logprobs(can, greedy)
        if tokenizes or can.profile.logprobs is not None or can.unsound:
            return prompt, greedy
        blind = blind or (can.profile, prompt, greedy)
    if blind is None:
        raise Refused(f"it neither completes prompts nor chats ({refusal})")
    can.profile, prompt, greedy = blind
    return prompt, greedy


async def _ids_of_nothing(calls: ModelCalls) -> tuple[int, ...]:
    """What begins a prompt of token ids."""
    try:
        return token_ids(await calls.post("/tokenize", {"prompt": ""}))
    except Unreachable:  # it has another path of this name
        raise Rejected(404, "") from None


def _look_at_logprobs(can: OpenAIServer, greedy: Choice) -> None:
    """What log-probs a greedy answer has; none where they cannot be any."""
    told, can.unsound = greedy.logprobs, greedy.unsound
    if told is not None and not told.any():
        can.unsound = ALL_ZERO
    num: int | None = None
    if told is not None and not can.unsound:
        counts = map(len, (greedy.tops or ({},))[:2])  # tokens may share a text
        num = min(can.profile.logprobs or 0, *counts)
    can.learn(logprobs=num)


async def _drawn_first(
    calls: ModelCalls, prompt: Prompt, law: Mapping[str, Any]
) -> dict[str, float]:
    """Log-probs of first tokens that are drawn so, by names: each draw tells the likeliest."""
    found: list[Choice] = []
    top = min(calls.can.profile.logprobs or 0, _COMPARED)
    for seed in (3,) if top else (3, 4, 5, 6):
        found += await calls.try_complete(prompt, {**law, "seed": seed}, max_tokens=1, top=top)
    return _first_logprobs(found)


def _first_logprobs(choices: list[Choice]) -> dict[str, float]:
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


async def _begin(calls: ModelCalls, greedy: Choice, end_token: str) -> None:
    """Whether it reasons before it answers, and the id that ends its answers.

    Raises:
        Refused: what the settings say that ends them is no token.
    """
    can, most = calls.can, _BEGINNING_TOKENS
    prompt = await _asked(calls, _SUM)
    try:
        [begun] = await calls.complete(prompt, max_tokens=most)
        whole = behind_reasoning(to_sequence(begun), begun, None, opened=prompt.opened)
        can.reasons = whole.reasoning is not None
        if whole.reasoning and begun.reasoning is None and not begun.num_hidden:
            can.tags = tags_in(begun.text, opened=prompt.opened)
        # Of those that reason, a closed reasoning alone ends so soon.
        for closed in await _closed(calls, prompt):
            [begun] = await calls.complete(closed, max_tokens=most)
        for answer in (greedy, begun):
            if answer.ended_by_eos and answer.token_ids:
                can.eos_id = answer.token_ids[-1]
    except (Rejected, Failed) as error:
        if isinstance(error, Rejected) and error.status in _NOT_THERE:
            can.learn(chats=False)
    if end_token and can.profile.tokenizes:
        ids = await tokenize(calls, end_token)
        if len(ids) != 1:
            raise Refused(f"{variable('generation.end_token')} is not one token there")
        [can.eos_id] = ids


async def _asked(calls: ModelCalls, text: str) -> Prompt:
    """A question as a chat, or as a raw prompt where there are none."""
    if calls.can.profile.chats:
        with suppress(ChatTemplateError):
            message = {"role": "user", "content": text}
            return await render(calls, GenerationRequest(messages=(message,)))
        calls.can.learn(chats=False)
    return await render(calls, GenerationRequest(prompt=text))


async def _closed(calls: ModelCalls, prompt: Prompt) -> list[Prompt]:
    """The prompt with a reasoning that is over, where its model reasons and ids can say so."""
    tags = calls.can.tags
    if tags is None or not calls.can.profile.tokenizes:
        return []
    closing = tags.end if prompt.opened else tags.start + tags.end
    return [replace(prompt, ids=(*(prompt.ids or ()), *await tokenize(calls, closing)))]


async def _columns(calls: ModelCalls, prompt: Prompt) -> Columns | None:
    """What the plugin says of itself; None where there is none, or one of another format."""
    top = min(calls.can.profile.logprobs or 0, _MOST)
    if not calls.can.reads_given or top < _OTHERS:
        return None
    choices = await calls.try_complete(prompt, max_tokens=1, top=top, mode="identity")
    told = [column for choice in choices for column in first_columns(choice)]
    if len(told) < _OTHERS or told[1] != _FORMAT:
        return None
    digits = [f"{column:06x}" for column in told[4:]]
    revision, *probes = ["".join(digits[i : i + 2]) for i in range(0, len(digits), 2)]
    if not revision.strip("0"):
        revision = ""
    no_light = _NO_LIGHT.get(told[2], "for a reason that its plugin does not tell")
    return Columns(told[0], revision, tuple(probes), no_light)


async def under_schema(calls: ModelCalls, request: GenerationRequest) -> None:
    """Find out whether it holds texts to a schema, and what that makes of log-probs."""
    can = calls.can
    if not can.needs_schema(request):  # another one has found it out
        return
    top = min(can.profile.logprobs or 0, 1) if can.tells_logprobs else None
    reason, choice = await _held(calls, top)
    if choice is None and top is not None:  # maybe it takes one of the two alone
        reason, _ = await _held(calls, None)
    unmasked = ""
    if top is not None and (choice is None or (choice.logprobs is None and not choice.unsound)):
        unmasked = _NO_LOGPROBS
    elif top is not None and choice is not None and not _is_masked(choice):
        unmasked = UNMASKED
    can.learn(no_grammar=reason, unmasked=unmasked)


def _is_masked(choice: Choice) -> bool:
    """Whether the log-probs of the text that had to come are those among what was allowed."""
    if choice.unsound or choice.tokens is None or choice.logprobs is None:
        return False
    braces = [i for i, token in enumerate(choice.tokens) if "{" in token]
    return bool(braces) and bool((choice.logprobs[braces[-1] :] > _FORCED).all())


async def _held(calls: ModelCalls, top: int | None) -> tuple[str, Choice | None]:
    """Why it does not follow a schema that has one text, "" where it does; and its last answer.

    `top` is how many likeliest tokens are asked for with it; None for no log-probs.
    """
    reason, choice = NO_FORMAT, None
    prompt = await _asked(calls, _HOUSE)
    # Some begin behind a reasoning, which is closed at once where that is possible.
    for asked in (prompt, *await _closed(calls, prompt)):
        held = under_grammar(calls.can, asked, grammar_of(_SCHEMA))
        if not (choices := await calls.try_complete(asked, held, max_tokens=_NUM_TOKENS, top=top)):
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
