"""The bodies of calls; `profiles.py` says which fields a server takes. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from models.records import SamplingParams
from models.warnings import Warned
from workers.openai.found import OpenAIServer
from workers.openai.profiles import NEUTRAL

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
# The name of `max_reasoning_tokens` in vLLM.
BUDGET = "thinking_token_budget"
# Most bytes of a reply for each token, for each likeliest one beside it, and for all the rest.
_TOKEN_BYTES, _TOP_BYTES, _OTHER_BYTES = 1024, 256, 65_536
# Tokens that a chat template may add to messages.
_TEMPLATE_TOKENS = 4096
# Servers differ in how many bits a seed may have; all take 31, some of them for the last sample.
# Samples of one request draw with seeds one after the other, so those of neighbouring seeds must
# lie far apart.
_SEEDS, _STRIDE = 2**31 - 2**16, 1_000_003


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as a server takes it: exactly one of the first three."""

    ids: tuple[int, ...] | None = None
    text: str | None = None
    messages: tuple[Mapping[str, Any], ...] | None = None
    opened: bool = False  # it ends in `<think>`
    # Fields of a chat beside the messages, such as tools.
    further: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[Warned, ...] = ()  # of what it leaves out

    @property
    def path(self) -> str:
        """The path of the endpoint that takes it."""
        return CHAT if self.messages is not None else COMPLETIONS

    @property
    def num_tokens(self) -> int:
        """The number of its ids; 0 where it is not tokenized."""
        return len(self.ids or ())

    @property
    def most_tokens(self) -> int:
        """A bound on its tokens: each has at least one byte."""
        texts = [self.text or ""]
        for message in self.messages or ():
            texts += map(str, message.values())
        return len("".join(texts).encode()) + self.num_tokens + _TEMPLATE_TOKENS


def completion(
    server: OpenAIServer,
    prompt: Prompt,
    *,
    max_tokens: int,
    stop: tuple[str, ...] = (),
    top: int | None = None,
    mode: str = "",
) -> dict[str, Any]:
    """The body of a greedy answer.

    It requests the `top` likeliest tokens beside each chosen one, None for no log-probs, and
    the columns of a `mode` of the plugin, which have ids for names; "" for none.
    """
    body: dict[str, Any] = {"max_tokens": max_tokens, "temperature": 0.0}
    if prompt.messages is not None:
        body |= {"messages": list(map(dict, prompt.messages)), **prompt.further}
        if top is not None:
            body |= {"logprobs": True, "top_logprobs": top}
    else:
        body["prompt"] = prompt.text or list(prompt.ids or ())
        if top is not None:
            body["logprobs"] = top
    body |= {name: NEUTRAL[name] for name in server.profile.neutral}
    if stop:
        body["stop"] = list(stop)
    if server.profile.tokenizes:
        body |= {"return_token_ids": True, "return_tokens_as_token_ids": bool(mode)}
        if server.reasons is not False:  # the tags may be special tokens
            body["skip_special_tokens"] = False
    if mode:
        body["vllm_xargs"] = {"cocoa": mode}
    return body


def most_bytes(body: Mapping[str, Any], num: int) -> int:
    """A bound on the bytes of a reply of `num` choices to a body."""
    num_top = int(body.get("top_logprobs") or body.get("logprobs") or 0)
    num_tokens: int = num * (body["max_tokens"] + 1)
    return _OTHER_BYTES + num_tokens * (_TOKEN_BYTES + _TOP_BYTES * num_top)


def drawn(body: Mapping[str, Any], law: SamplingParams, at: float, seeds: range) -> dict[str, Any]:
    """The body of a draw `at` a temperature for each seed: a greedy answer's, with their law."""
    drawn_by = {"temperature": at, "top_p": law.top_p, "top_k": law.top_k}
    several = {"n": len(seeds)} if len(seeds) > 1 else {}
    return {**body, **drawn_by, "seed": seeds.start, **several}


def seed_of(seed: int, index: int) -> int:
    """Seed of a request's answer, 0, or of its i-th sample; those of other seeds lie elsewhere."""
    return (seed * _STRIDE + index - 1) % _SEEDS
