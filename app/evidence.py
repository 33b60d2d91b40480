"""What estimators may read of one generation.

y* is chosen, pairs are compared, and the model is asked about its own answer.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.planning import NLI_STATISTICS, Plan
from models.errors import PromptTooLong
from models.records import (
    PROBE_STATISTICS,
    Array,
    Generation,
    GenerationRequest,
    Pair,
    SamplingParams,
)
from models.records import Sequence as GeneratedSequence
from models.selection import Strategy, mbr, most_probable, most_probable_normalized
from models.similarity.pairs import (
    PairTable,
    answer_pairs,
    answer_relation,
    directed_matrix,
    exact_match,
    matrix_pairs,
    similarity_matrix,
)
from models.similarity.relevance import relevance_pairs, token_relevance
from workers.build import Workers
from workers.similarity import SimilarityWorker

TRUE = ("True", " True", "(A)", " (A)", "A", " A")
FALSE = ("False", " False", "(B)", " (B)", "B", " B")


@dataclass(frozen=True, slots=True)
class Evidence:
    """Statistics by name, and what the response says about them.

    Attributes:
        answer: y*.
        answer_sample: its index among the samples; None where it is none of them.
        statistics: what was computed.
        absent: statistic to the reason why it could not be.
        truncated: whether any compared pair was cut.
    """

    answer: GeneratedSequence
    answer_sample: int | None
    statistics: dict[str, Any]
    absent: dict[str, str]
    truncated: bool


async def gather_evidence(
    plan: Plan, generation: Generation, request: GenerationRequest | None, workers: Workers
) -> Evidence:
    """Every statistic of the plan.

    Args:
        plan: whose statistics are wanted.
        generation: answer and samples.
        request: what the engine was asked; None where no model was.
        workers: similarity functions, NLI, engine.

    Raises:
        CocoaError: a model failed.
    """
    similarity = workers.similarity[plan.similarity or workers.default_similarity]
    texts = [sample.compared_text for sample in generation.samples]
    known = PairTable(similarity.model.labels, {}, similarity.rules)
    if plan.strategy == "mbr":
        known = await similarity.table(matrix_pairs(texts, similarity.rules))
    index = choose(plan.strategy, generation, known)
    answer = generation.answer if index is None else generation.samples[index]
    others = [text for i, text in enumerate(texts) if i != index]
    by_similarity, by_nli, p_true_logprob = await asyncio.gather(
        _similarity_statistics(
            plan, answer, others, generation.samples, request, similarity, known
        ),
        _nli_statistics(plan, answer, texts, workers.nli),
        _p_true_logprob(plan, answer, request, workers),
    )
    statistics = {**token_statistics(answer, generation.samples), **by_similarity[0], **by_nli[0]}
    if "exact_match" in plan.statistics:
        statistics["exact_match"] = exact_match(answer.compared_text, texts, similarity.rules)
    statistics |= {name: reading.value for name, reading in generation.probe_readings.items()}
    absent: dict[str, str] = {}
    if plan.strategy == "given":
        absent |= dict.fromkeys(
            PROBE_STATISTICS, "light estimators read hidden states of a greedy answer"
        )
    if isinstance(p_true_logprob, float):
        statistics["p_true_logprob"] = p_true_logprob
    elif p_true_logprob is not None:
        absent["p_true_logprob"] = p_true_logprob
    return Evidence(answer, index, statistics, absent, by_similarity[1] or by_nli[1])


def choose(strategy: Strategy, generation: Generation, table: PairTable) -> int | None:
    """Index of y* among the samples; None for the answer itself."""
    if strategy in ("greedy", "given"):
        return None
    if strategy == "mbr":
        return mbr(
            similarity_matrix([sample.compared_text for sample in generation.samples], table)
        )
    logprobs = _all_or_none([sample.token_logprobs for sample in generation.samples]) or []
    return (
        most_probable(logprobs)
        if strategy == "most_probable"
        else most_probable_normalized(logprobs)
    )


def question_about(text: str, request: GenerationRequest) -> GenerationRequest:
    """What P(True) asks the engine about an answer to a request: whether it is true.

    Kadavath et al. 2022.
    """
    question = (
        f"Question: {_question(request)}\n Possible answer: {text}\n Is the possible answer:\n"
        " (A) True\n (B) False\n The possible answer is:"
    )
    messages = None if request.messages is None else ({"role": "user", "content": question},)
    return replace(
        request,
        prompt=question if messages is None else None,
        messages=messages,
        sampling=SamplingParams(num_samples=0, max_new_tokens=1),
        statistics=frozenset(),
        answer_ids=None,
    )


def token_statistics(
    answer: GeneratedSequence, samples: Sequence[GeneratedSequence]
) -> dict[str, Any]:
    """The statistics that a generation holds as they are."""
    statistics: dict[str, Any] = {
        "answer_token_logprobs": answer.token_logprobs,
        "answer_token_entropies": answer.token_entropies,
        "sample_texts": [sample.compared_text for sample in samples],
        "sample_token_logprobs": _all_or_none([sample.token_logprobs for sample in samples]),
        "sample_token_entropies": _all_or_none([sample.token_entropies for sample in samples]),
    }
    return {name: value for name, value in statistics.items() if value is not None}


async def _similarity_statistics(
    plan: Plan,
    answer: GeneratedSequence,
    others: list[str],
    samples: Sequence[GeneratedSequence],
    request: GenerationRequest | None,
    worker: SimilarityWorker,
    known: PairTable,
) -> tuple[dict[str, Any], bool]:
    wanted, texts = plan.statistics, [sample.compared_text for sample in samples]
    pairs: list[Pair] = []
    if "similarity" in wanted:
        pairs += answer_pairs(answer.compared_text, others, worker.rules)
    if "similarity_matrix" in wanted:
        pairs += matrix_pairs(texts, worker.rules)
    relevances: list[
        tuple[str, Sequence[str]]
    ] = []  # the answer's, then the samples': context and token texts
    if "token_relevance" in wanted:
        relevances.append(await _with_context(answer, request, worker))
    if "sample_token_relevance" in wanted:
        relevances += [await _with_context(sample, request, worker) for sample in samples]
    for context, token_texts in relevances:
        pairs += relevance_pairs(context, token_texts)
    asked = await worker.table([pair for pair in pairs if pair not in known.scores])
    table = replace(
        known, scores={**known.scores, **asked.scores}, truncated=known.truncated or asked.truncated
    )
    statistics: dict[str, Any] = {}
    if "similarity" in wanted:
        statistics["similarity"] = answer_relation(
            answer.compared_text, others, table, "similarity"
        )
    if "similarity_matrix" in wanted:
        statistics["similarity_matrix"] = similarity_matrix(texts, table)
    values = [token_relevance(context, token_texts, table) for context, token_texts in relevances]
    if "token_relevance" in wanted:
        statistics["token_relevance"] = values.pop(0)
    if "sample_token_relevance" in wanted:
        statistics["sample_token_relevance"] = values
    return statistics, table.truncated


async def _with_context(
    sequence: GeneratedSequence, request: GenerationRequest | None, worker: SimilarityWorker
) -> tuple[str, Sequence[str]]:
    token_texts = sequence.token_texts or ()
    question = _question(request) if request is not None else ""
    return await worker.fit_context(question, "".join(token_texts)), token_texts


async def _nli_statistics(
    plan: Plan, answer: GeneratedSequence, texts: list[str], worker: SimilarityWorker | None
) -> tuple[dict[str, Any], bool]:
    wanted = plan.statistics & NLI_STATISTICS
    if not wanted or worker is None:
        return {}, False
    pairs: list[Pair] = []
    if wanted & {"entailment", "contradiction"}:
        pairs += matrix_pairs(texts, worker.rules)
    if wanted & {"answer_entailment", "answer_contradiction"}:
        pairs += answer_pairs(answer.compared_text, texts, worker.rules)
    table = await worker.table(pairs)

    def value(name: str) -> Array:
        label = name.removeprefix("answer_")
        if name == label:
            return directed_matrix(texts, table, label)
        return answer_relation(answer.compared_text, texts, table, label)

    return {name: value(name) for name in wanted}, table.truncated


async def _p_true_logprob(
    plan: Plan, answer: GeneratedSequence, request: GenerationRequest | None, workers: Workers
) -> float | str | None:
    """log(p_T / (p_T + p_F)), or the reason why there is none; None where it is not wanted.

    Kadavath et al. 2022.
    """
    if "p_true_logprob" not in plan.statistics or request is None:
        return None
    asked = question_about(answer.compared_text, request)
    try:
        true, false = await workers.generation.engine.first_token_logprobs(asked, (TRUE, FALSE))
    except PromptTooLong:
        return "the question about the answer exceeds the context"
    if true is None or false is None:
        return "the tokenizer does not tell True from False by one token"
    return float(true - np.logaddexp(true, false))


def _question(request: GenerationRequest) -> str:
    """The prompt, or the last message of the user."""
    if request.prompt is not None:
        return request.prompt
    contents = [
        message["content"] for message in request.messages or () if message["role"] == "user"
    ]
    return contents[-1] if contents else ""


def _all_or_none(arrays: list[Array | None]) -> list[Array] | None:
    present = [array for array in arrays if array is not None]
    return present if len(present) == len(arrays) else None
