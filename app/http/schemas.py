"""Bodies of responses: shapes, no logic. What stands behind scores is in `Provenance`."""

from typing import Annotated, Any, Literal

from pydantic import Field

from app.http.described import ABSENT, Described
from app.scoring.explaining import SampleGroup
from app.scoring.judging import DecisionInfo
from app.scoring.selection import Strategy
from models.records import AnswerForm, FinishReason
from models.units.unit import Kind

Range = Annotated[list[int], Field(min_length=2, max_length=2)]


class ModelInfo(Described):
    """Which weights spoke: id, and a revision that changes with them."""

    id: str
    """id or last part of the path that the weights were loaded from"""
    revision: str | None
    """changes with the weights; null for a function without weights"""


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


class Provenance(Described):
    """What stands behind the scores, for whoever checks or repeats them."""

    model: ModelInfo = ABSENT
    """that wrote or read the answer; absent where none was asked"""
    mode: Literal["full", "light"]
    """`light` drew no samples"""
    strategy: Strategy
    """how the answer was chosen; `given` where the client brought it"""
    answer_sample: int = ABSENT
    """index of the answer, ≥ 0, among the samples, where it is one"""
    retokenized: bool = ABSENT
    """of a given answer: whether its text was tokenised again"""
    answer_form: AnswerForm = ABSENT
    """of a given answer that a model read: how it continues the prompt, as it stands or after a
    blank, whichever is likelier"""
    samples_source: Literal["model", "client"] = ABSENT
    """who drew the samples; absent where there are none"""
    num_samples: int = ABSENT
    """how many samples there are, 1 to 64; absent where there are none"""
    samples_left_out: int = ABSENT
    """how many further samples the model's server refused or its filter cut, 1 to 64; absent where
    none"""
    num_distinct_samples: int = ABSENT
    """different texts among the samples, 1 to 64; absent where there are none"""
    sample_limit: int = ABSENT
    """tokens at which a longer sample ended, ≥ 32: twice the answer's, if that is more; absent
    where samples were drawn to their own end"""
    seed: int = ABSENT
    """≥ 0, repeats the samples that a model drew"""
    similarity: str = ABSENT
    """similarity function, where one was asked"""
    similarity_model: ModelInfo = ABSENT
    """behind the similarity"""
    nli_model: ModelInfo = ABSENT
    """behind the NLI estimators and the support of sentences and claims, where one is asked for"""
    unit_pairs: int = ABSENT
    """with `units` sentences or claims: pairs of a part of a sample and one of them that the NLI
    model reads, ≥ 0, be it from the cache"""
    inconsistency_std_error: float = ABSENT
    """how far the samples pin inconsistency down, 0 to 1, where they were compared"""
    degraded: bool
    """whether the uncertainty is `inconsistency` in place of a better one, as no log-probs are
    known"""
    probe: ProbeInfo = ABSENT
    """that predicted the light scores, where it could read the answer"""
    sentence_probe: ProbeInfo = ABSENT
    """that predicted the light scores of sentences; its distance is that of the farthest one"""
    entropy_split: EntropySplit = ABSENT
    """with high_semantic_entropy_light"""
    percentile: float = ABSENT
    """percentage of the calibrator's answers that are surer, 0 to 100; with a confidence"""
    calibrator: str = ABSENT
    """id of the calibrator behind the confidence"""


class Alternative(Described):
    """What samples have in the place of a part."""

    value: str | None
    """of a field as JSON, null for samples that have none there; of a sentence or claim a sentence
    of samples that deny it"""
    share: float
    """of all samples, 0 to 1"""


class MissingField(Described):
    """What samples have and the answer lacks."""

    path: str
    """JSON Pointer; `-` for an element of an array"""
    share: float
    """of all samples, 0 to 1"""


class UnitDecision(Described):
    """Whether a part may pass."""

    accept: bool
    """whether its uncertainty is at most the threshold of `units_decision`"""
    removed: bool = ABSENT
    """with `on_unit_reject` remove: whether `refined_text` is without it"""
    reason: str = ABSENT
    """why it does not pass, and why it stays where it was to be removed"""


class UnitDocuments(Described):
    """What the documents of the request say of a sentence or claim."""

    grounded: float
    """share, 0 to 1, of what it adds to its question that stands in one document"""
    id: str = ABSENT
    """of the document that says most of it; absent where none says any"""
    span: Range = ABSENT
    """where that one does: the first character in its text, ≥ 0, and the one behind the last"""
    missing: list[str]
    """numbers and names that it adds to its question, and that stand in no document"""
    contradicted_by: list[str] = ABSENT
    """ids of the documents that deny it, where an NLI model judges them"""


class UnitInfo(Described):
    """A part of the answer, with its own scores; what its kind has not is absent."""

    kind: Kind
    """`answer` is all of it"""
    text: str
    """what it says; of a field the JSON text of its value, of a sentence as it stands in `text`"""
    path: str = ABSENT
    """JSON Pointer (RFC 6901) of a field"""
    span: Range = ABSENT
    """its first character in `text`, ≥ 0, and the one behind its last; of a claim those of its
    quotes, absent where one does not occur"""
    spans: list[Range] = ABSENT
    """of a claim with several quotes: where each stands in `text`, characters ≥ 0"""
    tokens: Range = ABSENT
    """its first token, ≥ 0, and the one behind its last; absent where it has none; of what lies
    between the quotes of a claim no token is its own"""
    support: float = ABSENT
    """mean over the samples of how far each says the same, 0 to 1; absent without samples"""
    contradiction: float = ABSENT
    """of a sentence or claim, by an NLI model: how far the samples deny it, 0 to 1, their mean"""
    contradicted_by: list[int] = ABSENT
    """of a sentence or claim: indices, ≥ 0, of the samples that deny it rather than say it"""
    out_of_domain: bool = ABSENT
    """of a sentence that a probe has read: whether it lies farther from what the probe was trained
    on than 99 of 100 held-out ones: do not trust its light scores"""
    alternatives: list[Alternative] = ABSENT
    """of a field the samples' values, of a sentence or claim what those say that deny it, at most
    three; the most frequent first"""
    missing: list[MissingField] = ABSENT
    """of the whole answer: fields that only samples have"""
    documents: UnitDocuments = ABSENT
    """of a sentence or claim, with `documents`: what they say of it"""
    estimator: str | None
    """whose score is the uncertainty; null where none that was asked for is defined for parts"""
    uncertainty: float | None
    """its score, a real number; higher is less sure; null with the reason of that score"""
    confidence: float | None = ABSENT
    """of a part: probability that it is right, 0 to 1, by the calibrator; null where it has no
    uncertainty, or for `reasons` of the response"""
    decision: UnitDecision = ABSENT
    """of a part, with `target_error`"""
    scores: dict[str, float | None]
    """by estimator, those that are defined for this kind and known of the answer; real numbers,
    higher is less sure"""
    reasons: dict[str, str]
    """why a score is null"""


class FunctionInfo(Described):
    """A tool, and what it is called with."""

    name: str
    """of the tool"""
    arguments: str
    """a JSON object, as the model wrote it"""


class ToolCallInfo(Described):
    """A call that the model asks for."""

    id: str
    """by which the message with its result names it"""
    type: Literal["function"] = "function"
    """always function"""
    function: FunctionInfo
    """the tool and its arguments"""
    extra_content: dict[str, Any] = ABSENT
    """what the model's server wants back with it, such as Gemini's signature of thoughts"""


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
    """what ended it, as of the answer; `sample_limit` where it was longer than provenance says"""


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


class Scored(Described):
    """How sure a model is of an answer; higher scores mean less sure."""

    estimator: str
    """the one reported as the uncertainty"""
    confidence: float | None
    """probability that the answer is right, 0 to 1, by the calibrator; null with its reason"""
    support: float = ABSENT
    """share of the samples that mean the same as the answer, 0 to 1; higher is surer; no
    probability, and needs no calibrator; absent where no samples were compared with it"""
    grounded: float | None = ABSENT
    """with `documents`: how far they say the answer, 0 to 1, the mean over its sentences or claims
    that say something; higher is better; no probability; null with its reason"""
    decision: DecisionInfo = ABSENT
    """with `target_error`"""
    scores: dict[str, float | None]
    """by estimator, real numbers, each in its own unit; higher is less sure; null with its
    reason"""
    reasons: dict[str, str]
    """why a score, or a field of this object, is null: by its name"""
    warnings: list[str]
    """what to know before trusting the scores"""
    explanation: str | None = ABSENT
    """with `explain`: what the samples say, in a sentence; null with its reason"""
    groups: list[SampleGroup] | None = ABSENT
    """with `explain`: samples by meaning, that of the answer first; null with its reason"""
    confidence_interval: Annotated[list[float], Field(min_length=2, max_length=2)] | None = ABSENT
    """with `explain`: between which confidences 90 % of other draws of as many samples would lie,
    0 to 1; null with its reason"""
    units: list[UnitInfo] | None = ABSENT
    """with `units`: the answer, then its parts; null where the answer is held back"""
    units_mean: float | None = ABSENT
    """with `units`: mean uncertainty of the parts, a real number; null where none has any"""
    units_max: float | None = ABSENT
    """with `units`: greatest uncertainty of the parts, a real number; null where none has any"""
    units_decision: DecisionInfo = ABSENT
    """with `units` and `target_error`: whether all parts pass, and what passing promises"""
    refined_text: str | None = ABSENT
    """with `on_unit_reject` remove: the answer with null in place of the values that do not pass;
    null with its reason"""
    samples: list[Sample] | None = ABSENT
    """with `return_samples`; null where the answer is held back"""
    timing_ms: Timing
    """milliseconds of each stage"""
    cached: bool
    """whether the statistics came from the cache"""
    provenance: Provenance
    """what stands behind the scores"""


class Answered(Described):
    """The answer itself."""

    id: str
    """the request's id, that of X-Request-ID"""
    text: str | None
    """the answer; null where it did not pass and was to be held back"""
    reasoning: str | None = ABSENT
    """what the model wrote before the answer, without its tags; absent where it wrote none; null
    where the answer is held back"""
    refusal: str = ABSENT
    """what the model's server says in place of an answer, which has no scores then; absent where it
    gives one"""
    finish_reason: FinishReason
    """what ended the answer: `stop`; `length` where it was cut at max_new_tokens; `content_filter`
    where the model's server cut it; `given` where the client brought it; or another word of the
    model's server"""
    usage: Usage
    """tokens read and written"""
    uncertainty: float | None
    """the score of `estimator`, a real number in its unit; higher is less sure; null with the
    reason of that score"""


class GenerateResponse(Scored, Answered):
    """The answer with its scores; higher means less sure."""

    tokens: list[Token] | None = ABSENT
    """of the answer, with `return_tokens`; null where it is held back, or they are not known"""
    tool_calls: list[ToolCallInfo] | None = ABSENT
    """with `tools`: those that the answer makes, in their order; null where it is held back"""


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
    details: list[Fault] = []  # noqa: RUF012 - pydantic copies it for each body
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
