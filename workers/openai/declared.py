"""What a deployment declares of a server, so that no request tries it out. Pure."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from annotated_types import Interval
from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from models.engines.protocol import NO_GRAMMAR, NO_IMAGES, NO_REASONING
from models.errors import ModelNotLoaded
from workers.config import variable
from workers.openai.capabilities import NOT_TRIED, RawLogprobs
from workers.openai.soundness import UNMASKED

_SETTING = variable("generation.capabilities")

_Later = bool | Literal["not tried yet"]


class _Declared(TypedDict, total=False):
    """As `capabilities.told` has it, as far as texts alone go: nobody declares ids of tokens."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    server: str
    endpoint: Literal["completions", "chat completions"]
    max_logprobs: Annotated[int, Interval(ge=0, le=20)]
    raw_logprobs_of_answers: bool
    raw_logprobs_of_samples: RawLogprobs
    several_samples_a_call: bool
    top_k: bool
    seed: _Later
    scoring_of_given_answers: Literal["echo"]
    entropy_method: Literal["topk_bounds"]  # which follows from the others
    max_reasoning_tokens: _Later
    response_format: _Later
    strict_tools: _Later
    response_format_logprobs: _Later
    images: _Later


_DECLARED = TypeAdapter(_Declared)
# The field that says why not, and what it says.
_REASONS = {
    "max_reasoning_tokens": ("no_reasoning_limit", NO_REASONING),
    "response_format": ("no_grammar", NO_GRAMMAR),
    "strict_tools": ("no_lark", NO_GRAMMAR),
    "response_format_logprobs": ("unmasked", UNMASKED),
    "images": ("no_images", NO_IMAGES),
}
# Why not, as it is declared.
_HEEDED: Mapping[Any, str | None] = {True: "", NOT_TRIED: None}


def declared(setting: str) -> dict[str, Any]:
    """Fields of `Capabilities` by the setting: the `model_capabilities` of `GET /version`, as JSON.

    What is left out, null, false or "none" the server cannot; what is "not tried yet" is tried out
    when a request first needs it.

    Raises:
        ModelNotLoaded: it is no such object, or declares what has to be tried out; names the field.
    """
    try:
        said = dict(json.loads(setting)).items()
        can = _DECLARED.validate_python({name: one for name, one in said if _can(name, one)})
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise ModelNotLoaded(f"{_SETTING}: {field}: {first['msg']}") from None
    except (ValueError, TypeError):
        raise ModelNotLoaded(f"{_SETTING} is no JSON object") from None
    completes = can.get("endpoint") == "completions"
    fields: dict[str, Any] = {
        "completes": completes,
        "chats": not completes,
        "logprobs": can.get("max_logprobs"),
        "raw_greedy": can.get("raw_logprobs_of_answers", False),
        "raw_samples": can.get("raw_logprobs_of_samples", "never"),
        "draws_several": can.get("several_samples_a_call", False),
        "heeds_top_k": can.get("top_k", False),
        "extras": frozenset({"top_k"} & can.keys()),
        "scoring": can.get("scoring_of_given_answers", "none"),
    }
    if (seed := can.get("seed", False)) != NOT_TRIED:
        fields["heeds_seed"] = seed
    for name, (field, reason) in _REASONS.items():
        fields[field] = _HEEDED.get(can.get(name), reason)
    return fields


def _can(name: str, value: Any) -> bool:
    """Whether this value says that a server can; no likeliest tokens beside the chosen are some."""
    if name == "max_logprobs":
        return value is not None
    return value not in (None, False, "none", "never")
