"""Trying a server out: small requests that show what it really does, whatever it says of itself."""

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import httpx

from models.records import Array, GenerationRequest
from workers.calls import Calls, Failed, Rejected, listed_model
from workers.client import Refused, Unreachable
from workers.openai.capabilities import (
    LARGEST_VOCABULARY,
    UNKNOWN_CONTEXT,
    Capabilities,
    Fingerprint,
    OpenAIServer,
    RawLogprobs,
    Scoring,
)
from workers.openai.columns import probes_read, read_columns
from workers.openai.prompts import render
from workers.openai.replies import Choice, read_choices
from workers.openai.requests import CHAT, COMPLETIONS, EXTRAS, Prompt, completion
from workers.protocol import ProbeInfo

# Fixed texts, asked of every server; none of them is a client's.
_PROMPTS = (
    "What is the capital of France?",
    "The three primary colours are",
    "Translate to German: the old house by the river.",
)
_SHORT = {"role": "user", "content": "Reply with one word: yes or no?"}
_REQUEST = GenerationRequest()
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
        model: its name there; "" for the first that it lists.
        probes: that this deployment knows, by the statistic that each predicts.
    """

    def __init__(self, model: str, probes: Mapping[str, ProbeInfo]) -> None:
        self.unknown_fingerprints: frozenset[str] = frozenset()
        self._model = model
        self._probes = probes

    async def look_up(self, client: httpx.AsyncClient) -> Mapping[str, Any]:
        entry = await listed_model(Calls(client), self._model)
        return {name: entry.get(name) for name in _TELLING}

    async def try_out(self, client: httpx.AsyncClient, said: Mapping[str, Any]) -> OpenAIServer:
        return await try_out(client, said, self._probes)

    async def ask_again(
        self, client: httpx.AsyncClient, known: OpenAIServer
    ) -> OpenAIServer | None:
        found, told = await fingerprint_of(client, known.capabilities)
        columns = known.capabilities.columns
        if not known.fingerprint.agrees(found):
            return None
        if columns is not None:
            calls = Calls(client, known.capabilities.model_id)
            prompt = await _prompt(calls, known.capabilities, _PROMPTS[0])
            if await read_columns(calls, known.capabilities, prompt) != columns:
                return None
        told |= known.system_fingerprints | self.unknown_fingerprints
        self.unknown_fingerprints = frozenset()
        return replace(known, system_fingerprints=told)


async def try_out(
    client: httpx.AsyncClient, entry: Mapping[str, Any], probes: Mapping[str, ProbeInfo]
) -> OpenAIServer:
    """All that the server can do, and what it answers to fixed prompts.

    Args:
        client: of the server.
        entry: of `listed_model`.
        probes: that this deployment knows, by the statistic that each predicts.

    Raises:
        Unreachable, Failed: it answers nonsense, or nothing.
        Refused: it neither completes nor chats.
    """
    calls = Calls(client, entry["id"])
    can = Capabilities(
        model_id=entry["id"],
        root=str(entry.get("root") or ""),
        version=await _version(client),
        max_context_tokens=_context(entry),
        vocabulary_size=_vocabulary(entry),
    )
    can = await _with_endpoints(calls, can)
    prompt = await _prompt(calls, can, _PROMPTS[0])
    can = await _with_logprobs(calls, can, prompt)
    can = await _with_sampling(calls, can, prompt)
    can = replace(
        can,
        scoring=await _scoring(calls, can, prompt),
        tells_chosen_ids=await _tells_chosen_ids(calls, can, prompt),
        eos_id=await _eos_id(calls, can),
    )
    columns = await read_columns(calls, can, prompt)
    can = replace(can, columns=columns)
    known = {} if columns is None else probes_read(columns, probes)
    first, told = await fingerprint_of(client, can)
    second, more_told = await fingerprint_of(client, can)
    # Some servers answer the same prompt now so, now otherwise: that tells nothing of weights.
    return OpenAIServer(can, first.common(second), told | more_told, MappingProxyType(known))


async def fingerprint_of(
    client: httpx.AsyncClient, can: Capabilities
) -> tuple[Fingerprint, frozenset[str]]:
    """What the server answers to fixed prompts, and what it calls what it runs."""
    calls = Calls(client, can.model_id)
    texts, means = [], []
    for text in _PROMPTS:
        prompt = await _prompt(calls, can, text)
        choice = await _greedy(calls, can, prompt, _FINGERPRINT_TOKENS)
        texts.append(choice.text)
        means.append(_mean(choice.logprobs))
    return Fingerprint(tuple(texts), tuple(means)), frozenset(calls.system_fingerprints)


async def _with_endpoints(calls: Calls, can: Capabilities) -> Capabilities:
    ids = _tokens(await _tried(calls, "/tokenize", {"prompt": "Hello"}))
    if ids:
        ids_prompt = Prompt(ids=ids, num_tokens=len(ids))
        body = completion(replace(can, tokenizes=True), ids_prompt, max_tokens=1, top=0)
        reply = await _tried(calls, COMPLETIONS, body)
        if reply is not None and read_choices(reply, 1)[0].token_ids is not None:
            prefix = _tokens(await _tried(calls, "/tokenize", {"prompt": ""})) or ()
            chats = await _takes_messages(calls)
            return replace(
                can, tokenizes=True, completes=True, chats=chats, special_prefix=tuple(prefix)
            )
    text = completion(can, Prompt(text="Hello"), max_tokens=1)
    message = Prompt(messages=({"role": "user", "content": "Hello"},))
    completes = _is_answer(await _tried(calls, COMPLETIONS, text))
    chats = _is_answer(await _tried(calls, CHAT, completion(can, message, max_tokens=1)))
    if not completes and not chats:
        raise Refused("it neither completes prompts nor chats")
    return replace(can, completes=completes, chats=chats)


async def _takes_messages(calls: Calls) -> bool:
    messages = [{"role": "user", "content": "Hello"}]
    body = {"messages": messages, "add_generation_prompt": True}
    return bool(_tokens(await _tried(calls, "/tokenize", body)))


async def _with_logprobs(calls: Calls, can: Capabilities, prompt: Prompt) -> Capabilities:
    accepted = set()
    for name in EXTRAS:
        if can.tokenizes and name == "repeat_penalty":  # a name that vLLM complains of in its log
            continue
        body = completion(can, prompt, max_tokens=1) | {name: _harmless(name)}
        if await _tried(calls, prompt.path, body) is not None:
            accepted.add(name)
    can = replace(can, extras=frozenset(accepted))
    for top in _TOPS:
        reply = await _tried(calls, prompt.path, completion(can, prompt, max_tokens=2, top=top))
        if reply is None:
            continue
        choice = read_choices(reply, 1)[0]
        if choice.logprobs is None:
            if top:
                continue
            break
        told = min(map(len, choice.tops)) if choice.tops else 0
        return replace(can, logprobs=min(top, told))
    return can


async def _with_sampling(calls: Calls, can: Capabilities, prompt: Prompt) -> Capabilities:
    greedy = await _greedy(calls, can, prompt, 8)
    several = await _drawn(calls, can, prompt, n=2, temperature=1.0, seed=1, max_tokens=1)
    heeds_top_k, heeds_seed = False, False
    hot = {"temperature": 1.9, "max_tokens": 8}
    if "top_k" in can.extras:
        narrow = [await _drawn(calls, can, prompt, **hot, top_k=1, seed=seed) for seed in (1, 2)]
        heeds_top_k = all(found is not None and found[0].text == greedy.text for found in narrow)
    drawn = [await _drawn(calls, can, prompt, **hot, seed=seed) for seed in (3, 3, 4, 5)]
    texts = [None if found is None else found[0].text for found in drawn]
    heeds_seed = texts[0] is not None and texts[0] == texts[1] and len(set(texts)) > 1
    raw_greedy, raw_samples = await _rawness(calls, can, prompt)
    return replace(
        can,
        draws_several=several is not None and len(several) == 2,
        heeds_top_k=heeds_top_k,
        heeds_seed=heeds_seed,
        raw_greedy=raw_greedy,
        raw_samples=raw_samples,
    )


async def _rawness(calls: Calls, can: Capabilities, prompt: Prompt) -> tuple[bool, RawLogprobs]:
    """Whether log-probs are those of the untouched distribution: of greedy answers, of samples.

    The first token's are compared: at temperature 1 without truncation they are, on every server.
    """
    if can.logprobs is None:
        return False, "never"
    plain: dict[str, Any] = {"temperature": 1.0, "max_tokens": 1, "top_p": 1.0}
    untruncated = plain | ({"top_k": 0} if "top_k" in can.extras else {})
    narrow = {"top_k": 2} if "top_k" in can.extras else {}
    reference = await _first(calls, can, prompt, untruncated, seeds=4)
    greedy = await _first(calls, can, prompt, {"max_tokens": 1, "temperature": 0.0}, seeds=1)
    hot = await _first(calls, can, prompt, plain | narrow | {"temperature": 2.0}, seeds=4)
    truncated = await _first(calls, can, prompt, plain | narrow, seeds=4)
    raw_samples: RawLogprobs = "never"
    if _agree(reference, hot):
        raw_samples = "always"
    elif _agree(reference, truncated):
        raw_samples = "at_temperature_one"
    return _agree(reference, greedy), raw_samples


async def _first(
    calls: Calls, can: Capabilities, prompt: Prompt, law: Mapping[str, Any], *, seeds: int
) -> dict[str, float]:
    """Log-probs of first tokens by their names, as far as a few draws tell them."""
    found: dict[str, float] = {}
    for seed in range(1, seeds + 1):
        body = completion(can, prompt, max_tokens=1, top=min(can.logprobs or 0, 5))
        reply = await _tried(calls, prompt.path, body | dict(law) | {"seed": seed})
        for choice in [] if reply is None else read_choices(reply, 1):
            if choice.tops:
                found |= choice.tops[0]
            if choice.tokens and choice.logprobs is not None:
                found[choice.tokens[0]] = float(choice.logprobs[0])
        if can.logprobs:  # each draw tells the same likeliest ones
            break
    return found


def _agree(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    """Whether the log-probs that both know are the same; where they share none, they are not."""
    shared = one.keys() & other.keys()
    return bool(shared) and all(math.isclose(one[n], other[n], abs_tol=_NOISE) for n in shared)


async def _scoring(calls: Calls, can: Capabilities, prompt: Prompt) -> Scoring:
    """How a text that exists already can be scored."""
    if not can.tells_logprobs:
        return "none"
    if prompt.ids is not None:
        body = completion(can, prompt, max_tokens=1) | {"prompt_logprobs": 0}
        reply = await _tried(calls, COMPLETIONS, body)
        told = reply["choices"][0].get("prompt_logprobs") if reply is not None else None
        return "prompt_logprobs" if told and len(told) == len(prompt.ids) else "none"
    if not can.completes:
        return "none"
    body = completion(can, prompt, max_tokens=1, top=can.logprobs) | {"echo": True}
    reply = await _tried(calls, COMPLETIONS, body)
    choice = reply["choices"][0] if reply is not None else {}
    tokens = (choice.get("logprobs") or {}).get("tokens") or ()
    echoed = str(choice.get("text", "")).startswith(prompt.text or "")
    return "echo" if echoed and len("".join(tokens)) >= len(prompt.text or "") else "none"


async def _tells_chosen_ids(calls: Calls, can: Capabilities, prompt: Prompt) -> bool:
    if prompt.ids is None or not can.tells_logprobs:
        return False
    wanted = sorted(set(prompt.ids))[-2:]
    body = completion(can, prompt, max_tokens=1, top=1) | {"logprob_token_ids": wanted}
    reply = await _tried(calls, COMPLETIONS, body)
    tops = read_choices(reply, 1)[0].tops if reply is not None else None
    return bool(tops) and {f"token_id:{token}" for token in wanted} <= (tops or ({},))[0].keys()


async def _eos_id(calls: Calls, can: Capabilities) -> int | None:
    """The id that ends answers, as one of a few answers ends in it."""
    if not can.tokenizes:
        return None
    prompts = [await _prompt(calls, can, text) for text in _PROMPTS]
    if can.chats:
        asked = replace(_REQUEST, prompt=None, messages=(_SHORT,))
        prompts.append(await render(calls, can, asked))
    for prompt in prompts:
        choice = await _greedy(calls, can, prompt, _END_TOKENS)
        if choice.ended_by_eos and choice.token_ids:
            return choice.token_ids[-1]
    return None


async def _greedy(calls: Calls, can: Capabilities, prompt: Prompt, num: int) -> Choice:
    top = None if can.logprobs is None else min(can.logprobs, 1)
    body = completion(can, prompt, max_tokens=num, top=top)
    return read_choices(await calls.post(prompt.path, body), 1)[0]


async def _drawn(
    calls: Calls, can: Capabilities, prompt: Prompt, **law: Any
) -> list[Choice] | None:
    """Samples under a law; None where the server takes no such body."""
    reply = await _tried(calls, prompt.path, completion(can, prompt, max_tokens=8) | law)
    return None if reply is None else read_choices(reply, len(reply["choices"]))


async def _prompt(calls: Calls, can: Capabilities, text: str) -> Prompt:
    return await render(calls, can, replace(_REQUEST, prompt=text))


async def _tried(calls: Calls, path: str, body: Mapping[str, Any]) -> Any:
    """What a POST answers; None where the server does not take such a body, or fails on it."""
    try:
        return await calls.try_post(path, body)
    except Failed:
        return None


async def _version(client: httpx.AsyncClient) -> str:
    """Of the server's program, where it says so as vLLM does."""
    try:
        reply = await Calls(client).get("/version")
        version = reply.get("version")
    except (Rejected, Failed, Unreachable, Refused, AttributeError):
        return ""
    return version if isinstance(version, str) else ""


def _context(entry: Mapping[str, Any]) -> int:
    """Tokens of prompt and answer, as servers say it in their different ways."""
    meta = entry.get("meta")
    meta = meta if isinstance(meta, Mapping) else {}
    said = (
        entry.get("max_model_len"),
        meta.get("n_ctx"),
        entry.get("context_length"),
        entry.get("context_window"),
        meta.get("n_ctx_train"),
    )
    return next((one for one in said if type(one) is int and one > 0), UNKNOWN_CONTEXT)


def _vocabulary(entry: Mapping[str, Any]) -> int:
    meta = entry.get("meta")
    said = meta.get("n_vocab") if isinstance(meta, Mapping) else None
    return said if type(said) is int and said > 0 else LARGEST_VOCABULARY


def _tokens(reply: Any) -> tuple[int, ...] | None:
    ids = reply.get("tokens") if isinstance(reply, Mapping) else None
    if not isinstance(ids, list) or not ids or not set(map(type, ids)) <= {int}:
        return None
    return tuple(ids)


def _is_answer(reply: Any) -> bool:
    return isinstance(reply, Mapping) and bool(reply.get("choices"))


def _harmless(name: str) -> float:
    """A value of a parameter that changes nothing."""
    return 1.0 if name.startswith("repe") else 0


def _mean(logprobs: Array | None) -> float | None:
    return None if logprobs is None or not len(logprobs) else float(logprobs.mean())
