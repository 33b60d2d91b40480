"""Fakes of the servers that have a profile: each takes what its makers document, and no more."""

from tests.openai_server import Traits

_CHAT = {"model", "messages", "stream", "stream_options", "max_tokens", "temperature", "top_p"}
_CHAT |= {"stop", "tools", "tool_choice", "response_format"}
_LOGPROBS = {"logprobs", "top_logprobs"}
_PENALTIES = {"presence_penalty", "frequency_penalty"}
_OPENAI = _CHAT | _LOGPROBS | _PENALTIES | {"n", "seed", "reasoning_effort"}
_REASONING = _OPENAI | {"max_completion_tokens"}
_REASONING -= {"max_tokens", "temperature", "top_p", "stop", "seed", *_LOGPROBS, *_PENALTIES}
_LAW = {"top_k", "min_p"}
_VLLM = _OPENAI | _LAW | {"prompt", "repetition_penalty", "chat_template_kwargs"}
_VLLM |= {
    "skip_special_tokens",
    "return_token_ids",
    "return_tokens_as_token_ids",
    "prompt_logprobs",
    "vllm_xargs",
}
_VLLM |= {"logprob_token_ids", "allowed_token_ids", "structured_outputs", "thinking_token_budget"}
_LLAMA = _OPENAI | _LAW | {"prompt", "repeat_penalty", "json_schema"}
_PROPS = {"build_info": "b1", "total_slots": 4, "modalities": {"vision": False}}

_OWN = {"tool_form": "joined", "formats": "heeded"}
_HOSTED = {"tokenizes": False, "completes": False, "tool_form": "apart"}


def _hosted(takes, **traits):
    return _HOSTED | {"takes": frozenset(takes), "max_logprobs": None} | traits


# By the profile's name.
SERVERS = {
    "vllm": {"takes": frozenset(_VLLM), "owner": "vllm", "calls": "<tool_call>{}</tool_call>"},
    "sglang": _OWN
    | {"takes": frozenset(_VLLM), "owner": "sglang", "tokenizes": False, "error_form": "message"},
    "llama.cpp": _OWN
    | {"takes": frozenset(_LLAMA), "owner": "llamacpp", "tokenizes": False, "most_samples": 4}
    | {"looks": {"/props": _PROPS}, "streams_logprobs_of_tools": False},
    "ollama": _OWN
    | {"takes": frozenset(_OPENAI | {"prompt"}), "tokenizes": False, "draws_several": False}
    | {"looks": {"/api/version": {"version": "0.13"}}, "completion_logprobs": False}
    | {"tells_end": False},
    "tgi": _OWN
    | {"takes": frozenset(_OPENAI - {"n"}), "tokenizes": False, "completes": False}
    | {"max_logprobs": 5, "looks": {"/info": {"model_id": "tiny", "version": "3"}}},
    "openai": _hosted(_OPENAI, max_logprobs=20),
    "openai-reasoning": _hosted(_REASONING),
    "azure": _hosted(_OPENAI, max_logprobs=20, lists=False, key_header="api-key"),
    "gemini": _hosted(
        _CHAT | {"n"}, most_samples=8, prefix="", model="models/tiny", error_form="unnamed"
    ),
    "mistral": _hosted(_CHAT | _PENALTIES | {"n", "random_seed"}, error_form="detail"),
    "anthropic": _hosted(_CHAT - {"response_format"}, formats="refused", lists=False),
    "groq": _hosted(_CHAT | {"seed"}, error_form="message"),
    "openrouter": _hosted(_OPENAI | _LAW, max_logprobs=20, draws_several=False),
    "generic": {"tokenizes": False, "tool_form": "apart"},
}
# Those that say themselves what they are.
RECOGNISED = {"vllm", "sglang", "llama.cpp", "ollama", "tgi", "generic"}
assert Traits(**SERVERS["generic"])
