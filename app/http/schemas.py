"""Bodies of responses: shapes, no logic."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from models.records import AnswerForm, FinishReason
from models.selection import Strategy


class ModelInfo(BaseModel):
    """Which weights spoke: id, and a revision that changes with them."""

    id: Annotated[
        str, Field(description="id or last part of the path that the weights were loaded from")
    ]
    revision: Annotated[
        str | None,
        Field(description="changes with the weights; null for a function without weights"),
    ]


class Sample(BaseModel):
    """One sampled answer; `logprob` is its sum in nats, `similarity` that to the answer."""

    text: Annotated[str, Field(description="as generated, or as given")]
    logprob: Annotated[
        float | None,
        Field(
            description="sum over its tokens in nats, ≤ 0, under the raw distribution; null where "
            "unknown"
        ),
    ]
    similarity: Annotated[
        float | None,
        Field(
            description="to the answer, 0 to 1, mean of both directions; null where none was asked "
            "for, or where it is the answer"
        ),
    ]
    finish_reason: Annotated[FinishReason, Field(description="what ended it")]


class Token(BaseModel):
    """One token of the answer; log-prob and entropy in nats."""

    text: Annotated[str, Field(description="its share of the answer's text")]
    logprob: Annotated[
        float | None,
        Field(description="in nats, ≤ 0, under the raw distribution; null where unknown"),
    ]
    entropy: Annotated[
        float | None,
        Field(
            description="of the distribution that it was chosen from, in nats, ≥ 0; null where "
            "unknown"
        ),
    ]


class Usage(BaseModel):
    """Tokens read and written."""

    prompt_tokens: Annotated[
        int, Field(description="of the prompt, ≥ 0, read once for the answer and all samples")
    ]
    completion_tokens: Annotated[int, Field(description="of the answer, ≥ 0")]
    sample_tokens: Annotated[int, Field(description="of all samples together, ≥ 0")]


class ProbeInfo(BaseModel):
    """The probe behind the light scores, and how far this answer lies from its training set."""

    id: Annotated[str, Field(description="changes with the probe")]
    training_set: Annotated[str, Field(description="name of what it was trained on")]
    distance_percentile: Annotated[
        float, Field(description="among held-out answers of the training set, 0 to 100")
    ]
    out_of_domain: Annotated[
        bool, Field(description="farther than 99 of 100 of them: do not trust the light scores")
    ]


class EntropySplit(BaseModel):
    """What `high_semantic_entropy_light` is the probability of: more entropy than the split."""

    nats: Annotated[float, Field(description="semantic entropy, ≥ 0, above which it is high")]
    base_rate: Annotated[
        float | None,
        Field(
            description="share of held-out answers of the probe's training set above the split, "
            "0 to 1; null where unknown"
        ),
    ]


class Timing(BaseModel):
    """Milliseconds of each stage; `total` also holds what lies between them."""

    queue: Annotated[float, Field(description="ms, ≥ 0, waiting for a place in the batch")]
    generate: Annotated[float, Field(description="ms, ≥ 0, of answer and samples")]
    similarity: Annotated[float, Field(description="ms, ≥ 0, comparing texts")]
    score: Annotated[float, Field(description="ms, ≥ 0, computing the estimators")]
    total: Annotated[
        float, Field(description="ms, ≥ 0, from the request's admission to its result")
    ]


class SampleGroup(BaseModel):
    """Samples that mean the same."""

    text: Annotated[str, Field(description="the answer, or the group's first sample")]
    is_answer: Annotated[bool, Field(description="whether they mean the same as the answer")]
    count: Annotated[int, Field(description="samples in it, ≥ 0")]
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
        Field(
            description="a real number in the estimator's unit; null where the labels allow none"
        ),
    ]
    target_error: Annotated[
        float, Field(description="largest wanted share of wrong answers among the accepted, 0 to 1")
    ]
    guarantee: Annotated[str, Field(description="the promise in words")]


class EscalationInfo(BaseModel):
    """A second model was asked, as the first one's answer did not pass."""

    model: Annotated[str, Field(description="name of the second model")]
    first_text: Annotated[str, Field(description="answer of the first model, which was scored")]
    error: Annotated[
        str | None, Field(description="why there is no second answer; `text` is the first then")
    ]


class Scored(BaseModel):
    """All that is known of how sure a model is of an answer; higher scores mean less sure."""

    mode: Annotated[Literal["full", "light"], Field(description="`light` drew no samples")]
    strategy: Annotated[
        Strategy,
        Field(description="how the answer was chosen; `given` where the client brought it"),
    ]
    answer_sample: Annotated[
        int | None,
        Field(description="index of the answer, ≥ 0, among the samples, where it is one"),
    ]
    estimator: Annotated[str, Field(description="the one reported as `uncertainty`")]
    degraded: Annotated[
        bool,
        Field(
            description="whether the uncertainty is `consistency` in place of a better one, as no "
            "log-probs are known"
        ),
    ]
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
    scores: Annotated[
        dict[str, float | None],
        Field(description="by estimator, real numbers, each in its own unit; higher is less sure"),
    ]
    reasons: Annotated[dict[str, str], Field(description="why a score is null")]
    warnings: Annotated[list[str], Field(description="what to know before trusting the scores")]
    samples_source: Annotated[
        Literal["model", "client"] | None, Field(description="null where there are no samples")
    ]
    num_samples: Annotated[
        int, Field(description="how many there are, 0 to 64; with `auto`, were drawn")
    ]
    num_distinct_samples: Annotated[
        int, Field(description="different texts among the samples, 0 to 64")
    ]
    stopped_by: Annotated[
        Literal["found_mass", "max_samples"] | None,
        Field(description="what ended the waves of samples; null unless num_samples was auto"),
    ]
    consistency_std_error: Annotated[
        float | None,
        Field(description="how far the samples pin consistency down, 0 to 1; null without it"),
    ]
    found_mass: Annotated[
        float | None,
        Field(
            description="probability of the answer and the distinct samples together, 0 to 1; "
            "null where no estimator reads what it is made of"
        ),
    ]
    entropy_method: Annotated[
        Literal["exact", "topk_bounds"] | None,
        Field(
            description="how the entropies of the answer's tokens are known: over the whole "
            "vocabulary, or between bounds; null where they are not"
        ),
    ]
    mte_bounds: Annotated[
        list[float] | None,
        Field(
            description="least and greatest, ≥ 0, that `mte` can be in nats, where only the "
            "likeliest tokens are known; they feed no estimator"
        ),
    ]
    similarity: Annotated[
        str | None, Field(description="similarity function; null where none was asked")
    ]
    similarity_model: Annotated[
        ModelInfo | None, Field(description="behind the similarity; null where none was asked")
    ]
    nli_model: Annotated[
        ModelInfo | None, Field(description="behind the NLI estimators; null where none was asked")
    ]
    probe: Annotated[
        ProbeInfo | None,
        Field(description="null where no light estimator was asked for, or no probe could read"),
    ]
    entropy_split: Annotated[
        EntropySplit | None,
        Field(description="null unless high_semantic_entropy_light was asked for"),
    ]
    seed: Annotated[
        int | None, Field(description="≥ 0, repeats the samples; null where no model draws any")
    ]
    samples: Annotated[list[Sample] | None, Field(description="with `return_samples`, else null")]
    explanation: Annotated[
        str | None, Field(description="what the samples say, in a sentence; null unless asked for")
    ]
    groups: Annotated[
        list[SampleGroup] | None,
        Field(description="samples by meaning, that of the answer first; null unless asked for"),
    ]
    timing_ms: Annotated[Timing, Field(description="milliseconds of each stage")]
    cached: Annotated[bool, Field(description="whether the statistics came from the cache")]


class Answered(BaseModel):
    """The answer itself."""

    id: Annotated[str, Field(description="the request's id, that of X-Request-ID")]
    model: Annotated[ModelInfo | None, Field(description="null where no model was asked")]
    text: Annotated[
        str | None,
        Field(
            description="the answer; null where it did not pass and was to be held back; a second "
            "model's where `escalation` says so"
        ),
    ]
    finish_reason: Annotated[
        FinishReason,
        Field(description="what ended the answer; `length` where it was cut at max_new_tokens"),
    ]
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
    usage: Annotated[Usage, Field(description="tokens read and written")]
    uncertainty: Annotated[
        float | None,
        Field(
            description="its score, a real number in the estimator's unit; higher is less sure; "
            "null with its reason in `reasons`"
        ),
    ]


class GenerateResponse(Scored, Answered):
    """The answer with its scores; higher means less sure."""

    tokens: Annotated[
        list[Token] | None, Field(description="of the answer, with `return_tokens`, else null")
    ]


class Fault(BaseModel):
    """One fault of a body."""

    field: Annotated[str | None, Field(description="dotted path; null where it is the whole body")]
    message: Annotated[str, Field(description="what is wrong, with its limit")]


class ErrorBody(BaseModel):
    """What went wrong: a stable code, the field at fault, and the id of the request in the logs."""

    code: Annotated[str, Field(description="stable, for programs")]
    message: Annotated[
        str, Field(description="for people; names the limit, and quotes nothing of the request")
    ]
    field: Annotated[
        str | None, Field(description="dotted path of the field at fault; null where it is none")
    ]
    details: Annotated[
        list[Fault],
        Field(description="the first faults of an invalid body, that of `field` among them"),
    ] = []
    request_id: Annotated[str, Field(description="that of X-Request-ID, by which the logs know it")]


class ErrorResponse(BaseModel):
    """Every response that is no success."""

    error: Annotated[ErrorBody, Field(description="what went wrong")]


class ScoreOutcome(BaseModel):
    """What became of one item: exactly one of the two."""

    result: Annotated[GenerateResponse | None, Field(description="null where the item failed")]
    error: Annotated[ErrorBody | None, Field(description="null where it did not")]


class ScoreResults(BaseModel):
    """One outcome an item, in order."""

    results: Annotated[list[ScoreOutcome], Field(description="in the order of the items")]


class FeedbackKept(BaseModel):
    """A label that is durable."""

    id: Annotated[str, Field(description="of the answer")]
    quality: Annotated[float, Field(description="0 to 1: 1 is right, 0 is wrong")]
    task: Annotated[str | None, Field(description="the calibrator's group that it counts to")]


class EstimatorInfo(BaseModel):
    """One estimator: formula, statistics it reads, and whether this deployment supplies them."""

    name: Annotated[str, Field(description="as requests name it")]
    formula: Annotated[str, Field(description="what it computes, with its source")]
    needs: Annotated[list[str], Field(description="the statistics that it reads")]
    available: Annotated[bool, Field(description="whether this deployment supplies them all")]
    reason: Annotated[str | None, Field(description="what is missing; null where it is available")]
    split: Annotated[
        EntropySplit | None, Field(description="of high_semantic_entropy_light, where it is known")
    ]


class EstimatorList(BaseModel):
    """All estimators of the registry."""

    default: Annotated[list[str], Field(description="computed where a request names none")]
    light: Annotated[list[str], Field(description="the default in light mode")]
    estimators: Annotated[list[EstimatorInfo], Field(description="all there are")]


class LoadedProbe(BaseModel):
    """A probe that serves light mode; `layer` is k of Hugging Face's hidden_states[k]."""

    id: Annotated[str, Field(description="changes with the probe")]
    training_set: Annotated[str, Field(description="name of what it was trained on")]
    layer: Annotated[int, Field(description="k of Hugging Face's hidden_states[k], ≥ 0")]


class LoadedCalibrator(BaseModel):
    """The calibrator that is served."""

    id: Annotated[str, Field(description="changes with the file")]
    source: Annotated[str, Field(description="what its labels were")]
    groups: Annotated[list[str], Field(description="that a request may name")]
    estimators: Annotated[list[str], Field(description="calibrated on all labels")]
    target_errors: Annotated[
        list[float], Field(description="that a request may ask for, 0 to 1 each")
    ]


class Version(BaseModel):
    """What runs here, and the limits it holds."""

    version: Annotated[str, Field(description="of the service")]
    model: Annotated[
        ModelInfo | None, Field(description="the language model; null until it is loaded")
    ] = None
    model_capabilities: Annotated[
        dict[str, str | int | bool | None],
        Field(
            description="of an OpenAI-compatible server behind the service, as they were tried "
            "out, numbers ≥ 0; empty where there is none"
        ),
    ] = {}
    model_self_test_tokens: Annotated[
        int | None,
        Field(
            description="tokens on which the model, as it is served, agreed at its start with its "
            "own full forward pass; null for a server behind the service"
        ),
    ] = None
    similarity_models: Annotated[
        dict[str, ModelInfo], Field(description="by similarity function")
    ] = {}
    default_similarity: Annotated[
        str | None,
        Field(
            description="the one that a request gets without naming one; null until it is loaded"
        ),
    ] = None
    nli_model: Annotated[
        ModelInfo | None, Field(description="null where there is none, or until it is loaded")
    ] = None
    probes: Annotated[
        dict[str, LoadedProbe], Field(description="by the statistic that they predict")
    ] = {}
    calibrator: Annotated[
        LoadedCalibrator | None,
        Field(description="null where there is none, or until it is loaded"),
    ] = None
    limits: Annotated[
        dict[str, int | float | None],
        Field(
            description="by name, ≥ 0 each, those of the settings and of the models, in the unit "
            "that the name ends in; null where there is none, or until it is known"
        ),
    ]


class Status(BaseModel):
    """Liveness or readiness."""

    status: Annotated[str, Field(description="`alive` or `ready`")]
