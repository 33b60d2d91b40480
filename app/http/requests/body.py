"""What all bodies share: which fields they may have, and what null means."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, LiteralString

from pydantic import ConfigDict, GetJsonSchemaHandler, model_validator
from pydantic.config import JsonDict
from pydantic_core import CoreSchema, PydanticCustomError

from app.http.described import Described
from app.spelling import closest

# Each unknown field is an error of its own, and their number is the client's.
_MAX_FIELDS = 64

# Fields of other servers, and the value with which each asks for nothing: it is what is done here.
NOTHING: Mapping[str, Any] = MappingProxyType(
    {"response_format": {"type": "text"}, "allowed_callers": ["direct"]}
    | dict.fromkeys(("best_of", "length_penalty", "n", "repeat_penalty", "typical_p"), 1)
    | dict.fromkeys(("min_tokens", "mirostat", "n_probs", "priority", "top_logprobs"), 0)
    | dict.fromkeys(("id_slot", "logprob_start_len", "n_predict", "truncate_prompt_tokens"), -1)
    | dict.fromkeys(("ignore_eos", "use_beam_search", "early_stopping", "echo", "prefix"), False)
    | dict.fromkeys(("continue_final_message", "include_stop_str_in_output", "partial"), False)
    | dict.fromkeys(("return_token_ids", "return_tokens_as_token_ids", "raw", "logprobs"), False)
    | dict.fromkeys(("async", "defer_loading", "no_stop_trim", "safe_prompt", "store"), False)
    | dict.fromkeys(("skip_special_tokens", "add_special_tokens", "add_generation_prompt"), True)
    | dict.fromkeys(("spaces_between_special_tokens", "include_reasoning", "detokenize"), True)
    | dict.fromkeys(("cache_prompt", "separate_reasoning", "stream_reasoning"), True)
)
# What clients and providers keep of earlier turns beside what a model reads.
_KEPT = {"agent", "annotations", "cache_control", "caller", "citations", "created", "createdAt"}
_KEPT |= {"created_at", "created_by", "encrypted_content", "executed_tools", "finish_reason", "id"}
_KEPT |= {"index", "is_error", "logprobs", "metadata", "model", "parsed", "parsed_arguments"}
_KEPT |= {"phase", "prompt_cache_breakpoint", "provider_specific_fields", "reasoning_details"}
_KEPT |= {"status", "stop_reason", "stop_sequence", "thinking_blocks", "timestamp", "type"}
_KEPT |= {"uncertainty", "usage", "weight"}


def refuse_if(applies: object, field: str, why: LiteralString) -> None:
    """Refuse a field, by its name, that does not go with others."""
    if applies:
        raise PydanticCustomError("one_of", why, {"field": field})


def named_in(given: Any, name: str = "type") -> Any:
    """The value of this name in a part of a body, read or not yet; None where it has none."""
    return given.get(name) if isinstance(given, dict) else getattr(given, name, None)


NULL: JsonDict = {"type": "null"}  # a schema


def having(required: list[str], absent: list[str], **schemas: JsonDict | str) -> JsonDict:
    """The JSON schema of bodies in which some fields are required, and others null or absent.

    schemas: by field its schema, or its type.
    """
    properties: JsonDict = dict.fromkeys(absent, NULL)
    for name, schema in schemas.items():
        properties[name] = {"type": schema} if isinstance(schema, str) else schema
    return {"required": [*required], "properties": properties}


# Every class of bodies, by its name.
BODIES: dict[str, type["Body"]] = {}


class Body(Described):
    """What a client sends, where null means the same as leaving an optional field out.

    Only the first fault of a list is reported (`fail_fast`).
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    # With these values, or those of `nothing`, unknown fields are left out: others send such.
    ignored: ClassVar[tuple[Any, ...]] = ()
    nothing: ClassVar[Mapping[str, Any]] = NOTHING
    EMPTY: ClassVar[tuple[Any, ...]] = (None, [], {}, "")
    # Names of unknown fields that are left out whatever they hold.
    left_out: ClassVar[frozenset[str]] = frozenset()
    # Names of these fields in other APIs.
    other_names: ClassVar[Mapping[str, str]] = {}
    # Whether a text may stand in the place of such an object.
    may_be_text: ClassVar[bool] = False
    # Optional fields that nearly every body has, which an example shows besides the required ones.
    usual: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        BODIES[cls.__name__] = cls

    @classmethod
    def nearest(cls, name: str) -> str | None:
        """The field that an unknown name was probably meant to be."""
        return cls.other_names.get(name) or closest(name, cls.model_fields)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        if len(body) > _MAX_FIELDS:
            message = "Input should have at most {limit} fields"
            raise PydanticCustomError("too_many_fields", message, {"limit": _MAX_FIELDS})
        given = {}
        for name, value in body.items():
            field = cls.model_fields.get(name)
            if field is None:
                is_nothing = name in cls.left_out or value in cls.ignored
            else:
                is_nothing = value is None and not field.is_required()
            if cls.ignored and name in cls.nothing and value == (neutral := cls.nothing[name]):
                is_nothing |= (type(value) is bool) == (type(neutral) is bool)  # True is 1
            if not is_nothing:
                given[name] = value
        return given

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonDict:
        schema = super().__get_pydantic_json_schema__(core_schema, handler)
        properties = handler.resolve_ref_schema(schema)["properties"]
        for name, field in properties.items():
            if "default" in field:
                properties[name] = _or_null(field)
        if cls.ignored:
            schema["additionalProperties"] = {"enum": [*cls.ignored]}
        for name in cls.left_out:
            properties.setdefault(name, {"description": "Accepted and left out."})
        return schema


def _or_null(field: JsonDict) -> JsonDict:
    about: JsonDict = {}
    for name in ("title", "description", "default"):
        if name in field:
            about[name] = field.pop(name)
    variants = field.get("anyOf", [field])
    if isinstance(variants, list) and NULL not in variants:
        variants = [*variants, NULL]
    return {"anyOf": variants, **about}


class Kept(Body):
    """A message, a part of one, a call or a tool, as clients keep them."""

    ignored = Body.EMPTY
    left_out = frozenset(_KEPT)
