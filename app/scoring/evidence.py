"""Pure: which text is y*, what must be compared for it, and what follows from the answers.

Whatever a plan wants is there in the end, or has its reason; anything else is a defect and raised.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.scoring.ask import Ask
from app.scoring.plan import Plan
from models.engines.texts import without_reasoning
from models.records import Array, Generation, GenerationRequest, Pair, SamplingParams
from models.records import Sequence as TokenSequence
from models.selection import Strategy, mbr, most_probable, most_probable_normalized
from models.similarity.pairs import (
    PairRules,
    PairTable,
    answer_pairs,
    answer_relation,
    directed_matrix,
    exact_match,
    matrix_pairs,
    similarity_matrix,
)
from models.similarity.relevance import relevance_pairs, token_relevance
from models.statistics import PROBE_STATISTICS, supplied_by

TRUE = ("True", " True", "(A)", " (A)", "A", " A")
FALSE = ("False", " False", "(B)", " (B)", "B", " B")

# Log-probabilities that the model calls an answer true and false, each None where the tokenizer
# does not tell the two apart by one token; None where the question exceeds the model's context.
TrueFalse = tuple[float | None, float | None] | None

_NLI = supplied_by("nli")


@dataclass(frozen=True, slots=True)
class Subject:
    """What is scored.

    Attributes:
        answer: y*; before one is chosen the greedy or the given answer.
        answer_sample: its index among the samples; None where it is none of them.
        samples: all M.
    """

    answer: TokenSequence
    answer_sample: int | None
    samples: tuple[TokenSequence, ...]

    @property
    def texts(self) -> list[str]:
        """All samples (M,) as they are compared."""
        return [sample.compared_text for sample in self.samples]

    @property
    def other_texts(self) -> list[str]:
        """The samples that are not y* itself, as they are compared."""
        return [text for i, text in enumerate(self.texts) if i != self.answer_sample]


@dataclass(frozen=True, slots=True)
class Observations:
    """What workers said about a subject.

    Attributes:
        similarity: scores of all pairs of `similarity_pairs`.
        nli: scores of all pairs of `nli_pairs`; None where there is no NLI model.
        contexts: what each of `read_by_token` is read after.
        true_false: answer to the question whether y* is true.
    """

    similarity: PairTable
    nli: PairTable | None
    contexts: Sequence[str] = ()
    true_false: TrueFalse = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """Statistics by name, and what a result says about them.

    Attributes:
        subject: y* and the samples.
        statistics: what is known.
        absent: statistic to the reason why it is not known.
        truncated: whether any compared pair was cut.
    """

    subject: Subject
    statistics: dict[str, Any]
    absent: dict[str, str]
    truncated: bool


def subject_of(ask: Ask, generation: Generation | None) -> Subject:
    """What the model wrote, with what the ask brings in its place; no sample is chosen yet."""
    text = ask.answer.text if ask.answer is not None else ""
    if ask.answer_token_logprobs is not None:
        known: Array = np.array(ask.answer_token_logprobs)
        answer = replace(_given(text), num_tokens=len(known), token_logprobs=known)
    else:
        answer = _given(text) if generation is None else generation.answer
    if ask.samples is None:
        return Subject(answer, None, () if generation is None else generation.samples)
    samples = []
    for sample in ask.samples:
        logprobs = None if sample.token_logprobs is None else np.array(sample.token_logprobs)
        samples.append(replace(_given(sample.text), token_logprobs=logprobs))
    return Subject(answer, None, tuple(samples))


def choose(strategy: Strategy, subject: Subject, matrix: PairTable | None) -> Subject:
    """The subject with its y* chosen.

    Args:
        strategy: how.
        subject: answer and samples.
        matrix: scores of all pairs of samples, for "mbr".
    """
    if strategy in ("greedy", "given"):
        return subject
    if strategy == "sample":
        return Subject(subject.samples[0], 0, subject.samples)
    if strategy == "mbr" and matrix is not None:
        index = mbr(similarity_matrix(subject.texts, matrix))
    else:
        logprobs = _all_or_none([sample.token_logprobs for sample in subject.samples]) or []
        by_sum = strategy == "most_probable"
        index = most_probable(logprobs) if by_sum else most_probable_normalized(logprobs)
    return Subject(subject.samples[index], index, subject.samples)


def read_by_token(plan: Plan, subject: Subject) -> list[TokenSequence]:
    """Sequences the relevance of whose tokens is wanted: the answer, then the samples."""
    sequences = [subject.answer] if "token_relevance" in plan.statistics else []
    if "sample_token_relevance" in plan.statistics:
        sequences += subject.samples
    return sequences


def similarity_pairs(
    plan: Plan, subject: Subject, contexts: Sequence[str], rules: PairRules
) -> list[Pair]:
    """Pairs that the plan's similarity statistics need, in the order of `read_by_token`."""
    pairs: list[Pair] = []
    if "similarity" in plan.statistics:
        pairs += answer_pairs(subject.answer.compared_text, subject.other_texts, rules)
    if "similarity_matrix" in plan.statistics:
        pairs += matrix_pairs(subject.texts, rules)
    for context, sequence in zip(contexts, read_by_token(plan, subject), strict=True):
        pairs += relevance_pairs(context, sequence.token_texts or ())
    return pairs


def nli_pairs(plan: Plan, subject: Subject, rules: PairRules) -> list[Pair]:
    """Pairs that the plan's NLI statistics need."""
    pairs: list[Pair] = []
    if plan.statistics & {"entailment", "contradiction"}:
        pairs += matrix_pairs(subject.texts, rules)
    if plan.statistics & {"answer_entailment", "answer_contradiction"}:
        pairs += answer_pairs(subject.answer.compared_text, subject.texts, rules)
    return pairs


def question_of(ask: Ask) -> str:
    """The prompt, or the last message of the user."""
    if ask.prompt is not None:
        return ask.prompt
    contents = [message["content"] for message in ask.messages or () if message["role"] == "user"]
    return contents[-1] if contents else ""


def question_about(text: str, ask: Ask) -> GenerationRequest:
    """What P(True) asks the model about an answer: whether it is true. Kadavath et al. 2022."""
    question = (
        f"Question: {question_of(ask)}\n Possible answer: {text}\n Is the possible answer:\n"
        " (A) True\n (B) False\n The possible answer is:"
    )
    return GenerationRequest(
        prompt=question if ask.messages is None else None,
        messages=None if ask.messages is None else ({"role": "user", "content": question},),
        chat_template_kwargs=ask.chat_template_kwargs,
        sampling=SamplingParams(num_samples=0, max_new_tokens=1),
    )


def derive(
    plan: Plan, subject: Subject, generation: Generation | None, said: Observations
) -> Evidence:
    """Every statistic of the plan, or its reason.

    Raises:
        RuntimeError: a planned statistic has neither.
    """
    statistics = token_statistics(subject) | _compared(plan, subject, said)
    absent: dict[str, str] = {}
    if generation is not None:
        absent |= {name: why for name, why in generation.absent.items() if name not in statistics}
        statistics |= {name: one.value for name, one in generation.probe_readings.items()}
    if plan.strategy == "given":
        reason = "light estimators read hidden states of a greedy answer"
        absent |= dict.fromkeys(PROBE_STATISTICS, reason)
    else:
        unread = (plan.statistics & PROBE_STATISTICS) - statistics.keys()
        absent |= dict.fromkeys(unread, "the probe's reading is no number in its range")
    if "p_true_logprob" in plan.statistics:
        value = _p_true_logprob(said.true_false)
        if isinstance(value, str):
            absent["p_true_logprob"] = value
        else:
            statistics["p_true_logprob"] = value
    if forgotten := plan.statistics - statistics.keys() - absent.keys():
        raise RuntimeError(f"planned and forgotten: {', '.join(sorted(forgotten))}")
    truncated = said.similarity.truncated or (said.nli is not None and said.nli.truncated)
    return Evidence(subject, statistics, absent, truncated)


def token_statistics(subject: Subject) -> dict[str, Any]:
    """The statistics that the sequences hold as they are."""
    answer, samples = subject.answer, subject.samples
    statistics: dict[str, Any] = {
        "answer_token_logprobs": answer.token_logprobs,
        "answer_token_entropies": answer.token_entropies,
        "answer_token_texts": answer.token_texts,
        "sample_texts": subject.texts,
        "sample_token_logprobs": _all_or_none([one.token_logprobs for one in samples]),
        "sample_token_entropies": _all_or_none([one.token_entropies for one in samples]),
        "sample_token_texts": _all_or_none([one.token_texts for one in samples]),
    }
    return {name: value for name, value in statistics.items() if value is not None}


def _given(text: str) -> TokenSequence:
    return TokenSequence(text, without_reasoning(text).strip(), 0, "given")


def _compared(plan: Plan, subject: Subject, said: Observations) -> dict[str, Any]:
    """What follows from the scores of pairs."""
    wanted, answer, table = plan.statistics, subject.answer.compared_text, said.similarity
    statistics: dict[str, Any] = {}
    if "exact_match" in wanted:
        statistics["exact_match"] = exact_match(answer, subject.texts, table.rules)
    if "similarity" in wanted:
        statistics["similarity"] = answer_relation(answer, subject.other_texts, table, "similarity")
    if "similarity_matrix" in wanted:
        statistics["similarity_matrix"] = similarity_matrix(subject.texts, table)
    relevances = []
    for context, sequence in zip(said.contexts, read_by_token(plan, subject), strict=True):
        relevances.append(token_relevance(context, sequence.token_texts or (), table))
    if "token_relevance" in wanted:
        statistics["token_relevance"] = relevances.pop(0)
    if "sample_token_relevance" in wanted:
        statistics["sample_token_relevance"] = relevances
    if said.nli is not None:
        for name in wanted & _NLI:
            statistics[name] = _nli_statistic(name, subject, said.nli)
    return statistics


def _nli_statistic(name: str, subject: Subject, table: PairTable) -> Array:
    label = name.removeprefix("answer_")
    if name == label:
        return directed_matrix(subject.texts, table, label)
    return answer_relation(subject.answer.compared_text, subject.texts, table, label)


def _p_true_logprob(true_false: TrueFalse) -> float | str:
    """log(p_T / (p_T + p_F)), or the reason why there is none. Kadavath et al. 2022."""
    if true_false is None:
        return "the question about the answer exceeds the context"
    true, false = true_false
    if true is None or false is None:
        return "the tokenizer does not tell True from False by one token"
    return float(true - np.logaddexp(true, false))


def _all_or_none(values: list[Any]) -> list[Any] | None:
    """The values, where none of them is missing."""
    return None if any(value is None for value in values) else values
