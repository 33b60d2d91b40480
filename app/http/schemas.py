"""Bodies of responses: shapes, no logic."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from models.records import AnswerForm, FinishReason
from models.selection import Strategy


class Described(BaseModel):
    """A shape whose fields are described by the strings below them, in the document too."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = handler(core_schema)
        for field in handler.resolve_ref_schema(schema).get("properties", {}).values():
            if "description" in field:
                field["description"] = " ".join(field["description"].split())
        return schema


class ModelInfo(Described):
    """Which weights spoke: id, and a revision that changes with them."""

    id: str
    """id or last part of the path that the weights were loaded from"""
    revision: str | None
    """changes with the weights; null for a function without weights"""


class Sample(Described):
    """One sampled answer; `logprob` is its sum in nats, `similarity` that to the answer."""

    text: str
    """as generated, or as given"""
    logprob: float | None
    """sum over its tokens in nats, ≤ 0, under the raw distribution; null where unknown"""
    similarity: float | None
    """to the answer, 0 to 1, mean of both directions; null where none was asked for, or where it is
    the answer"""
    finish_reason: FinishReason
    """what ended it"""


class Token(Described):
    """One token of the answer; log-prob and entropy in nats."""

    text: str
    """its share of the answer's text"""
    logprob: float | None
    """in nats, ≤ 0, under the raw distribution; null where unknown"""
    entropy: float | None
    """of the distribution that it was chosen from, in nats, ≥ 0; null where unknown"""


class Usage(Described):
    """Tokens read and written."""

    prompt_tokens: int
    """of the prompt, ≥ 0, read once for the answer and all samples"""
    completion_tokens: int
    """of the answer and of the reasoning before it, ≥ 0"""
    reasoning_tokens: int
    """of these the reasoning's, ≥ 0"""
    sample_tokens: int
    """of all samples together, ≥ 0"""


class ProbeInfo(Described):
    """The probe behind the light scores, and how far this answer lies from its training set."""

    id: str
    """changes with the probe"""
    training_set: str
    """name of what it was trained on"""
    distance_percentile: float
    """among held-out answers of the training set, 0 to 100"""
    out_of_domain: bool
    """farther than 99 of 100 of them: do not trust the light scores"""


class EntropySplit(Described):
    """What `high_semantic_entropy_light` is the probability of: more entropy than the split."""

    nats: float
    """semantic entropy, ≥ 0, above which it is high"""
    base_rate: float | None
    """share of held-out answers of the probe's training set above the split, 0 to 1; null where
    unknown"""


class Timing(Described):
    """Milliseconds of each stage; `total` also holds what lies between them."""

    queue: float
    """ms, ≥ 0, waiting for a place in the batch"""
    generate: float
    """ms, ≥ 0, of answer and samples"""
    similarity: float
    """ms, ≥ 0, comparing texts"""
    score: float
    """ms, ≥ 0, computing the estimators"""
    total: float
    """ms, ≥ 0, from the request's admission to its result"""


class SampleGroup(Described):
    """Samples that mean the same."""

    text: str
    """the answer, or the group's first sample"""
    is_answer: bool
    """whether they mean the same as the answer"""
    count: int
    """samples in it, ≥ 0"""
    share: float
    """of all samples, 0 to 1"""
    mass: float | None
    """probability of its distinct texts, 0 to 1; null where not known"""
    similarity: float
    """mean similarity to the answer, 0 to 1"""


class DecisionInfo(Described):
    """Whether the answer may pass, and what that promises."""

    accept: bool
    """whether the uncertainty is at most the threshold"""
    threshold: float | None
    """a real number in the estimator's unit; null where the labels allow none"""
    target_error: float
    """largest wanted share of wrong answers among the accepted, 0 to 1"""
    guarantee: str
    """the promise in words"""


class EscalationInfo(Described):
    """A second model was asked, as the first one's answer did not pass."""

    model: str
    """name of the second model"""
    first_text: str
    """answer of the first model, which was scored"""
    error: str | None
    """why there is no second answer; `text` is the first then"""


class Scored(Described):
    """All that is known of how sure a model is of an answer; higher scores mean less sure."""

    mode: Literal["full", "light"]
    """`light` drew no samples"""
    strategy: Strategy
    """how the answer was chosen; `given` where the client brought it"""
    answer_sample: int | None
    """index of the answer, ≥ 0, among the samples, where it is one"""
    estimator: str
    """the one reported as `uncertainty`"""
    degraded: bool
    """whether the uncertainty is `consistency` in place of a better one, as no log-probs are
    known"""
    confidence: float | None
    """probability that the answer is right, 0 to 1, by the calibrator"""
    percentile: float | None
    """percentage of the calibrator's answers that are surer, 0 to 100"""
    confidence_reason: str | None
    """why confidence and percentile are null"""
    calibrator: str | None
    """id of the calibrator behind the confidence"""
    decision: DecisionInfo | None
    """null without `target_error`"""
    escalation: EscalationInfo | None
    """null where none was asked"""
    scores: dict[str, float | None]
    """by estimator, real numbers, each in its own unit; higher is less sure"""
    reasons: dict[str, str]
    """why a score is null"""
    warnings: list[str]
    """what to know before trusting the scores"""
    samples_source: Literal["model", "client"] | None
    """null where there are no samples"""
    num_samples: int
    """how many there are, 0 to 64; with `auto`, were drawn"""
    num_distinct_samples: int
    """different texts among the samples, 0 to 64"""
    stopped_by: Literal["found_mass", "agreement", "max_samples"] | None
    """what ended the waves of samples; null unless num_samples was auto"""
    consistency_std_error: float | None
    """how far the samples pin consistency down, 0 to 1; null without it"""
    found_mass: float | None
    """probability of the answer and the distinct samples together, 0 to 1; null where no estimator
    reads what it is made of"""
    entropy_method: Literal["exact", "topk_bounds"] | None
    """how the entropies of the answer's tokens are known: over the whole vocabulary, or between
    bounds; null where they are not"""
    mte_bounds: list[float] | None
    """least and greatest, ≥ 0, that `mte` can be in nats, where only the likeliest tokens are
    known; they feed no estimator"""
    similarity: str | None
    """similarity function; null where none was asked"""
    similarity_model: ModelInfo | None
    """behind the similarity; null where none was asked"""
    nli_model: ModelInfo | None
    """behind the NLI estimators; null where none was asked"""
    probe: ProbeInfo | None
    """null where no light estimator was asked for, or no probe could read"""
    entropy_split: EntropySplit | None
    """null unless high_semantic_entropy_light was asked for"""
    seed: int | None
    """≥ 0, repeats the samples; null where no model draws any"""
    samples: list[Sample] | None
    """with `return_samples`, else null"""
    explanation: str | None
    """what the samples say, in a sentence; null unless asked for"""
    groups: list[SampleGroup] | None
    """samples by meaning, that of the answer first; null unless asked for"""
    timing_ms: Timing
    """milliseconds of each stage"""
    cached: bool
    """whether the statistics came from the cache"""


class Answered(Described):
    """The answer itself."""

    id: str
    """the request's id, that of X-Request-ID"""
    model: ModelInfo | None
    """null where no model was asked"""
    text: str | None
    """the answer; null where it did not pass and was to be held back; a second model's where
    `escalation` says so"""
    reasoning: str | None
    """what the model wrote before the answer, without its tags; null where it wrote none, or where
    the answer is held back"""
    finish_reason: FinishReason
    """what ended the answer; `length` where it was cut at max_new_tokens"""
    retokenized: bool
    """whether a given answer's text was tokenised again"""
    answer_form: AnswerForm | None
    """how a given answer continues the prompt: as it stands, or after a blank, whichever is
    likelier; null where no model scored one"""
    usage: Usage
    """tokens read and written"""
    uncertainty: float | None
    """its score, a real number in the estimator's unit; higher is less sure; null with its reason
    in `reasons`"""


class GenerateResponse(Scored, Answered):
    """The answer with its scores; higher means less sure."""

    tokens: list[Token] | None
    """of the answer, with `return_tokens`, else null"""


class Fault(Described):
    """One fault of a body."""

    field: str | None
    """dotted path; null where it is the whole body"""
    message: str
    """what is wrong, with its limit"""


class ErrorBody(Described):
    """What went wrong: a stable code, the field at fault, and the id of the request in the logs."""

    code: str
    """stable, for programs"""
    message: str
    """for people; names the limit, and quotes nothing of the request"""
    field: str | None
    """dotted path of the field at fault; null where it is none"""
    details: list[Fault] = []
    """the first faults of an invalid body, that of `field` among them"""
    request_id: str
    """that of X-Request-ID, by which the logs know it"""


class ErrorResponse(Described):
    """Every response that is no success."""

    error: ErrorBody
    """what went wrong"""


class ScoreOutcome(Described):
    """What became of one item: exactly one of the two."""

    result: GenerateResponse | None
    """null where the item failed"""
    error: ErrorBody | None
    """null where it did not"""


class ScoreResults(Described):
    """One outcome an item, in order."""

    results: list[ScoreOutcome]
    """in the order of the items"""


class FeedbackKept(Described):
    """A label that is durable."""

    id: str
    """of the answer"""
    quality: float
    """0 to 1: 1 is right, 0 is wrong"""
    task: str | None
    """the calibrator's group that it counts to"""
