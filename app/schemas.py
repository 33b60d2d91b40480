"""Request and response of the HTTP API: shapes and bounds, no logic."""

import json
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, model_validator
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from models.estimators import ESTIMATORS
from models.records import FinishReason
from models.selection import Strategy

LIGHT_ESTIMATORS = [
    "cocoa_sp_light",
    "cocoa_ppl_light",
    "cocoa_mte_light",
    "sp",
    "ppl",
    "mte",
    "consistency_light",
]
DEFAULT_ESTIMATORS = ["cocoa_sp", "cocoa_ppl", "cocoa_mte", "sp", "ppl", "mte", "consistency"]

Value = TypeVar("Value")


def _known_estimator(name: str) -> str:
    if name not in ESTIMATORS:
        raise PydanticCustomError(
            "unknown_estimator", "unknown estimator; GET /estimators lists all"
        )
    return name


def _encodable(value: Value) -> Value:
    """JSON can spell half of a surrogate pair, which is no text and which no tokenizer takes."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise PydanticCustomError(
            "lone_surrogate", "Input should be a valid string, without lone surrogates"
        ) from None
    return value


EstimatorName = Annotated[
    str, AfterValidator(_known_estimator), Field(json_schema_extra={"enum": list(ESTIMATORS)})
]
StopString = Annotated[str, Field(min_length=1, max_length=64)]


# What `_check_input` holds a request to, for whoever reads the document: one input, template
# variables with messages.
_NULL: JsonDict = {"type": "null"}
_OF_PROMPT: JsonDict = {
    "required": ["prompt"],
    "properties": {"prompt": {"type": "string"}, "messages": _NULL, "chat_template_kwargs": _NULL},
}
_OF_MESSAGES: JsonDict = {
    "required": ["messages"],
    "properties": {"messages": {"type": "array"}, "prompt": _NULL},
}
_OF_SAMPLES: JsonDict = {
    "required": ["samples"],
    "properties": {
        "samples": {"type": "array"},
        "prompt": _NULL,
        "messages": _NULL,
        "chat_template_kwargs": _NULL,
    },
}


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Message(_Request):
    """One chat message."""

    role: Annotated[str, Field(min_length=1, max_length=32)]
    content: Annotated[str, AfterValidator(_encodable)]


class _ScoringRequest(_Request):
    """What every request may say about scores and samples."""

    prompt: Annotated[
        str | None, Field(min_length=1, description="Raw text that the model continues.")
    ] = None
    messages: Annotated[
        list[Message] | None,
        Field(min_length=1, max_length=1024, description="Chat, in the model's own template."),
    ] = None
    chat_template_kwargs: Annotated[
        dict[str, JsonValue] | None,
        Field(max_length=32, description="Variables of the chat template."),
        AfterValidator(_encodable),
    ] = None
    estimators: Annotated[
        list[EstimatorName] | None,
        Field(
            min_length=1, max_length=64, description=f"Default: {', '.join(DEFAULT_ESTIMATORS)}."
        ),
    ] = None
    estimator: Annotated[
        EstimatorName | None,
        Field(
            description="The one reported as `uncertainty`. Default: cocoa_ppl or cocoa_ppl_light, "
            "or the first of `estimators`."
        ),
    ] = None
    similarity: Annotated[
        str | None,
        Field(
            max_length=32, description="Similarity function, among those that GET /version lists."
        ),
    ] = None
    num_samples: Annotated[int, Field(ge=1, le=64)] = 10
    max_new_tokens: Annotated[int, Field(ge=1, le=8192)] = 256
    temperature: Annotated[float, Field(gt=0, le=2)] = 1.0
    top_k: Annotated[int, Field(ge=0, le=1000, description="0 keeps the whole vocabulary.")] = 50
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    stop: Annotated[list[StopString], Field(max_length=8)] = []
    seed: Annotated[int | None, Field(ge=0, lt=2**63)] = None
    return_samples: bool = False
    return_tokens: bool = False
    timeout_s: Annotated[float, Field(gt=0, le=600)] = 60.0
    cache: Annotated[
        bool,
        Field(
            description="Whether statistics of an identical request may serve, "
            "and these be remembered."
        ),
    ] = True

    def _check_input(self, *, required: bool) -> None:
        num_given = (self.prompt is not None) + (self.messages is not None)
        if num_given > 1 or (required and num_given == 0):
            raise PydanticCustomError(
                "one_of", "exactly one of prompt and messages must be given", {"field": "prompt"}
            )
        if self.chat_template_kwargs is not None and self.messages is None:
            raise PydanticCustomError(
                "one_of", "chat_template_kwargs needs messages", {"field": "chat_template_kwargs"}
            )


class GenerateRequest(_ScoringRequest):
    """A prompt, and which uncertainty scores are wanted of its answer."""

    mode: Annotated[
        Literal["full", "light"],
        Field(
            description="`light` draws no samples: a probe on the model's hidden states predicts "
            "what they would show."
        ),
    ] = "full"
    answer: Annotated[
        Literal["greedy", "most_probable", "most_probable_normalized", "mbr"],
        Field(description="Which answer is scored: the greedy one, or one of the samples."),
    ] = "greedy"

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [_OF_PROMPT, _OF_MESSAGES],
            "examples": [
                {"prompt": "What is the capital of France?", "max_new_tokens": 24, "seed": 1}
            ],
        }
    )

    @model_validator(mode="after")
    def _one_input(self) -> Self:
        self._check_input(required=True)
        return self


class GivenSample(_Request):
    """A sample that the client brings; its log-probs, in nats, where it has them."""

    text: Annotated[str, AfterValidator(_encodable)]
    token_logprobs: Annotated[
        list[Annotated[float, Field(le=0)]] | None, Field(min_length=1, max_length=8192)
    ] = None


class ScoreRequest(_ScoringRequest):
    """An answer that exists already.

    Without prompt and messages no model is asked, and `samples` must be given.
    """

    answer: Annotated[str, AfterValidator(_encodable)]
    append_eos: Annotated[
        bool, Field(description="Whether the answer ends there; its end then counts.")
    ] = True
    samples: Annotated[list[GivenSample] | None, Field(min_length=1, max_length=64)] = None

    model_config = ConfigDict(json_schema_extra={"anyOf": [_OF_PROMPT, _OF_MESSAGES, _OF_SAMPLES]})

    @model_validator(mode="after")
    def _some_input(self) -> Self:
        self._check_input(required=self.samples is None)
        return self


class ScoreBatch(_Request):
    """Several answers in one call; each is checked on its own."""

    items: Annotated[list[JsonValue], Field(min_length=1, max_length=64)]


class ModelInfo(BaseModel):
    """Which weights spoke: id, and a revision that changes with them."""

    id: str
    revision: str | None


class Sample(BaseModel):
    """One sampled answer; `logprob` is its sum in nats, `similarity` that to the answer."""

    text: str
    logprob: float | None
    similarity: float | None
    finish_reason: FinishReason


class Token(BaseModel):
    """One token of the answer; log-prob and entropy in nats."""

    text: str
    logprob: float | None
    entropy: float | None


class Usage(BaseModel):
    """Tokens read and written."""

    prompt_tokens: int
    completion_tokens: int
    sample_tokens: int


class ProbeInfo(BaseModel):
    """The probe behind the light scores, and how far this answer lies from its training set."""

    id: str
    training_set: str
    distance_percentile: Annotated[
        float, Field(description="among held-out answers of the training set, 0 to 100")
    ]
    out_of_domain: Annotated[
        bool, Field(description="farther than 99 of 100 of them: do not trust the light scores")
    ]


class Timing(BaseModel):
    """Milliseconds of each stage; `total` also holds what lies between them."""

    queue: float
    generate: float
    similarity: float
    score: float
    total: float


class GenerateResponse(BaseModel):
    """The answer with its scores; higher means less sure."""

    id: str
    model: Annotated[ModelInfo | None, Field(description="null where no model was asked")]
    mode: Literal["full", "light"]
    answer: Strategy
    answer_sample: Annotated[
        int | None, Field(description="index of the answer among the samples, where it is one")
    ]
    text: str
    finish_reason: FinishReason
    retokenized: Annotated[
        bool, Field(description="whether a given answer's text was tokenised again")
    ]
    estimator: str
    uncertainty: float | None
    confidence: Annotated[float | None, Field(description="null until a calibrator is loaded")]
    scores: dict[str, float | None]
    reasons: Annotated[dict[str, str], Field(description="why a score is null")]
    warnings: list[str]
    samples_source: Literal["model", "client"]
    num_samples: int
    num_distinct_samples: int
    consistency_std_error: float | None
    similarity: Annotated[
        str | None, Field(description="similarity function; null where none was asked")
    ]
    similarity_model: ModelInfo | None
    nli_model: ModelInfo | None
    probe: Annotated[
        ProbeInfo | None, Field(description="null where no light estimator was asked for")
    ]
    seed: Annotated[
        int | None, Field(description="repeats the samples; null where no model draws any")
    ]
    samples: list[Sample] | None
    tokens: list[Token] | None
    usage: Usage
    timing_ms: Timing
    cached: bool


class ErrorBody(BaseModel):
    """What went wrong: a stable code, the field at fault, and the id of the request in the logs."""

    code: str
    message: str
    field: str | None
    request_id: str


class ErrorResponse(BaseModel):
    """Every response that is no success."""

    error: ErrorBody


class ScoreOutcome(BaseModel):
    """What became of one item: exactly one of the two."""

    result: GenerateResponse | None
    error: ErrorBody | None


class ScoreResults(BaseModel):
    """One outcome an item, in order."""

    results: list[ScoreOutcome]


class EstimatorInfo(BaseModel):
    """One estimator: formula, statistics it reads, and whether this deployment supplies them."""

    name: str
    formula: str
    needs: list[str]
    available: bool
    reason: str | None


class EstimatorList(BaseModel):
    """All estimators of the registry."""

    default: list[str]
    light: Annotated[list[str], Field(description="the default in light mode")]
    estimators: list[EstimatorInfo]


class LoadedProbe(BaseModel):
    """A probe that serves light mode; `layer` is k of Hugging Face's hidden_states[k]."""

    id: str
    training_set: str
    layer: int


class Version(BaseModel):
    """What runs here, and the limits it holds."""

    version: str
    model: ModelInfo | None
    similarity_models: Annotated[dict[str, ModelInfo], Field(description="by similarity function")]
    default_similarity: str | None
    nli_model: ModelInfo | None
    probes: Annotated[
        dict[str, LoadedProbe], Field(description="by the statistic that they predict")
    ]
    limits: dict[str, int | None]


class Status(BaseModel):
    """Liveness or readiness."""

    status: str


ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorResponse, "description": description}
    for status, description in {
        400: "The body is not JSON or not UTF-8",
        413: "The body is too large",
        422: "A field is out of its bounds, or the request does not fit the model",
        429: "The admission limit is reached; Retry-After says when to come back",
        500: "A defect of the service or invalid numbers from the model",
        503: "Not ready, or a model failed; may be repeated",
        504: "The deadline passed",
    }.items()
}
