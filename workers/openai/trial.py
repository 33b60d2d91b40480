"""Trying a server out: small requests that show what it really does, whatever it says of itself."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import httpx

from models.engines.protocol import EngineConfig
from models.records import GenerationRequest
from workers.calls import Calls, Failed, Rejected, listed_model
from workers.client import Refused, Unreachable
from workers.config import OpenAIServers
from workers.openai.capabilities import (
    Capabilities,
    Fingerprint,
    OpenAIServer,
    RawLogprobs,
    Scoring,
)
from workers.openai.columns import check_revision, probes_read, prompts_read, read_columns
from workers.openai.formats import no_grammar, no_lark
from workers.openai.images import no_images
from workers.openai.limiting import no_reasoning_limit
from workers.openai.prompts import render, token_ids
from workers.openai.replies import Choice, read_choices
from workers.openai.requests import EXTRAS, Prompt, completion
from workers.openai.said import as_said
from workers.openai.tags import read_tag_ids
from workers.protocol import ProbeInfo

# Fixed texts, asked of every server; none of them is a client's.
_PROMPTS = (
    "What is the capital of France?",
    "The three primary colours are",
    "Translate to German: the old house by the river.",
)
_SHORT = {"role": "user", "content": "Reply with one word: yes or no?"}
# What of a model's entry says what it is; the rest is of the moment.
_TELLING = ("id", "root", "max_model_len", "meta", "context_length", "context_window")
_FINGERPRINT_TOKENS = 12
_END_TOKENS = 48
# How many likeliest tokens to ask for, as servers have limits of their own.
_TOPS = (100, 20, 10, 5, 4, 2, 1, 0)
# Nats by which log-probs of one distribution may differ between two calls.
_NOISE = 0.05


class GeneratorTrial:
    """How an OpenAI-compatible server is tried out: see `workers.standing.Trial`.

    Attributes:
        unknown_fingerprints: `system_fingerprint`s of replies that nobody knows yet.

    Args:
        servers: what the deployment says of it; without a model the first that it lists is asked.
        probes: that this deployment knows, by the statistic that each predicts.
        prompts: sha256 of its calibration's prompts; "" for none.
    """

    def __init__(
        self, servers: OpenAIServers, probes: Mapping[str, ProbeInfo], prompts: str
    ) -> None:
        self.unknown_fingerprints: frozenset[str] = frozenset()
        is_default = servers.model == EngineConfig().model
        self._model = "" if is_default else servers.model
        self._servers = servers
        self._probes = probes
        self._prompts = prompts

    async def look_up(self, client: httpx.AsyncClient) -> Mapping[str, Any]:
        entry = await listed_model(Calls(client, is_trial=True), self._model)
        return {name: entry.get(name) for name in _TELLING}

    async def try_out(self, client: httpx.AsyncClient, said: Mapping[str, Any]) -> OpenAIServer:
        can = as_said(said, await _version(client))
        if self._servers.context:
            can = replace(can, max_context_tokens=self._servers.context)
        tried = _Trying(client, can)
        await tried.endpoints()
        await tried.set_prompt(_PROMPTS[0])
        await tried.logprobs()
        await tried.sampling()
        await tried.raw_logprobs()
        await tried.rest()
        # Some servers answer the same prompt now so, now otherwise: that tells nothing of weights.
        fingerprint = (await tried.fingerprint()).common(await tried.fingerprint())
        known, prompts = {}, ""
        if tried.can.columns is not None:
            known = probes_read(tried.can.columns, self._probes)
            prompts = prompts_read(tried.can.columns, self._prompts)
            check_revision(tried.can.columns, self._servers.revision)
        told = frozenset(tried.calls.system_fingerprints)
        revision, is_routed = self._servers.revision, self._servers.routing == "upstream"
        return OpenAIServer(tried.can, fingerprint, told, known, prompts, revision, is_routed)

    async def ask_again(
        self, client: httpx.AsyncClient, known: OpenAIServer
    ) -> OpenAIServer | None:
        tried = _Trying(client, known.capabilities)
        if not known.fingerprint.agrees(await tried.fingerprint()):
            return None
        told = frozenset(tried.calls.system_fingerprints)
        if tried.can.columns is not None:
            await tried.set_prompt(_PROMPTS[0])
            if await read_columns(tried.calls, tried.can, tried.prompt) != tried.can.columns:
                return None
        told |= known.system_fingerprints | self.unknown_fingerprints
        self.unknown_fingerprints = frozenset()
        return replace(known, system_fingerprints=told)


class _Trying:
    """One server while it is tried out, by calls that build on what is known of it so far.

    Attributes:
        calls: of it.
        can: as far as that is known; each step adds what it found out.
        prompt: of the next calls.
    """

    def __init__(self, client: httpx.AsyncClient, can: Capabilities) -> None:
        self.calls = Calls(client, can.model_id, is_trial=True)
        self.can = can
        self.prompt = Prompt()

    async def set_prompt(self, text: str) -> None:
        self.prompt = await render(self.calls, self.can, GenerationRequest(text))

    async def fingerprint(self) -> Fingerprint:
        texts, means = [], []
        for text in _PROMPTS:
            await self.set_prompt(text)
            choice = await self.greedy(_FINGERPRINT_TOKENS)
            texts.append(choice.text)
            mean = None
            if choice.logprobs is not None and len(choice.logprobs):
                mean = float(choice.logprobs.mean())
            means.append(mean)
        return Fingerprint(tuple(texts), tuple(means))

    async def endpoints(self) -> None:
        ids = await self._token_ids({"prompt": "Hello"})
        message = {"role": "user", "content": "Hello"}
        if ids:
            self.prompt = Prompt(ids=ids, num_tokens=len(ids))
            self.can = replace(self.can, tokenizes=True)
            choice = await self._first_choice(top=0)
            if choice is not None and choice.token_ids is not None:
                prefix = await self._token_ids({"prompt": ""})
                chat = await self._token_ids({"messages": [message], "add_generation_prompt": True})
                self.can = replace(
                    self.can, completes=True, chats=bool(chat), special_prefix=prefix
                )
                return
        self.can = replace(self.can, tokenizes=False)
        self.prompt = Prompt(text="Hello")
        completes = _is_answer(await self._complete())
        self.prompt = Prompt(messages=(message,))
        chats = _is_answer(await self._complete())
        if not completes and not chats:
            raise Refused("it neither completes prompts nor chats")
        self.can = replace(self.can, completes=completes, chats=chats)

    async def logprobs(self) -> None:
        """Which further parameters it takes, and how many likeliest tokens it tells."""
        accepted = set()
        for name, harmless in EXTRAS.items():
            if self.can.tokenizes and name == "repeat_penalty":  # vLLM complains of it in its log
                continue
            body = completion(self.can, self.prompt, max_tokens=1) | {name: harmless}
            if await self._post(self.prompt.path, body) is not None:
                accepted.add(name)
        self.can = replace(self.can, extras=frozenset(accepted))
        for top in _TOPS:
            choice = await self._first_choice(top=top, max_tokens=2)
            if choice is not None and choice.logprobs is not None:
                told = min(map(len, choice.tops or ()), default=0)
                self.can = replace(self.can, logprobs=min(top, told))
                return

    async def sampling(self) -> None:
        """Whether it draws several samples at once, and what it heeds of how they are drawn."""
        greedy = await self.greedy(8)
        reply = await self._complete(n=2, temperature=1.0, seed=1)
        draws_several = _is_answer(reply) and len(reply["choices"]) == 2
        narrow = []
        if "top_k" in self.can.extras:
            narrow = [await self._hot_text(seed, top_k=1) for seed in (1, 2)]
        texts = [await self._hot_text(seed) for seed in (3, 3, 4, 5)]
        self.can = replace(
            self.can,
            draws_several=draws_several,
            heeds_top_k=narrow == [greedy.text] * 2,
            heeds_seed=texts[0] is not None and texts[0] == texts[1] and len(set(texts)) > 1,
        )

    async def raw_logprobs(self) -> None:
        """Whether log-probs are those of the untouched distribution: of answers, of samples.

        The first token's are compared: at temperature 1 without truncation they are so anywhere.
        """
        if self.can.logprobs is None:
            return
        plain: dict[str, Any] = {"temperature": 1.0, "top_p": 1.0}
        whole, narrow = dict(plain), dict(plain)
        if "top_k" in self.can.extras:
            whole["top_k"], narrow["top_k"] = 0, 2
        reference = await self._first_logprobs(whole, num_seeds=4)
        greedy = await self._first_logprobs({"temperature": 0.0}, num_seeds=1)
        hot = await self._first_logprobs(narrow | {"temperature": 2.0}, num_seeds=4)
        truncated = await self._first_logprobs(narrow, num_seeds=4)
        raw_samples: RawLogprobs = "never"
        if _agree(reference, hot):
            raw_samples = "always"
        elif _agree(reference, truncated):
            raw_samples = "at_temperature_one"
        raw_greedy = _agree(reference, greedy)
        self.can = replace(self.can, raw_greedy=raw_greedy, raw_samples=raw_samples)

    async def rest(self) -> None:
        """How it scores a given text, tells chosen ids, ends an answer; whether it has a plugin."""
        can, prompt = self.can, self.prompt
        scoring: Scoring = "none"
        if can.tells_logprobs and prompt.ids is not None and await self._tells_prompt_logprobs():
            scoring = "prompt_logprobs"
        elif can.tells_logprobs and prompt.ids is None and can.completes and await self._echoes():
            scoring = "echo"
        tells_chosen_ids = can.tells_logprobs and await self._tells_chosen_ids()
        self.can = replace(can, tag_ids=await read_tag_ids(self.calls, can, prompt))
        eos_id = await self._eos_id()
        can = replace(self.can, scoring=scoring, tells_chosen_ids=tells_chosen_ids, eos_id=eos_id)
        self.can = replace(can, no_reasoning_limit=await no_reasoning_limit(self.calls, can))
        self.can = replace(self.can, no_grammar=await no_grammar(self.calls, self.can))
        self.can = replace(self.can, no_lark=await no_lark(self.calls, self.can))
        self.can = replace(self.can, no_images=await no_images(self.calls, self.can))
        self.can = replace(self.can, columns=await read_columns(self.calls, self.can, prompt))
        self.prompt = prompt

    async def greedy(self, max_tokens: int) -> Choice:
        """A greedy answer, with log-probs where it tells them."""
        top = None
        if self.can.logprobs is not None:
            top = min(self.can.logprobs, 1)
        body = completion(self.can, self.prompt, max_tokens=max_tokens, top=top)
        return read_choices(await self.calls.post(self.prompt.path, body), 1)[0]

    async def _tells_prompt_logprobs(self) -> bool:
        reply = await self._complete(prompt_logprobs=0)
        told = reply and reply["choices"][0].get("prompt_logprobs")
        return bool(told) and len(told) == len(self.prompt.ids or ())

    async def _echoes(self) -> bool:
        reply = await self._complete(top=self.can.logprobs, echo=True)
        if reply is None:
            return False
        choice, text = reply["choices"][0], self.prompt.text or ""
        tokens = "".join((choice.get("logprobs") or {}).get("tokens") or ())
        return str(choice.get("text", "")).startswith(text) and len(tokens) >= len(text)

    async def _tells_chosen_ids(self) -> bool:
        wanted = sorted(set(self.prompt.ids or ()))[-2:]
        if not wanted:
            return False
        choice = await self._first_choice(top=1, logprob_token_ids=wanted)
        if choice is None or not choice.tops:
            return False
        return {f"token_id:{token}" for token in wanted} <= choice.tops[0].keys()

    async def _eos_id(self) -> int | None:
        """The id that ends answers, as one of a few answers ends in it."""
        if not self.can.tokenizes:
            return None
        requests = list(map(GenerationRequest, _PROMPTS))
        if self.can.chats:
            requests.append(GenerationRequest(messages=(_SHORT,)))
        # A reasoning may take longer than these few tokens, and is closed at once then.
        for closed in ((), *((one.start, *one.end) for one in self.can.tag_ids)):
            for request in requests:
                prompt = await render(self.calls, self.can, request)
                self.prompt = replace(prompt, ids=(*(prompt.ids or ()), *closed))
                choice = await self.greedy(_END_TOKENS)
                if choice.ended_by_eos and choice.token_ids:
                    return choice.token_ids[-1]
        return None

    async def _first_logprobs(self, law: Mapping[str, Any], *, num_seeds: int) -> dict[str, float]:
        """Log-probs of first tokens by their names, as far as a few draws tell them."""
        found: dict[str, float] = {}
        if self.can.logprobs:  # each draw tells the same likeliest ones
            num_seeds = 1
        for seed in range(1, num_seeds + 1):
            choice = await self._first_choice(top=min(self.can.logprobs or 0, 5), **law, seed=seed)
            if choice is None:
                continue
            found |= (choice.tops or ({},))[0]
            if choice.tokens and choice.logprobs is not None:
                found[choice.tokens[0]] = float(choice.logprobs[0])
        return found

    async def _hot_text(self, seed: int, **law: Any) -> str | None:
        choice = await self._first_choice(max_tokens=8, temperature=1.9, seed=seed, **law)
        return None if choice is None else choice.text

    async def _first_choice(self, **options: Any) -> Choice | None:
        reply = await self._complete(**options)
        return None if reply is None else read_choices(reply, 1)[0]

    async def _complete(self, *, max_tokens: int = 1, top: int | None = None, **more: Any) -> Any:
        """What it answers to the prompt; None where it does not take such a body."""
        body = completion(self.can, self.prompt, max_tokens=max_tokens, top=top)
        return await self._post(self.prompt.path, body | more)

    async def _token_ids(self, body: Mapping[str, Any]) -> tuple[int, ...]:
        """Ids of a prompt; none where it does not tokenize."""
        reply = await self._post("/tokenize", body)
        try:
            return token_ids(reply)
        except Unreachable:
            return ()

    async def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        """What a POST answers; None where the server does not take such a body, or fails on it."""
        try:
            return await self.calls.try_post(path, body)
        except Failed:
            return None


def _agree(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    """Whether the log-probs that both know are the same; where they share none, they are not."""
    shared = one.keys() & other.keys()
    return bool(shared) and all(math.isclose(one[n], other[n], abs_tol=_NOISE) for n in shared)


async def _version(client: httpx.AsyncClient) -> str:
    """Of the server's program, where it says so as vLLM does."""
    try:
        version = (await Calls(client, is_trial=True).get("/version"))["version"]
    except (Rejected, Failed, Unreachable, Refused, LookupError, TypeError):
        return ""
    return version if isinstance(version, str) else ""


def _is_answer(reply: Any) -> bool:
    return isinstance(reply, Mapping) and bool(reply.get("choices"))
