"""Profiles of servers: one row for each known kind, and how a refusal changes one. Pure.

A row says what the makers document. Whatever a server refuses all the same is learnt from its
refusal, and what numbers stand on is tried out (`workers.openai.trial`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from workers.remote.refusals import Denied, Rejected, parameters_of

# Neutral values of parameters that change the distribution, for servers with other defaults.
NEUTRAL: Mapping[str, float] = MappingProxyType(
    {
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "repeat_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
    }
)
_OF_OPENAI = frozenset({"presence_penalty", "frequency_penalty"})
_OF_VLLM = frozenset(NEUTRAL) - {"repeat_penalty"}  # of which it complains in its log
_OF_LLAMA = frozenset(NEUTRAL) - {"repetition_penalty"}
NO_FORMAT = "the server of the model takes no response_format"
UNMASKED = (
    "the server's log-probs under a response_format are not those among the tokens that it allows"
)
_RENAMED = {"max_tokens": "max_completion_tokens"}
_OPTIONS = ("temperature", "top_p", "stop", "seed", "stream")
_EXTRAS = ("top_k", "stream_options", *NEUTRAL)
LOGPROBS = ("logprobs", "top_logprobs")
# The numbers of likeliest tokens to request, the next one where one is refused.
_NUM_TOPS = (20, 10, 5, 1, 0)
_UNSUPPORTED = frozenset({"unsupported_parameter", "unsupported_value", "unknown_parameter"})


@dataclass(frozen=True, slots=True)
class Profile:
    """One kind of server, or one server as far as it is known by now."""

    hosts: tuple[str, ...] = ()  # endings of the names of its hosts
    owners: tuple[str, ...] = ()  # its names for the owner of its models in their list
    models: tuple[str, ...] = ()  # beginnings of the names of its models; none for all
    look: tuple[str, str] = ("", "")  # path that describes it, and a field of the reply
    lists: bool = True  # its list of models has those that can be requested
    prefix: str = "/v1"  # of its paths
    key_header: str = "Authorization"  # that carries the key
    # It has these endpoints, with all that it returns at all.
    completes: bool = True
    chats: bool = True
    tokenizes: bool = False  # it renders and tokenizes prompts, takes and returns token ids
    # Its own names of parameters; "" for one that it does not take.
    names: Mapping[str, str] = field(default_factory=dict)
    neutral: frozenset[str] = _OF_OPENAI  # of `NEUTRAL`, those that it takes
    max_samples: int = 0  # of one call; 0 for any number
    # The most likeliest tokens that it returns beside the chosen one; None for no log-probs.
    logprobs: int | None = 20
    heeds_seed: bool | None = True  # the same seed draws the same; None where that is not known
    # The name of a schema in completions; "" for `response_format`, as in chats.
    schema_of_texts: str = ""
    # Why it holds no text to a schema; "" where it does, None until it was tried.
    no_grammar: str | None = None
    # Why its log-probs under a schema cannot be read; "" where they are those among the tokens
    # that the schema allows, None until it was tried.
    unmasked: str | None = None
    reasons: bool = False  # its models may reason, as far as its makers say
    # It heeds `max_reasoning_tokens`, and what llguidance adds to schemas, which others refuse,
    # or hold a text to nothing for.
    bounds_reasoning: bool = False
    reads_hints: bool = False
    is_hosted: bool = False  # calls cost money, and are as few as can be
    taken: frozenset[str] = frozenset()  # parameters that it has taken

    def showing(self, key: str) -> dict[str, str]:
        """The header that carries a key; none where there is no key."""
        if not key:
            return {}
        if self.key_header == "Authorization":
            key = f"Bearer {key}"
        return {self.key_header: key}

    def takes(self, name: str) -> bool:
        """True where it may be sent this parameter."""
        return self.names.get(name) != ""

    def rendered(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A body as the server takes it."""
        rendered: dict[str, Any] = {}
        for name, value in body.items():
            if name in LOGPROBS and self.logprobs is None:
                continue
            if name in LOGPROBS and value is not True and "vllm_xargs" not in body:
                value = min(value, self.logprobs or 0)
            if name == "messages":
                value = list(map(self._message, value))
            if (known := self.names.get(name, name)) and (name, value) != ("top_logprobs", 0):
                rendered[known] = value
        return rendered

    def _message(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """A message, or a call in one, as the server takes it."""
        taken = {name: value for name, value in part.items() if self.takes(name)}
        if "tool_calls" in taken:
            taken["tool_calls"] = list(map(self._message, taken["tool_calls"]))
        return taken

    def after(self, body: Mapping[str, Any]) -> "Profile":
        """The same once it has taken a body."""
        new = set(filter(self.takes, parameters_of(body))) - self.taken
        if not new:
            return self
        return replace(self, taken=self.taken | new)

    def refuses_here(self, refusal: Rejected | Denied, body: Mapping[str, Any]) -> bool:
        """True where a server that returns log-probs refuses them here, as some do to streams.

        It has taken a body with them before.
        """
        if "logprobs" not in self.taken or "logprobs" not in self.rendered(body):
            return False
        return refusal.status == 403 or not refusal.named.isdisjoint(LOGPROBS)

    def learned(self, refusal: Rejected | Denied, body: Mapping[str, Any]) -> "Profile | None":
        """The profile after a refusal; None where the refusal teaches nothing.

        A refusal that names a parameter has it renamed, lowered or left out; one that names none
        has what the server has never taken left out. The body is as it was meant.
        """
        if refusal.is_of_prompt or refusal.status not in (400, 403, 422):
            return None
        if refusal.status == 403:
            return self._with_logprobs(None, body)
        if not refusal.named:
            return self._without_new(body)
        meant = {new or name: name for name, new in self.names.items()}
        named = {meant.get(name, name) for name in refusal.named} & parameters_of(body)
        for name in sorted(named):
            if (learned := self._without(name, refusal.code, body)) is not None:
                return learned
        return None

    def _without(self, name: str, code: str, body: Mapping[str, Any]) -> "Profile | None":
        """The profile with this parameter renamed, lowered or left out; None where it cannot be."""
        if name in LOGPROBS:
            fewer = self._fewer(body)
            if code in _UNSUPPORTED:
                fewer = None
                if name == "top_logprobs":
                    fewer = 0
            return self._with_logprobs(fewer, body)
        if name in self.names or name in body.keys() - {*_RENAMED, *_OPTIONS, *_EXTRAS}:
            return None
        is_of_value = name in self.taken or (name == "temperature" and body[name] > 1.0)
        if is_of_value and code not in _UNSUPPORTED:  # some take no temperature above 1
            return None
        return replace(self, names={**self.names, name: _RENAMED.get(name, "")})

    def _without_new(self, body: Mapping[str, Any]) -> "Profile | None":
        """The profile without parameters that the server has never taken; None where it has all."""
        new = set(filter(self.takes, parameters_of(body) - self.taken))
        fewer = None
        if new.intersection(LOGPROBS):
            fewer = self._with_logprobs(self._fewer(body), body)
        groups: list[Iterable[str]] = [{*_EXTRAS, *(new - body.keys())}, ("seed",)]
        if fewer is None:
            groups += [("top_p", "stop", "stream"), ("temperature",)]
        for unsure in groups:
            if left_out := new.intersection(unsure):
                return replace(self, names={**self.names, **dict.fromkeys(left_out, "")})
        return fewer

    def _with_logprobs(self, logprobs: int | None, body: Mapping[str, Any]) -> "Profile | None":
        """The profile with so many likeliest tokens; None where the body stays as it is."""
        fewer = replace(self, logprobs=logprobs)
        if fewer.rendered(body) == self.rendered(body):
            return None
        return fewer

    def _fewer(self, body: Mapping[str, Any]) -> int | None:
        """The next smaller number of likeliest tokens than a body requests; None for none."""
        sent = self.rendered(body)
        num = sent.get("logprobs", 0)
        if num is True:
            num = sent.get("top_logprobs", 0)
        for fewer in _NUM_TOPS:
            if fewer < num:
                return fewer
        return None


def _hosted(*hosts: str, refused: tuple[str, ...] = ("top_k",), **known: Any) -> Profile:
    """An API of chats that costs money; `refused` are parameters that it does not take."""
    names = {**dict.fromkeys(refused, ""), **known.pop("names", {})}
    law = {"completes": False, "is_hosted": True, "heeds_seed": False, **known}
    return Profile(hosts=hosts, names=names, **law)


_PENALTIES = tuple(sorted(_OF_OPENAI))
_REASONING_MODELS = ("gpt-5", "gpt-6", "o1", "o3", "o4")

# In the order in which they are looked for. The last one is any other server: it is sent what
# others know, and what it refuses is left out.
PROFILES: Mapping[str, Profile] = MappingProxyType(
    {
        "vllm": Profile(
            owners=("vllm",), look=("/version", "version"), tokenizes=True, neutral=_OF_VLLM,
            bounds_reasoning=True, reads_hints=True,
        ),
        "sglang": Profile(
            owners=("sglang",), look=("/get_server_info", "version"), neutral=_OF_VLLM,
            heeds_seed=None,
        ),
        "llama.cpp": Profile(
            owners=("llamacpp",), look=("/props", "build_info"), neutral=_OF_LLAMA,
            schema_of_texts="json_schema", unmasked=UNMASKED,
        ),
        # Its completions return no log-probs, and put a prompt into the template of chats as well.
        "ollama": Profile(
            owners=("library",), look=("/api/version", "version"), completes=False,
            names={"top_k": ""}, max_samples=1,
        ),
        "tgi": Profile(
            look=("/info", "model_id"), completes=False, names={"top_k": ""}, max_samples=1,
            logprobs=5,
        ),
        "openai-reasoning": _hosted(
            "api.openai.com",
            refused=("top_k", "temperature", "top_p", "stop", "seed", *_PENALTIES),
            models=_REASONING_MODELS, names={"max_tokens": "max_completion_tokens"},
            max_samples=8, logprobs=None, reasons=True,
        ),
        "openai": _hosted("api.openai.com", max_samples=128),
        "azure": _hosted(
            ".openai.azure.com", ".cognitiveservices.azure.com", key_header="api-key",
            max_samples=128, lists=False,
        ),
        "gemini": _hosted(
            "generativelanguage.googleapis.com", refused=("top_k", "seed", *_PENALTIES),
            prefix="", max_samples=8, logprobs=None,
        ),
        "mistral": _hosted(
            "api.mistral.ai", names={"seed": "random_seed"}, heeds_seed=True, logprobs=None
        ),
        "anthropic": _hosted(
            "api.anthropic.com", refused=("top_k", "seed", *_PENALTIES), max_samples=1,
            logprobs=None, no_grammar=NO_FORMAT, lists=False,
        ),
        "groq": _hosted(
            "api.groq.com", refused=("top_k", *_PENALTIES), max_samples=1, logprobs=None
        ),
        "openrouter": _hosted("openrouter.ai", max_samples=1),
        "generic": Profile(neutral=frozenset(NEUTRAL), heeds_seed=None),
    }
)  # fmt: skip
GENERIC = "generic"


def by_host(url: str, model: str) -> str:
    """The profile of a host's name, and of the model's where a host has several; "" for none."""
    host = urlsplit(url).hostname or ""
    for name, profile in PROFILES.items():
        if host.endswith(profile.hosts or ("\0",)) and model.startswith(profile.models or ("",)):
            return name
    return ""


def by_entry(entry: Mapping[str, Any]) -> str:
    """The profile of a server that lists its model so; the generic one where that shows none."""
    for name, profile in PROFILES.items():
        if entry.get("owned_by") in profile.owners:
            return name
    if entry.get("max_model_len"):  # a field that no other server lists
        return "vllm"
    return GENERIC
