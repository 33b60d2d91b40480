"""What is known of kinds of servers beforehand, one row each, and which of them a server is. Pure.

A row says what the makers document. Whatever a server refuses all the same is learnt from its
refusal (`workers.openai.dialect`), and what numbers stand on is tried out (`workers.openai.trial`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

# Likeliest tokens that most servers tell at most.
_TOPS = 20
# What would make another distribution of the model's, where a server has a default for it.
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


@dataclass(frozen=True, slots=True)
class Profile:
    """One kind of server.

    Attributes:
        hosts: what the names of its hosts end in.
        owners: what it calls the owner of its models in their list.
        models: beginnings of the names of models that it is about; none for all.
        look: path by which it says what it is, and a field that it has there.
        lists: whether its list of models is one of those that can be asked.
        prefix: of its paths, in place of `/v1`.
        key_header: that carries the key, in place of `Authorization`.
        completes, chats: whether it has the endpoint, and tells there what it tells at all.
        tokenizes: whether it renders and tokenizes prompts, takes and gives token ids.
        names: parameters that it calls otherwise; "" for one that it takes not at all.
        neutral: of `NEUTRAL`, those that it takes.
        max_samples: of one call; 0 for any number.
        logprobs: the most likeliest tokens that it tells; None for no log-probs.
        heeds_top_k, heeds_seed: whether these do what they say; None where nobody knows.
        schema_of_texts: what completions call a schema; "" for `response_format`, as in chats.
        formats, tools, images: whether it takes `response_format`, `tools`, images in chats.
        is_hosted: whether calls cost money: it is asked as little as can be.
    """

    hosts: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    look: tuple[str, str] = ("", "")
    lists: bool = True
    prefix: str = "/v1"
    key_header: str = "Authorization"
    completes: bool = True
    chats: bool = True
    tokenizes: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    neutral: frozenset[str] = _OF_OPENAI
    max_samples: int = 0
    logprobs: int | None = _TOPS
    heeds_top_k: bool | None = False
    heeds_seed: bool | None = False
    schema_of_texts: str = ""
    formats: bool = True
    tools: bool = True
    images: bool = True
    is_hosted: bool = False


def _hosted(*hosts: str, refused: tuple[str, ...] = ("top_k",), **known: Any) -> Profile:
    """An API of chats that costs money; `refused` are parameters that it does not take."""
    names = {**dict.fromkeys(refused, ""), **known.pop("names", {})}
    neutral = _OF_OPENAI - set(refused)
    law = {"completes": False, "is_hosted": True, "neutral": neutral, **known}
    return Profile(hosts=hosts, names=names, **law)


_PENALTIES = tuple(sorted(_OF_OPENAI))
_REASONING_MODELS = ("gpt-5", "gpt-6", "o1", "o3", "o4")

# In the order in which they are looked for. The last one is any other server: it is sent what
# others know, and what it refuses is left out.
PROFILES: Mapping[str, Profile] = MappingProxyType(
    {
        "vllm": Profile(
            owners=("vllm",), look=("/version", "version"), tokenizes=True, neutral=_OF_VLLM,
            heeds_top_k=True, heeds_seed=True,
        ),
        "sglang": Profile(
            owners=("sglang",), look=("/get_server_info", "version"), neutral=_OF_VLLM,
            heeds_top_k=True, heeds_seed=None,
        ),
        "llama.cpp": Profile(
            owners=("llamacpp",), look=("/props", "build_info"), neutral=_OF_LLAMA,
            heeds_top_k=True, heeds_seed=True, schema_of_texts="json_schema",
        ),
        # Its completions tell no log-probs, and put a prompt into the template of chats as well.
        "ollama": Profile(
            owners=("library",), look=("/api/version", "version"), completes=False,
            names={"top_k": ""}, max_samples=1, heeds_seed=True,
        ),
        "tgi": Profile(
            look=("/info", "model_id"), completes=False, names={"top_k": ""}, max_samples=1,
            logprobs=5, heeds_seed=True,
        ),
        "openai-reasoning": _hosted(
            "api.openai.com",
            refused=("top_k", "temperature", "top_p", "stop", "seed", *_PENALTIES),
            models=_REASONING_MODELS, names={"max_tokens": "max_completion_tokens"},
            max_samples=8, logprobs=None,
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
            logprobs=None, formats=False,
        ),
        "groq": _hosted(
            "api.groq.com", refused=("top_k", *_PENALTIES), max_samples=1, logprobs=None
        ),
        "openrouter": _hosted("openrouter.ai", names={"top_k": "top_k"}, max_samples=1),
        "generic": Profile(neutral=frozenset(NEUTRAL), heeds_top_k=None, heeds_seed=None),
    }
)  # fmt: skip
GENERIC = "generic"


def by_host(url: str, model: str) -> str:
    """The profile of a host's name, and of the model's where a host has several; "" for none.

    >>> by_host("https://api.openai.com", "gpt-5-mini"), by_host("https://api.openai.com", "gpt-4o")
    ('openai-reasoning', 'openai')
    """
    host = urlsplit(url).hostname or ""
    for name, profile in PROFILES.items():
        if host.endswith(profile.hosts or ("\0",)) and model.startswith(profile.models or ("",)):
            return name
    return ""


def by_entry(entry: Mapping[str, Any]) -> str:
    """The profile of a server that lists its model so; the generic one where that tells nothing."""
    for name, profile in PROFILES.items():
        if entry.get("owned_by") in profile.owners:
            return name
    # What no other server says of its models.
    return "vllm" if entry.get("max_model_len") else GENERIC
