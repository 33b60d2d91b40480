"""Bodies of responses: shapes, no logic."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from models.records import AnswerForm, FinishReason
from models.selection import Strategy


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


class EntropySplit(BaseModel):
    """What `high_semantic_entropy_light` is the probability of: more entropy than the split."""

    nats: float
    base_rate: Annotated[
        float | None,
        Field(description="share of held-out answers of the probe's training set above the split"),
    ]


class Timing(BaseModel):
    """Milliseconds of each stage; `total` also holds what lies between them."""

    queue: float
    generate: float
    similarity: float
    score: float
    total: float


class SampleGroup(BaseModel):
    """Samples that mean the same."""

    text: Annotated[str, Field(description="the answer, or the group's first sample")]
    is_answer: Annotated[bool, Field(description="whether they mean the same as the answer")]
    count: Annotated[int, Field(description="samples in it")]
    share: Annotated[float, Field(description="of all samples, 0 to 1")]
    mass: Annotated[
        float | None,
        Field(description="probability of its distinct texts, 0 to 1; null where not known"),
    ]
    similarity: Annotated[float, Field(description="mean similarity to the answer, 0 to 1")]


class DecisionInfo(BaseModel):
    """Whether the answer may pass, and what that promises."""

    accept: Annotated[bool, Field(description="whether the uncertainty is at most the threshold")]
    threshold: Annotated[
        float | None,
        Field(description="in the unit of the estimator; null where the labels allow none"),
    ]
    target_error: Annotated[
        float, Field(description="largest wanted share of wrong answers among the accepted")
    ]
    guarantee: Annotated[str, Field(description="the promise in words")]


class EscalationInfo(BaseModel):
    """A second model was asked, as the first one's answer did not pass."""

    model: Annotated[str, Field(description="name of the second model")]
    first_text: Annotated[str, Field(description="answer of the first model, which was scored")]
    error: Annotated[
        str | None, Field(description="why there is no second answer; `text` is the first then")
    ]


class GenerateResponse(BaseModel):
    """The answer with its scores; higher means less sure."""

    id: str
    model: Annotated[ModelInfo | None, Field(description="null where no model was asked")]
    mode: Literal["full", "light"]
    strategy: Strategy
    answer_sample: Annotated[
        int | None, Field(description="index of the answer among the samples, where it is one")
    ]
    text: Annotated[
        str | None,
        Field(
            description="the answer; null where it did not pass and was to be held back; a second "
            "model's where `escalation` says so"
        ),
    ]
    finish_reason: FinishReason
    retokenized: Annotated[
        bool, Field(description="whether a given answer's text was tokenised again")
    ]
    answer_form: Annotated[
        AnswerForm | None,
        Field(
            description="how a given answer continues the prompt: as it stands, or after a blank, "
            "whichever is likelier; null where no model scored one"
        ),
    ]
    estimator: str
    uncertainty: float | None
    confidence: Annotated[
        float | None,
        Field(description="probability that the answer is right, 0 to 1, by the calibrator"),
    ]
    percentile: Annotated[
        float | None,
        Field(description="percentage of the calibrator's answers that are surer, 0 to 100"),
    ]
    confidence_reason: Annotated[
        str | None, Field(description="why confidence and percentile are null")
    ]
    calibrator: Annotated[
        str | None, Field(description="id of the calibrator behind the confidence")
    ]
    decision: Annotated[DecisionInfo | None, Field(description="null without `target_error`")]
    escalation: Annotated[EscalationInfo | None, Field(description="null where none was asked")]
    scores: dict[str, float | None]
    reasons: Annotated[dict[str, str], Field(description="why a score is null")]
    warnings: list[str]
    samples_source: Annotated[
        Literal["model", "client"] | None, Field(description="null where there are no samples")
    ]
    num_samples: Annotated[int, Field(description="how many there are; with `auto`, were drawn")]
    num_distinct_samples: int
    stopped_by: Annotated[
        Literal["found_mass", "max_samples"] | None,
        Field(description="what ended the waves of samples; null unless num_samples was auto"),
    ]
    consistency_std_error: float | None
    found_mass: Annotated[
        float | None,
        Field(
            description="probability of the answer and the distinct samples together, 0 to 1; "
            "null where no estimator reads what it is made of"
        ),
    ]
    similarity: Annotated[
        str | None, Field(description="similarity function; null where none was asked")
    ]
    similarity_model: ModelInfo | None
    nli_model: ModelInfo | None
    probe: Annotated[
        ProbeInfo | None,
        Field(description="null where no light estimator was asked for, or no probe could read"),
    ]
    entropy_split: Annotated[
        EntropySplit | None,
        Field(description="null unless high_semantic_entropy_light was asked for"),
    ]
    seed: Annotated[
        int | None, Field(description="repeats the samples; null where no model draws any")
    ]
    samples: list[Sample] | None
    tokens: list[Token] | None
    explanation: Annotated[
        str | None, Field(description="what the samples say, in a sentence; null unless asked for")
    ]
    groups: Annotated[
        list[SampleGroup] | None,
        Field(description="samples by meaning, that of the answer first; null unless asked for"),
    ]
    usage: Usage
    timing_ms: Timing
    cached: bool


class Fault(BaseModel):
    """One fault of a body."""

    field: Annotated[str | None, Field(description="dotted path; null where it is the whole body")]
    message: str


class ErrorBody(BaseModel):
    """What went wrong: a stable code, the field at fault, and the id of the request in the logs."""

    code: str
    message: str
    field: str | None
    details: Annotated[
        list[Fault],
        Field(description="the first faults of an invalid body, that of `field` among them"),
    ] = []
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
    split: Annotated[
        EntropySplit | None, Field(description="of high_semantic_entropy_light, where it is known")
    ]


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


class LoadedCalibrator(BaseModel):
    """The calibrator that is served."""

    id: Annotated[str, Field(description="changes with the file")]
    source: Annotated[str, Field(description="what its labels were")]
    groups: Annotated[list[str], Field(description="that a request may name")]
    estimators: Annotated[list[str], Field(description="calibrated on all labels")]
    target_errors: Annotated[list[float], Field(description="that a request may ask for")]


class Version(BaseModel):
    """What runs here, and the limits it holds."""

    version: str
    model: ModelInfo | None = None
    similarity_models: Annotated[
        dict[str, ModelInfo], Field(description="by similarity function")
    ] = {}
    default_similarity: str | None = None
    nli_model: ModelInfo | None = None
    probes: Annotated[
        dict[str, LoadedProbe], Field(description="by the statistic that they predict")
    ] = {}
    calibrator: LoadedCalibrator | None = None
    limits: dict[str, int | float | None]


class Status(BaseModel):
    """Liveness or readiness."""

    status: str


_ERRORS = {
    400: "The body is not JSON or not UTF-8",
    408: "The body did not come in time",
    413: "The body is too large",
    415: "The body is neither JSON nor said to be",
    422: "A field is out of its bounds, or the request does not fit the model",
    429: "The admission limit is reached; Retry-After says when to come back",
    500: "A defect of the service or invalid numbers from the model",
    503: "Not ready, or a model failed; may be repeated",
    504: "The deadline passed",
}
ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorResponse, "description": text} for status, text in _ERRORS.items()
}
