"""Pure: what an ask may not want, how much text it may bring, and how many pairs it may take.

The deadline bounds the time of an ask; the amounts bound its memory, and what it holds in a queue.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from app.scoring.ask import Ask
from models.engines.protocol import check_grammar
from models.errors import (
    InvalidRequest,
    LightNeedsHiddenStates,
    ProbeMissing,
    StatisticUnavailable,
)
from models.estimators import READ_DISTINCT, needs
from models.records import DEFAULT_NEW_TOKENS
from models.similarity.align import sentences
from models.statistics import PROBE_STATISTICS, reads_samples
from models.units.json_values import leaves, parsed
from models.units.sentences import sentence_spans

# Below these the sampling law is the greedy one, and consistency 0 by construction.
MIN_SAMPLING_TEMPERATURE = 0.05
MIN_SAMPLING_TOP_P = 0.05


@dataclass(frozen=True, slots=True)
class AskLimits:
    """Bounds of an ask.

    Attributes:
        max_text_characters: of a given answer, of each given sample, and of each given claim.
        max_text_sentences: of the same texts, where they are compared by sentences.
        max_pairs: ordered pairs that one pair model reads for an ask: distinct ones of texts, or,
            where texts are compared by sentences, all their cells.
        max_units: parts of one answer that are told; a given answer with more is refused.
        max_claim_tokens: of the reply in which a model splits an answer into claims; at most half
            of its context in any case.
        max_images: in the messages of an ask.
        max_image_bytes: of each of them.
        max_image_urls: of the images, those that may be named by https URLs, which the server of
            the model then fetches from wherever they point to, its own network among it.
        max_relevance_characters: of an ask's texts without each of their tokens, which token
            relevance compares: the sum over sequences of their tokens times their characters.
    """

    max_text_characters: Annotated[int, Ge(1)] = 32_768
    max_text_sentences: Annotated[int, Ge(1)] = 256
    max_pairs: Annotated[int, Ge(1)] = 65_536
    max_units: Annotated[int, Ge(1)] = 1024
    max_claim_tokens: Annotated[int, Ge(1)] = 2048
    max_images: Annotated[int, Ge(0)] = 8
    max_image_bytes: Annotated[int, Ge(1)] = 500_000
    max_image_urls: Annotated[int, Ge(0)] = 0
    max_relevance_characters: Annotated[int, Ge(1)] = 100_000_000


def check_texts(ask: Ask, limits: AskLimits, *, by_sentence: bool) -> None:
    """Refuse given texts that are too long.

    Args:
        ask: with an answer and samples, or without.
        limits: of one text.
        by_sentence: whether its texts are compared by sentences.

    Raises:
        InvalidRequest: names the first text that is too long, and its limit.
    """
    texts = {}
    if ask.answer is not None:
        texts["answer"] = ask.answer.text
    for number, sample in enumerate(ask.samples or ()):
        texts[f"samples.{number}.text"] = sample.text
    for number, claim in enumerate(ask.claims or ()):
        texts[f"claims.{number}.text"] = claim.text
    for field, text in texts.items():
        if len(text) > limits.max_text_characters:
            message = f"must have at most {limits.max_text_characters} characters"
            raise InvalidRequest(message, field=field)
        if by_sentence and len(sentences(text)) > limits.max_text_sentences:
            message = f"must have at most {limits.max_text_sentences} sentences for this similarity"
            raise InvalidRequest(message, field=field)
    if len(ask.claims or ()) > limits.max_units:
        raise InvalidRequest(f"must be at most {limits.max_units}", field="claims")
    if ask.units == "fields" and ask.answer is not None:
        value = parsed(ask.answer.text)
        if value is not None and len(list(leaves(value))) > limits.max_units:
            message = f"must have at most {limits.max_units} fields where units are told"
            raise InvalidRequest(message, field="answer")
    if ask.units == "sentences" and ask.answer is not None:
        num_sentences = len(sentence_spans(ask.answer.text))
        if num_sentences > limits.max_units:
            message = f"must have at most {limits.max_units} sentences where units are told"
            raise InvalidRequest(message, field="answer")


def check_relevance(
    contexts: Sequence[str], token_texts: Sequence[Sequence[str]], limits: AskLimits
) -> None:
    """Refuse sequences whose texts without each of their tokens take too much memory.

    Args:
        contexts: what each sequence is read after.
        token_texts: of each sequence.
        limits: of all together.

    Raises:
        InvalidRequest: names both numbers.
    """
    num_characters = 0
    for context, texts in zip(contexts, token_texts, strict=True):
        num_characters += len(texts) * (len(context) + sum(map(len, texts)))
    if num_characters > limits.max_relevance_characters:
        most = limits.max_relevance_characters
        message = f"takes {num_characters} characters to compare by token, and may take {most}"
        raise InvalidRequest(message, field="estimators")


def missing_statistics(estimator: str, available: frozenset[str]) -> list[str]:
    """Statistics that an estimator reads and that cannot be supplied."""
    return sorted(needs([estimator]) - available)


def check_available(
    ask: Ask, estimators: Sequence[str], available: frozenset[str], absent: Mapping[str, str]
) -> None:
    """Refuse estimators that were named, or in light mode any, which read what nobody supplies.

    Raises:
        StatisticUnavailable: names the estimator, what it reads, and why that is missing.
    """
    named = list(ask.estimators or ())
    if ask.primary is not None:
        named.append(ask.primary)
    # All that light mode is for stands and falls with a probe; null scores would hide that there
    # is none.
    for name in estimators if ask.light else named:
        missing = missing_statistics(name, available)
        reasons = [absent[statistic] for statistic in missing if statistic in absent]
        if unread := sorted(PROBE_STATISTICS & set(missing) & absent.keys()):
            message = f"{name} needs a probe: {absent[unread[0]]}"
            raise LightNeedsHiddenStates(message, field=named_by(name, ask))
        if PROBE_STATISTICS & set(missing):
            raise ProbeMissing(
                f"{name} needs a probe for this model, and none is loaded: train one with "
                "`cocoa probe collect` and `cocoa probe train`",
                field=named_by(name, ask),
            )
        if missing:
            raise StatisticUnavailable(
                f"{name} reads {', '.join(missing)}, which this deployment cannot supply"
                + "".join(f"; {reason}" for reason in dict.fromkeys(reasons)),
                field=named_by(name, ask),
            )


def named_by(estimator: str, ask: Ask) -> str:
    """The field of the ask by which an estimator came in."""
    if estimator in (ask.estimators or ()):
        return "estimators"
    if estimator == ask.primary:
        return "primary"
    return "light"


def check_reasoning(ask: Ask, no_limit: str) -> None:
    """Refuse a bound of a reasoning that would bound nothing.

    Args:
        ask: that may name one.
        no_limit: why the model here heeds none; "" where it does.

    Raises:
        InvalidRequest: nobody heeds it, or it leaves no token for an answer; says why.
    """
    sampling = ask.sampling
    most = sampling.max_new_tokens or DEFAULT_NEW_TOKENS
    for field in ("max_reasoning_tokens", "max_sample_reasoning_tokens"):
        bound = getattr(sampling, field)
        if bound is None:
            continue
        if no_limit:
            raise InvalidRequest(f"is not heeded here: {no_limit}", field=field)
        if bound >= most:
            raise InvalidRequest(f"must be less than max_new_tokens, which is {most}", field=field)


def check_format(ask: Ask, no_grammar: str) -> None:
    """Refuse a grammar that nobody follows, or with which a stop string would cut the answer.

    Args:
        ask: that has one.
        no_grammar: why the model here follows none; "" where it does.

    Raises:
        InvalidRequest: says why.
    """
    check_grammar(no_grammar)
    if ask.sampling.stop:
        raise InvalidRequest("must be left out where an answer is held to a format", field="stop")


def check_escalation(ask: Ask, *, has_second: bool) -> None:
    """Refuse to ask a second model where there is none, or one that would not see what is asked.

    Raises:
        InvalidRequest: says why.
    """
    if ask.on_reject != "escalate":
        return
    if not has_second:
        message = "no second model is set: see COCOA_ESCALATION__URL"
        raise InvalidRequest(message, field="on_reject")
    if ask.has_images:
        raise InvalidRequest("a second model is shown no images", field="on_reject")
    if ask.tools:
        raise InvalidRequest("a second model is shown no tools", field="on_reject")


def check_distinct(ask: Ask, estimators: Sequence[str], no_distinct: str) -> None:
    """Refuse draws that do not repeat where something would count them, or nobody draws them.

    Args:
        ask: that wants them.
        estimators: that are scored.
        no_distinct: why draws may repeat here; "" where they need not.

    Raises:
        InvalidRequest: names the field, and why.
    """
    if no_distinct:
        raise InvalidRequest(f"must be false here: {no_distinct}", field="distinct")
    why = "with distinct, whose samples are not drawn as often as the model would say them"
    if ask.answer is not None or ask.strategy != "greedy":
        raise InvalidRequest(f"must be greedy {why}", field="strategy")
    for name in estimators:
        if name not in READ_DISTINCT and reads_samples(needs([name])):
            message = f"{name} counts samples: it cannot be had {why}"
            raise InvalidRequest(message, field=named_by(name, ask))
    if ask.explain:
        raise InvalidRequest(f"must be false {why}", field="explain")
    if ask.units not in (None, "answer"):
        raise InvalidRequest(f"must be answer {why}", field="units")


def check_light(ask: Ask, estimators: Sequence[str]) -> None:
    """Light mode draws no samples, and a probe reads the greedy answer only."""
    if ask.answer is None and ask.strategy != "greedy":
        if reading := [name for name in estimators if needs([name]) & PROBE_STATISTICS]:
            message = f"must be greedy for {reading[0]}, which reads the greedy answer"
            raise InvalidRequest(message, field="strategy")
        if ask.light:
            message = "must be greedy in light mode, which draws no samples"
            raise InvalidRequest(message, field="strategy")
    if not ask.light:
        return
    if sampled := [name for name in estimators if reads_samples(needs([name]))]:
        message = f"{sampled[0]} reads samples, which light mode does not draw"
        raise InvalidRequest(message, field=named_by(sampled[0], ask))
    if ask.return_samples:
        message = "must be false in light mode, which draws no samples"
        raise InvalidRequest(message, field="return_samples")
    if ask.explain:
        message = "must be false in light mode, which draws no samples"
        raise InvalidRequest(message, field="explain")


def check_sampling(ask: Ask) -> None:
    """Refuse sampling under which every sample repeats the answer.

    Raises:
        InvalidRequest: names the parameter and its bound.
    """
    sampling = ask.sampling
    because = "where samples are drawn: below, every sample repeats the answer"
    if sampling.temperature < MIN_SAMPLING_TEMPERATURE:
        message = f"must be at least {MIN_SAMPLING_TEMPERATURE} {because}"
        raise InvalidRequest(message, field="temperature")
    if sampling.top_k == 1:
        raise InvalidRequest(f"must be 0 or at least 2 {because}", field="top_k")
    if sampling.top_p < MIN_SAMPLING_TOP_P:
        message = f"must be at least {MIN_SAMPLING_TOP_P} {because}"
        raise InvalidRequest(message, field="top_p")
