"""Pure: the checks of an ask before any work. No other file of the core refuses one for its fields.

The number of pairs is known beforehand of given texts only. Generated texts are held to the same
bounds by `check_pairs` and `check_relevance` once it is there.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter

from app.scoring.ask import PARTS, Ask
from app.scoring.deployment import AskLimits, Deployment, Models
from app.scoring.derive import of_nli, of_similarity
from app.scoring.plan import NO_CALIBRATOR, STRATEGY_NEEDS, Calibrated, Plan
from app.scoring.questions import given_sequence, read_by_token, subject_of
from models.calibration import Calibrator
from models.errors import (
    CocoaError,
    Forbidden,
    InvalidRequest,
    LightNeedsHiddenStates,
    NotCalibrated,
    ProbeMissing,
    StatisticUnavailable,
)
from models.estimators import needs
from models.images import images_of, num_bytes
from models.records import DEFAULT_NEW_TOKENS, SamplingParams
from models.similarity import not_known
from models.similarity.pairs import PairTable
from models.statistics import reads_samples, supplied_by
from models.units.parts import split
from models.units.schemas import check_schema
from workers.protocol import GeneratorInfo

# Below these the sampling law is the greedy one, and inconsistency 0 by construction.
MIN_SAMPLING_TEMPERATURE = 0.05
MIN_SAMPLING_TOP_P = 0.05

# A field of the ask and what is wrong with it, or an error of another kind.
Faults = Iterator[tuple[str, str] | CocoaError]


def check(plan: Plan, deployment: Deployment, *, is_streamed: bool = False) -> None:
    """Refuse an ask that cannot be done here, exceeds a limit, or contradicts itself.

    Raises:
        Forbidden: the caller's key does not allow it.
        InvalidRequest: names the field, and the limit or what is missing.
    """
    for fault in _faults(plan, deployment, is_streamed=is_streamed):
        if isinstance(fault, CocoaError):
            raise fault
        field, message = fault
        raise InvalidRequest(message, field=field)


def _faults(plan: Plan, deployment: Deployment, *, is_streamed: bool) -> Faults:
    """Faults of an ask; the first one is raised."""
    ask, models, limits = plan.ask, deployment.models, deployment.limits
    if ask.mode not in ask.caller.modes or "light" not in ask.caller.modes:
        yield from _of_caller(plan)
    if plan.similarity not in models.similarity_scorers:
        yield "similarity", not_known(plan.similarity, sorted(models.similarity_scorers))
    if ask.light or plan.read & supplied_by("probe"):
        yield from _of_light(plan)
    if not plan.read <= plan.available:
        yield from _of_statistics(plan)
    if ask.units not in (None, "answer"):
        yield from _of_units(plan)
    if ask.samples is None and reads_samples(plan.statistics):
        yield from _of_sampling(ask.sampling)
    if 0.0 < ask.sampling.answer_temperature < MIN_SAMPLING_TEMPERATURE:
        yield "answer_temperature", f"must be 0, or at least {MIN_SAMPLING_TEMPERATURE}"
    if ask.answer is not None or ask.samples or ask.claims or ask.documents:
        yield from _of_texts(ask, limits)
    yield from _of_generator(plan, models.generator)
    if ask.has_images:
        yield from _of_images(ask, models.generator, limits)
    yield from _of_decisions(plan, deployment)
    if is_streamed:
        yield from _of_streams(plan)
    if ask.answer is not None and ask.samples is not None:
        _check_given(plan, models, limits)


def _of_caller(plan: Plan) -> Faults:
    """Modes that the caller's key does not allow."""
    ask = plan.ask
    if ask.mode not in ask.caller.modes:
        yield Forbidden(f"this key may not ask for mode {ask.mode}", field="light")
    for name in _reading(plan, supplied_by("probe")):
        message = f"this key may not ask for mode light, and {name} is of that mode"
        yield Forbidden(message, field=_named_by(name, ask))


def _of_light(plan: Plan) -> Faults:
    """Light mode draws no samples, and a probe reads the greedy answer only."""
    ask, no_samples = plan.ask, "in light mode, which draws no samples"
    if plan.strategy not in ("greedy", "given"):
        field = {"sample": "answer_temperature"}.get(plan.strategy, "strategy")
        for name in _reading(plan, supplied_by("probe")):
            yield field, f"must be left out for {name}, which reads the greedy answer"
        if ask.light:
            yield field, f"must be left out {no_samples}"
    if not ask.light:
        return
    for name in plan.estimators:
        if reads_samples(needs([name])):
            yield _named_by(name, ask), f"{name} reads samples, which light mode does not draw"
    for field in ("return_samples", "explain"):
        if getattr(ask, field):
            yield field, f"must be false {no_samples}"


def _of_statistics(plan: Plan) -> Faults:
    """Estimators and strategies that read what cannot be known here."""
    # Scoring what exists already is best effort: what was not given is null with its reason.
    if plan.strategy != "given":
        yield from _of_estimators(plan)
    if missing := STRATEGY_NEEDS[plan.strategy] - plan.available:
        names = ", ".join(sorted(missing))
        message = f"{plan.strategy} reads {names}, which cannot be supplied here"
        yield StatisticUnavailable(message, field="strategy")


def _of_units(plan: Plan) -> Faults:
    ask, available = plan.ask, plan.available
    if isinstance(ask.json_schema, Mapping) and ask.grammar is None:
        check_schema(ask.json_schema)
    if ask.documents is None and available.isdisjoint({"sample_texts", "answer_token_texts"}):
        yield "units", "needs samples, or a prompt: of parts of the answer nothing is known without"


def _of_documents(ask: Ask) -> Faults:
    """Documents that the model is not shown."""
    messages = ask.messages or ()
    if ask.documents_in == "prompt":
        shown = "\0".join([ask.prompt or "", *map(str, map(itemgetter("content"), messages))])
        for number, document in enumerate(ask.documents or ()):
            if document["text"] not in shown:
                yield f"documents.{number}", "does not stand in the prompt, word for word"
    elif not ask.documents or not ask.has_prompt or ask.documents_in == "tools":
        return
    elif ask.prompt is not None:
        yield "documents_in", "must be prompt beside a raw prompt, which is continued as it stands"
    elif "user" not in map(itemgetter("role"), messages):
        yield "documents", "go before a message of the user, and there is none"


def _of_estimators(plan: Plan) -> Faults:
    """Estimators that were named, or in light mode any, which read what is not supplied."""
    ask, absent = plan.ask, plan.absent
    # All that light mode is for stands and falls with a probe; null scores would hide that there
    # is none.
    names = plan.estimators
    if not ask.light:
        names = tuple(filter(None, (*(ask.estimators or ()), ask.primary)))
    for name in names:
        missing, field = sorted(needs([name]) - plan.available), _named_by(name, ask)
        if unread := [needed for needed in missing if needed in supplied_by("probe")]:
            for statistic in filter(absent.__contains__, unread):
                message = f"{name} needs a probe: {absent[statistic]}"
                yield LightNeedsHiddenStates(message, field=field)
            yield ProbeMissing(
                f"{name} needs a probe for this model, and none is loaded: train one with "
                "`cocoa probe collect` and `cocoa probe train`",
                field=field,
            )
        if missing:
            reasons = dict.fromkeys(absent[needed] for needed in missing if needed in absent)
            message = f"{name} reads {', '.join(missing)}, which this deployment cannot supply"
            yield StatisticUnavailable("; ".join((message, *reasons)), field=field)


def _of_sampling(sampling: SamplingParams) -> Faults:
    """Sampling under which every sample repeats the answer."""
    because = "where samples are drawn: below, every sample repeats the answer"
    if sampling.temperature < MIN_SAMPLING_TEMPERATURE:
        yield "temperature", f"must be at least {MIN_SAMPLING_TEMPERATURE} {because}"
    if sampling.top_k == 1:
        yield "top_k", f"must be 0 or at least 2 {because}"
    if sampling.top_p < MIN_SAMPLING_TOP_P:
        yield "top_p", f"must be at least {MIN_SAMPLING_TOP_P} {because}"


def _of_texts(ask: Ask, limits: AskLimits) -> Faults:
    """Given texts that are too long, and answers with too many parts."""
    texts: dict[str, str] = {}
    if ask.answer is not None:
        texts["answer"] = ask.answer.text
    for number, sample in enumerate(ask.samples or ()):
        texts[f"samples.{number}.text"] = sample.text
    for number, claim in enumerate(ask.claims or ()):
        texts[f"claims.{number}.text"] = claim.text
    for field, text in texts.items():
        if len(text) > limits.max_text_characters:
            yield field, f"must have at most {limits.max_text_characters} characters"
    yield from _of_documents(ask)
    if len(ask.claims or ()) > limits.max_units:
        yield "claims", f"must be at most {limits.max_units}"
    if ask.answer is None or ask.units not in ("fields", "sentences"):
        return
    if not split(given_sequence(ask.answer.text), ask.units, max_units=limits.max_units).is_whole:
        yield "answer", f"must have at most {limits.max_units} {ask.units} where units are told"


def _of_generator(plan: Plan, generator: GeneratorInfo) -> Faults:
    """Options that the language model here lacks."""
    ask, sampling, no_limit = plan.ask, plan.ask.sampling, generator.no_reasoning_limit
    most = sampling.max_new_tokens or DEFAULT_NEW_TOKENS
    for field in ("max_reasoning_tokens", "max_sample_reasoning_tokens"):
        bound = getattr(sampling, field)
        if bound is not None and no_limit:
            yield field, f"is not heeded here: {no_limit}"
        if bound is not None and bound >= most:
            yield field, f"must be less than max_new_tokens, which is {most}"
    if ask.grammar is not None:
        if generator.no_grammar:
            yield "grammar", f"is not heeded here: {generator.no_grammar}"
        if sampling.stop and not ask.requires_call:
            yield "stop", "must be left out where an answer is held to a format"
    if ask.num_tops:
        yield from _of_tops(plan, generator)


def _of_tops(plan: Plan, generator: GeneratorInfo) -> Faults:
    """Likeliest tokens that the language model here does not tell."""
    ask = plan.ask
    if plan.is_chosen:
        message = f"are told of greedy and of drawn answers: {ask.strategy} chooses among samples"
        yield "num_tops", message
    if not generator.max_tops:
        yield "num_tops", "the model here tells no likeliest tokens"
    if ask.num_tops > generator.max_tops:
        yield "num_tops", f"must be at most {generator.max_tops} with the model here"
    is_drawn = plan.strategy == "sample" or ask.num_shown > 1
    if is_drawn and "sample_token_logprobs" not in generator.statistics:
        reason = generator.absent.get("sample_token_logprobs", "the model here tells none")
        yield "num_tops", f"are told of greedy answers alone, at temperature 0: {reason}"


def _of_images(ask: Ask, generator: GeneratorInfo, limits: AskLimits) -> Faults:
    """Images that the model does not read, too many or too large ones, and too many URLs."""
    num_urls = 0
    for number, (field, url) in enumerate(images_of(ask.messages or ())):
        if generator.no_images:
            yield field, f"is not heeded here: {generator.no_images}"
        if number >= limits.max_images:
            yield field, f"at most {limits.max_images} images are taken"
        size = num_bytes(url)
        if size is not None and size > limits.max_image_bytes:
            yield field, f"an image may have at most {limits.max_image_bytes} bytes"
        num_urls += size is None
        if num_urls > limits.max_image_urls:
            yield field, f"at most {limits.max_image_urls} images are fetched here: send data: URLs"
    if ask.tools:
        yield "tools", "cannot be shown beside images"


def _of_decisions(plan: Plan, deployment: Deployment) -> Faults:
    """Decisions without a calibration."""
    ask, has_target = plan.ask, plan.ask.target_error is not None
    if ask.on_unit_reject != "keep":
        yield from _of_unit_reject(ask)
    if ask.units in PARTS and has_target:
        yield from _of_target(ask, plan.unit_calibrated)
    if ask.on_reject != "answer" and not has_target:
        yield "on_reject", "needs target_error"
    if ask.hand_over_below is not None and not has_target:
        yield "hand_over_below", "needs target_error"
    if ask.calibration is not None:
        yield from _of_group(ask.calibration, deployment.calibrator)
    if has_target and (ask.units not in PARTS or ask.on_reject != "answer"):
        yield from _of_target(ask, plan.calibrated)


def _of_unit_reject(ask: Ask) -> Faults:
    message = ""
    if ask.units not in PARTS or ask.target_error is None:
        message = "needs target_error, and units fields, sentences or claims"
    elif ask.units == "claims" and ask.on_unit_reject == "remove":
        message = "must be keep or abstain with units claims, which share words of the answer"
    elif ask.tools and ask.on_unit_reject == "remove":
        message = "must be keep or abstain where tools may be called: a call is made as a whole"
    if message:
        yield "on_unit_reject", message


def _of_group(group: str, calibrator: Calibrator | None) -> Faults:
    if calibrator is None:
        yield NotCalibrated(NO_CALIBRATOR, field="calibration")
    elif group not in calibrator.groups:
        yield "calibration", f"must be one of {', '.join(calibrator.groups)}"


def _of_target(ask: Ask, calibrated: Calibrated | str) -> Faults:
    """A target error for which no threshold was calibrated."""
    if isinstance(calibrated, str):
        if ask.tools or ask.documents is not None:
            units = ask.names.get("units", "units")
            calibrated += f"; {units} says what is judged: fields, the values of calls, or answer"
        yield NotCalibrated(calibrated, field="target_error")
        return
    thresholds = calibrated.calibration.thresholds
    known = {one.target_error: f"{one.target_error:g}" for one in thresholds}
    if ask.target_error not in known:
        yield "target_error", f"must be one of {', '.join(known.values())}"


def _of_streams(plan: Plan) -> Faults:
    """An answer that is chosen among finished samples, or may be held back."""
    ask, read_before = plan.ask, "where tokens are streamed: they are read before the decision"
    if plan.is_chosen:
        message = "must be greedy where tokens are streamed: others choose among samples"
        yield "strategy", message
    if ask.on_reject != "answer":
        yield "on_reject", f"must be answer {read_before}"
    if ask.on_unit_reject != "keep":
        yield "on_unit_reject", f"must be keep {read_before}"


def _check_given(plan: Plan, models: Models, limits: AskLimits) -> None:
    """Refuse given texts that make too many pairs."""
    ask, subject = plan.ask, subject_of(plan.ask, None)
    similarity_scorer = models.similarity_scorers[plan.similarity]
    contexts = [""] * len(read_by_token(plan, subject))
    similarity = PairTable.noting(similarity_scorer.labels)
    if not similarity_scorer.rules.by_words:  # which asks no model
        of_similarity(plan, subject, contexts, similarity)
    check_pairs(ask, len(similarity.scores), limits)
    if models.nli is not None:
        nli = PairTable.noting(models.nli.labels)
        of_nli(plan, subject, nli)
        check_pairs(ask, len(nli.scores), limits)


def check_pairs(ask: Ask, num_pairs: int, limits: AskLimits) -> None:
    """Refuse more pairs than one ask may have.

    Raises:
        InvalidRequest: names the field that makes them many.
    """
    if num_pairs <= limits.max_pairs:
        return
    field = "estimators"
    if ask.samples is not None:
        field = "samples"
    elif ask.units is not None:
        field = "units"
    message = f"takes {num_pairs} pairs of texts to compare, and may take {limits.max_pairs}"
    raise InvalidRequest(message, field=field)


def check_relevance(
    contexts: Sequence[str], token_texts: Sequence[Sequence[str]], limits: AskLimits
) -> None:
    """Refuse sequences that, each read after its context without each token, take too much memory.

    Raises:
        InvalidRequest: names both numbers.
    """
    num_characters, most = 0, limits.max_relevance_characters
    for context, texts in zip(contexts, token_texts, strict=True):
        num_characters += len(texts) * (len(context) + sum(map(len, texts)))
    if num_characters > most:
        message = f"takes {num_characters} characters to compare by token, and may take {most}"
        raise InvalidRequest(message, field="estimators")


def _reading(plan: Plan, statistics: frozenset[str]) -> Iterator[str]:
    return (name for name in plan.estimators if needs([name]) & statistics)


def _named_by(estimator: str, ask: Ask) -> str:
    """The field of the ask by which an estimator came in."""
    if estimator in (ask.estimators or ()):
        return "estimators"
    if estimator == ask.primary:
        return "primary"
    return "light"
