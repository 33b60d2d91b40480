"""How good language model and cross-encoder are: accuracy, detection of errors, judged pairs."""

import random
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from transformers import BertForSequenceClassification, PreTrainedTokenizerFast

from cocoa_lab.embedded.answers import Answered, meaning
from cocoa_lab.embedded.cross_encoder import pair_quality, scores
from cocoa_lab.embedded.hard_evaluation import hard_quality, held_out_hard_pairs
from cocoa_lab.embedded.pairs import Pair, make_pairs, sources
from cocoa_lab.embedded.testbed import HeldOut, is_correct

NUM_HELD_OUT_PAIRS = 6000

Correct = NDArray[np.bool_]


def correctness(lines: Sequence[HeldOut], answers: Sequence[Answered]) -> Correct:
    """Whether the greedy answer to each line is right, (N,)."""
    pairs = zip(lines, answers, strict=True)
    return np.array([is_correct(answer.greedy, line.references) for line, answer in pairs])


def _by_decile(fame: NDArray[np.float64], correct: Correct) -> list[dict[str, float]]:
    order = np.argsort(fame, kind="stable")
    deciles: list[dict[str, float]] = []
    for members in np.array_split(order, 10):
        fame_from = round(float(fame[members].min()), 2)
        deciles.append({"fame_from": fame_from, "accuracy": _mean(correct[members])})
    return deciles


def _by_kind(lines: Sequence[HeldOut], correct: Correct) -> dict[str, float]:
    kinds = np.array([line.kind for line in lines])
    return {kind: _mean(correct[kinds == kind]) for kind in np.unique(kinds).tolist()}


def _mean(values: NDArray[Any]) -> float:
    """Rounded mean, 0 where there are no values."""
    if not len(values):
        return 0.0
    return round(float(values.mean()), 3)


def task_quality(lines: Sequence[HeldOut], answers: Sequence[Answered]) -> dict[str, Any]:
    """Accuracy in all, by kind and by decile of fame (least famous first), and error detection.

    `auroc_errors` is the ROC-AUC of the negative summed log-probability as a score for being wrong.
    """
    correct = correctness(lines, answers)
    fame = np.array([line.fame for line in lines])
    quality: dict[str, Any] = {
        "prompts": len(lines),
        "accuracy": round(float(correct.mean()), 4),
        "accuracy_by_kind": _by_kind(lines, correct),
        "accuracy_by_decile_of_fame": _by_decile(fame, correct),
    }
    if 0 < correct.sum() < len(correct):
        quality["auroc_errors"] = round(float(roc_auc_score(~correct, _nll(answers))), 4)
    if answers and answers[0].samples:
        quality |= _sample_quality(lines, answers, correct)
    return quality


def _sample_quality(
    lines: Sequence[HeldOut], answers: Sequence[Answered], correct: Correct
) -> dict[str, float]:
    num_distinct: list[int] = []
    shares_right: list[float] = []
    for line, answer in zip(lines, answers, strict=True):
        num_distinct.append(len(set(map(str.strip, answer.samples))))
        right = [is_correct(sample, line.references) for sample in answer.samples]
        shares_right.append(float(np.mean(right)))
    return {
        "mean_distinct_samples": round(float(np.mean(num_distinct)), 2),
        "share_right_samples_where_greedy_right": _mean(np.array(shares_right)[correct]),
        "share_right_samples_where_greedy_wrong": _mean(np.array(shares_right)[~correct]),
    }


def held_out_pairs(count: int = NUM_HELD_OUT_PAIRS, seed: int = 0) -> list[Pair]:
    """Pairs over entities, numbers and prose that no training pair holds."""
    return make_pairs(sources("test"), count, random.Random(f"test:{seed}"))  # noqa: S311, a corpus is no secret


def _nll(answers: Sequence[Answered]) -> NDArray[np.float64]:
    """Negative log-likelihoods (N,) of greedy answers, nats."""
    return -np.array([answer.logprob for answer in answers])


def answered_pairs(lines: Sequence[HeldOut], answers: Sequence[Answered]) -> list[Pair]:
    """Each greedy answer with each of its different samples, labelled by what they mean."""
    pairs: list[Pair] = []
    for line, answer in zip(lines, answers, strict=True):
        greedy = answer.greedy.strip()
        for sample in sorted(set(map(str.strip, answer.samples)) - {greedy}):
            same = meaning(greedy, line) == meaning(sample, line)
            pairs.append(Pair(greedy, sample, same, line.task))
    return pairs


def uncertainty_quality(
    model: BertForSequenceClassification,
    tokenizer: PreTrainedTokenizerFast,
    lines: Sequence[HeldOut],
    answers: Sequence[Answered],
) -> dict[str, float]:
    """ROC-AUC of u, c and u times c for finding errors.

    u is the negative log-likelihood, c the samples' inconsistency with the greedy answer.
    """
    wrong = ~correctness(lines, answers)
    texts: list[tuple[str, str]] = []
    for answer in answers:
        texts += zip(repeat(answer.greedy.strip()), map(str.strip, answer.samples))
    similarity = scores(model, tokenizer, texts).reshape(len(answers), -1)  # (N, M)
    u = _nll(answers)
    c = 1.0 - similarity.mean(1)
    estimates = {"nll": u, "inconsistency": c, "cocoa": u * c}
    return {name: round(float(roc_auc_score(wrong, e)), 4) for name, e in estimates.items()}


def cross_encoder_quality(
    model: BertForSequenceClassification,
    tokenizer: PreTrainedTokenizerFast,
    answered: Mapping[str, tuple[Sequence[HeldOut], Sequence[Answered]]],
) -> dict[str, Any]:
    """Quality on held-out pairs, easy and hard, on pairs of answers, and in finding errors.

    answered: lines of the testbed and the language model's answers to them, by task.
    """
    own_pairs: list[Pair] = []
    auroc_errors: dict[str, dict[str, float]] = {}
    for task, (lines, answers) in answered.items():
        own_pairs += answered_pairs(lines, answers)
        auroc_errors[task] = uncertainty_quality(model, tokenizer, lines, answers)
    return {
        "held_out_pairs": pair_quality(model, tokenizer, held_out_pairs()),
        "hard_pairs": hard_quality(partial(scores, model, tokenizer), held_out_hard_pairs()),
        "language_model_answers": pair_quality(model, tokenizer, own_pairs),
        "auroc_errors": auroc_errors,
    }
