"""The trial of a server: one look, and calls that try out all that numbers stand on.

That is: the law of log-probs, whether draws are any, whether a reasoning comes before answers, and
the token that ends these. Log-probs under a schema are tried out later (`workers.openai.grammars`).
"""

import logging
import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from models.engines.protocol import EngineConfig
from models.engines.tags import Tags
from models.errors import CocoaError, ModelNotLoaded
from models.records import EFFORT, NO_EFFORT, GenerationRequest, SamplingParams
from workers.calling import Listener
from workers.config import GeneratorConfig, variable
from workers.openai import profiles
from workers.openai.answering import NO_TEXT, OpenAIRequest
from workers.openai.choices import Choice, count, repetition
from workers.openai.found import UNKNOWN_CONTEXT, Fingerprint, OpenAIServer, agree
from workers.openai.logprobs import ALL_ZERO, LEAST_IDENTITY, Columns, identity_in
from workers.openai.profiles import PROFILES, Profile
from workers.openai.prompts import HOUSE, ModelCalls, closed, question, render, token_ids, tokenize
from workers.openai.requests import Prompt
from workers.openai.sequences import behind_reasoning, to_sequence
from workers.protocol import ProbeInfo
from workers.remote.calls import Calls, listed_model
from workers.remote.client import Client, Refused, Unreachable
from workers.remote.refusals import Denied, Failed, Rejected, Unreadable
from workers.remote.standing import is_old

logger = logging.getLogger(__name__)

# Fixed texts, sent to every server as `HOUSE` is.
_SUM, _STORY = "What is 12 + 5 + 7?", "Write a short story."
# Draws of the second one. What repeats is no draw if it is as unlikely as this, in nats; where no
# log-probs are told, if it is as long, in characters.
_DRAWN = SamplingParams(num_samples=2, max_new_tokens=24, top_k=0, seed=3)
_SEVERAL = replace(_DRAWN, num_samples=8, max_new_tokens=48)
_UNLIKELY, _LEAST = -9.2, 32
_FINGERPRINT_TOKENS, _BEGINNING_TOKENS = 12, 48
# Likeliest tokens that are compared, and nats by which those of one distribution may differ.
_COMPARED, _NOISE = 5, 0.05
# Trials that may fail before a failure is taken for a refusal; a server of no known kind has none.
_PATIENCE = 3
# A server that lacks something is tried out anew at so many checks, each a minute after the one
# before, and then at every so many.
_OFTEN, _SELDOM = 10, 60
# Laws of draws: where log-probs are not changed by the first, those of samples are raw; where they
# are not by the second, those of a greedy answer are.
_CHANGED = {"temperature": 2.0, "top_p": 1.0, "top_k": 2}
_UNCHANGED = {"temperature": 1.0, "top_p": 1.0, "top_k": 0}
# Fields that identify a model in its entry; the others change with the moment.
_CONTEXTS = ("max_model_len", "context_length", "context_window", "max_context_length")
_TELLING = ("id", "root", "meta", "owned_by", *_CONTEXTS)


class GeneratorTrial:
    """The trial of an OpenAI-compatible server: see `workers.remote.standing.Kind`.

    Where the deployment names no model, the first that it lists is taken.

    Raises:
        ModelNotLoaded: the deployment names an unknown kind of server.
    """

    def __init__(self, config: GeneratorConfig, probes: Mapping[str, ProbeInfo]) -> None:
        if config.server and config.server not in PROFILES:
            message = f"must be one of {', '.join(PROFILES)}"
            raise ModelNotLoaded(f"{variable('generation.server')} {message}")
        self._model = "" if config.model == EngineConfig().model else config.model
        self._config = config
        self._probes = probes
        self._num_failed = 0  # trials in a row
        self._num_lacking = 0  # checks in a row
        # As far as the settings and the host's name show it.
        self._kind = config.server or profiles.by_host(config.base_url, self._model)
        self.profile = self._profile(self._kind or profiles.GENERIC)  # before the trial

    async def look_up(self, client: Client) -> Mapping[str, Any]:
        if not self.profile.lists:
            if not self._model:
                raise Refused(f"{variable('generation.model')} must name its model")
            return {"id": self._model}
        entry = await listed_model(Calls(client), self._model, f"{self.profile.prefix}/models")
        return {name: entry.get(name) for name in _TELLING}

    async def try_out(self, client: Client, said: Mapping[str, Any]) -> OpenAIServer:
        kind, look = await self._look(client, said)
        server = self._server(kind, said, look)
        most = server.profile.max_samples
        if kind == profiles.GENERIC or self._num_failed >= _PATIENCE:
            server.refusals = (Rejected, Failed)
        calls = ModelCalls(client, server)
        try:
            await _try(calls, self._config.end_token, self._probes)
        except Failed:
            self._num_failed += 1
            raise
        self._num_failed = 0
        # How many samples it refused to draw for the trial is learnt again, as from requests.
        server.tried, server.tried_at = replace(server.profile, max_samples=most), time.monotonic()
        logger.info("the language model's server is %s: tried by %d calls", kind, calls.num_posts)
        return server

    async def ask_again(self, client: Client, known: OpenAIServer) -> OpenAIServer | None:
        kind = self._profile(known.kind)
        if is_old(known.tried_at):
            known.tried_at = time.monotonic()
            known.forget()
            if (better := await self._tried_anew(client, known, kind)) is not None:
                return better
        if known.fingerprint is None:
            return known
        calls = ModelCalls(client, known)
        is_same = False
        with suppress(Rejected):  # what it has taken so far: it is another one
            prompt, greedy = await _greedy(calls)
            if known.profile.logprobs is None and kind.logprobs is not None:  # they may be back
                profile = replace(known.profile, logprobs=1)
                hopeful = ModelCalls(client, replace(known, profile=profile))
                told = await hopeful.try_complete(prompt, max_tokens=_FINGERPRINT_TOKENS, top=1)
                greedy = told or greedy
            is_same = agree(known.fingerprint, _fingerprint(greedy))
            if is_same and known.columns is not None:
                is_same = await columns_of(calls, prompt) == known.columns
        if is_same:
            return known
        self._num_lacking = 0
        return None

    async def _tried_anew(
        self, client: Client, known: OpenAIServer, kind: Profile
    ) -> OpenAIServer | None:
        """A server that lacks something, with more of it; None where there is no more."""
        lacking, num = known.lacks(kind), self._num_lacking + 1
        self._num_lacking = num if lacking else 0
        if not lacking or (num > _OFTEN and num % _SELDOM):
            return None
        with suppress(Failed, Rejected, Refused, Unreachable):
            better = await self.try_out(client, await self.look_up(client))
            if better.lacks(kind) < lacking:
                self._num_lacking = 0
                return better
        return None

    def _profile(self, kind: str) -> Profile:
        profile, url = PROFILES[kind], self._config.base_url
        has_version = self._config.api_version or url.endswith(("/v2", "/v3", "/v4"))
        return replace(profile, prefix="") if has_version else profile

    async def _look(self, client: Client, said: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
        """The kind of a server, and its description of itself where the kind has a path for it."""
        kind = self._kind or profiles.by_entry(said)
        names = [kind]
        if kind == profiles.GENERIC and not self._kind:
            names = list(PROFILES)
        for name in names:
            path, field = PROFILES[name].look
            with suppress(Rejected, Unreachable, Refused):
                reply = await Calls(client).get(path) if path else {}
                if isinstance(reply, Mapping) and field in reply:
                    return name, {**reply, "version": reply[field]}
        return kind, {}

    def _server(self, kind: str, entry: Mapping[str, Any], look: Mapping[str, Any]) -> OpenAIServer:
        """The server by the entry of its model and its description, which differ with the kind."""
        counts = (
            self._config.context,
            count(look, "default_generation_settings", "n_ctx"),
            count(entry, "meta", "n_ctx"),
            *(count(entry, name) for name in _CONTEXTS),
            count(entry, "meta", "n_ctx_train"),
        )
        modalities, version = look.get("modalities"), look.get("version")
        server = OpenAIServer(
            entry["id"],
            self._profile(kind),
            kind=kind,
            root=str(entry.get("root") or ""),
            version=version if isinstance(version, str) else "",
            max_context_tokens=next(filter(None, counts), UNKNOWN_CONTEXT),
            revision=self._config.revision,
            is_routed=self._config.is_routed,
        )
        if isinstance(modalities, Mapping) and not modalities.get("vision", True):
            server.no_images = "the server of the model takes no images"
        if slots := count(look, "total_slots"):
            server.draws_at_most(slots)
        return server


async def _try(calls: ModelCalls, end_token: str, known_probes: Mapping[str, ProbeInfo]) -> None:
    """Try a server out, but a hosted one that returns no log-probs; refuse another revision."""
    server = calls.server
    if server.profile.is_hosted and server.profile.logprobs is None:
        return
    prompt, greedy = await _endpoint(calls)
    if server.profile.logprobs is not None and not server.no_greedy:
        server.raw_samples = await _are_raw_under(_CHANGED, calls, prompt, greedy)
        server.raw_greedy = server.raw_samples or await _are_raw_under(
            _UNCHANGED, calls, prompt, greedy
        )
    if server.profile.is_hosted:  # answers of the same weights differ
        return
    await _begin(calls, greedy, end_token)
    server.draws_repeat = await _draws_repeat(calls)
    if columns := await columns_of(calls, prompt):
        if server.revision and not server.revision.startswith(columns.revision):
            raise Refused("its weights have another revision than the settings say")
        server.columns = columns
        server.probes = {name: known_probes[name] for name in columns.places(known_probes)}
    if server.no_greedy:
        return
    fingerprint = _fingerprint(greedy)
    if server.columns is not None or agree(fingerprint, _fingerprint((await _greedy(calls))[1])):
        server.fingerprint = fingerprint


async def _greedy(calls: ModelCalls) -> tuple[Prompt, Choice]:
    """A fixed prompt, and the greedy answer to it."""
    prompt = await render(calls, GenerationRequest(HOUSE))
    top = calls.server.profile.logprobs
    [choice] = await calls.complete(prompt, max_tokens=_FINGERPRINT_TOKENS, top=top)
    return prompt, choice


def _fingerprint(greedy: Choice) -> Fingerprint:
    mean = None
    if greedy.logprobs is not None and greedy.logprobs.any() and not greedy.unsound:
        mean = float(greedy.logprobs.mean())
    return greedy.text, mean


async def _endpoint(calls: ModelCalls) -> tuple[Prompt, Choice]:
    """Try endpoints, and keep one with log-probs if there is one; its first prompt and answer."""
    server, profile = calls.server, calls.server.profile
    ways = [(True, True)] * profile.tokenizes
    ways += [(False, True)] * profile.completes + [(False, False)]
    refusal: Exception | None = None
    refusals: tuple[type[Exception], ...] = (*server.refusals, Denied, Unreadable)
    blind: tuple[Profile, Prompt, Choice] | None = None
    for tokenizes, completes in ways:
        # Log-probs that one endpoint refuses another may return.
        server.learn(tokenizes=tokenizes, completes=completes, logprobs=profile.logprobs)
        try:
            if tokenizes:
                server.special_prefix = await token_ids(calls, prompt="")
            prompt, greedy = await _greedy(calls)
        except refusals as error:
            if isinstance(error, Unreadable) and not tokenizes:  # else another path of this name
                raise
            refusal = error  # the last one is of chats, which most have
            continue
        if tokenizes and greedy.token_ids is None:
            continue
        _look_at_logprobs(server, greedy)
        if tokenizes or server.profile.logprobs is not None or server.unsound:
            return prompt, greedy
        blind = blind or (server.profile, prompt, greedy)
    if blind is None:
        raise Refused(f"it neither completes prompts nor chats ({refusal})")
    server.profile, prompt, greedy = blind
    return prompt, greedy


def _look_at_logprobs(server: OpenAIServer, greedy: Choice) -> None:
    """Remember the number of likeliest tokens; None where the log-probs are missing or invalid."""
    logprobs, server.unsound = greedy.logprobs, greedy.unsound
    if logprobs is not None and not logprobs.any():
        server.unsound = ALL_ZERO
    num: int | None = None
    if logprobs is not None and not server.unsound:
        counts = map(len, (greedy.tops or ({},))[:2])  # tokens may share a text
        num = min(server.profile.logprobs or 0, *counts)
    server.learn(logprobs=num)


async def _are_raw_under(
    law: Mapping[str, Any], calls: ModelCalls, prompt: Prompt, greedy: Choice
) -> bool:
    """True where a law of draws leaves log-probs as they are, by first tokens that both returned.

    False where no token is in both replies. Those behind a prompt that a server has kept may be
    others than as it was read (llama.cpp, by .2), so that in doubt it is asked once more.
    """
    drawn: dict[str, float] = {}
    top = min(calls.server.profile.logprobs or 0, _COMPARED)
    for seed in (3,) if top else (3, 4, 5, 6):  # each draw adds the likeliest
        if choice := await calls.try_complete(prompt, {**law, "seed": seed}, max_tokens=1, top=top):
            drawn |= _first_logprobs(choice)
    if _are_alike(_first_logprobs(greedy), drawn):
        return True
    _, again = await _greedy(calls)
    return _are_alike(_first_logprobs(again), drawn)


def _are_alike(untouched: Mapping[str, float], drawn: Mapping[str, float]) -> bool:
    shared = untouched.keys() & drawn.keys()
    return bool(shared) and all(abs(untouched[one] - drawn[one]) <= _NOISE for one in shared)


def _first_logprobs(choice: Choice) -> dict[str, float]:
    """Log-probs of the first token and of the likeliest in its place, by name."""
    logprobs = dict((choice.tops or ({},))[0])
    if choice.tokens and choice.logprobs is not None:
        logprobs[choice.tokens[0]] = float(choice.logprobs[0])
    return logprobs


async def _begin(calls: ModelCalls, greedy: Choice, end_token: str) -> None:
    """Remember whether it reasons before it answers, and the id that ends its answers."""
    server, most = calls.server, _BEGINNING_TOKENS
    prompt = await question(calls, _SUM)
    try:
        [begun] = await calls.complete(prompt, max_tokens=most)
        server.reasons = _has_reasoned(begun, opened=prompt.opened)
        if server.reasons and prompt.messages is not None:
            quiet = await calls.try_complete(prompt, {EFFORT: NO_EFFORT}, max_tokens=most)
            server.heeds_no_effort = quiet is not None and not _has_reasoned(quiet)
        if server.reasons and begun.reasoning is None and not begun.num_hidden:
            server.tags = Tags.known_in(begun.text, opened=prompt.opened)
        # Of those that reason, a closed reasoning alone ends so soon.
        for one in await closed(calls, prompt):
            [begun] = await calls.complete(one, max_tokens=most)
        for answer in (greedy, begun):
            if answer.ended_by_eos and answer.token_ids:
                server.eos_id = answer.token_ids[-1]
    except server.refusals as error:
        if isinstance(error, Rejected) and error.status in (404, 405):  # there is no such endpoint
            server.learn(chats=False)
    if end_token and server.profile.tokenizes:
        ids = await tokenize(calls, end_token)
        if len(ids) != 1:
            raise Refused(f"{variable('generation.end_token')} is not one token there")
        [server.eos_id] = ids


def _has_reasoned(choice: Choice, *, opened: bool = False) -> bool:
    whole = behind_reasoning(to_sequence(choice), choice, None, opened=opened)
    return whole.reasoning is not None


async def _draws_repeat(calls: ModelCalls) -> bool:
    """True where draws of a text that no model knows by heart are all the same at an endpoint.

    Two that are alike are made again, longer and more often, and held to the log-probs that are
    told of them; where there are none, to the length of the text.
    """
    profile, story = calls.server.profile, ({"role": "user", "content": _STORY},)
    refusals: tuple[type[Exception], ...] = (*calls.server.refusals, CocoaError)
    asked = GenerationRequest(
        statistics=frozenset({"sample_texts", "sample_token_logprobs"}),
        answer=NO_TEXT,  # no greedy one is written beside the draws
    )
    ways = [replace(asked, messages=story)] * profile.chats
    ways += [replace(asked, prompt=_STORY)] * (not profile.chats or not profile.tokenizes)
    for way in ways[: 1 + profile.completes]:
        for law in (_DRAWN, _SEVERAL):
            request = OpenAIRequest(calls, replace(way, sampling=law), Listener(None))
            try:
                await request.run(calls.server.info)
            except refusals:
                return False
            nats = repetition(request.draws, law.temperature)
            if nats is None:
                break
            length = len(request.draws[0].text + (request.draws[0].reasoning or ""))
            if nats < _UNLIKELY or (law is _SEVERAL and math.isnan(nats) and length >= _LEAST):
                return True
    return False


async def columns_of(calls: ModelCalls, prompt: Prompt) -> Columns | None:
    """The plugin's description of itself; None where there is none, or one of another format."""
    top = calls.server.profile.logprobs or 0
    if not calls.server.reads_given or top < LEAST_IDENTITY:
        return None
    choice = await calls.try_complete(prompt, max_tokens=1, top=top, mode="identity")
    if choice is None:
        return None
    return identity_in(choice.tops)
