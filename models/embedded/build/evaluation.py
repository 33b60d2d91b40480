"""How good the models are.

Accuracy by decile of fame, what log-probability and CoCoA see, and judgement of pairs.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from transformers import BertForSequenceClassification, PreTrainedTokenizerFast

from models.embedded.build.answers import Answered, meaning
from models.embedded.build.cross_encoder import pair_quality, scores
from models.embedded.build.pairs import Pair, make_pairs, sources
from models.embedded.build.testbed import HeldOut, is_correct

NUM_HELD_OUT_PAIRS = 6000

Correct = NDArray[np.bool_]


def correctness(lines: Sequence[HeldOut], answers: Sequence[Answered]) -> Correct:
    return np.array(
        [is_correct(a.greedy, line.references) for line, a in zip(lines, answers, strict=True)]
    )


def _by_decile(fame: NDArray[np.float64], correct: Correct) -> list[dict[str, float]]:
    order = np.argsort(fame, kind="stable")
    return [
        {
            "fame_from": round(float(fame[part].min()), 2),
            "accuracy": round(float(correct[part].mean()), 3),
        }
        for part in np.array_split(order, 10)
    ]


def task_quality(lines: Sequence[HeldOut], answers: Sequence[Answered]) -> dict[str, Any]:
    """Accuracy, and how well log-probability finds errors.

    Accuracy is given in all, by kind and by decile of fame (least famous first).

    `auroc_errors` is the ROC-AUC of the negative summed log-probability as a score for being wrong.
    """
    correct = correctness(lines, answers)
    fame = np.array([line.fame for line in lines])
    kinds = np.array([line.kind for line in lines])
    quality: dict[str, Any] = {
        "prompts": len(lines),
        "accuracy": round(float(correct.mean()), 4),
        "accuracy_by_kind": {
            k: round(float(correct[kinds == k].mean()), 3) for k in sorted(set(kinds.tolist()))
        },
        "accuracy_by_decile_of_fame": _by_decile(fame, correct),
    }
    if 0 < correct.sum() < len(correct):
        quality["auroc_errors"] = round(
            float(roc_auc_score(~correct, [-a.logprob for a in answers])), 4
        )
    if answers and answers[0].samples:
        quality |= _sample_quality(lines, answers, correct)
    return quality


def _sample_quality(
    lines: Sequence[HeldOut], answers: Sequence[Answered], correct: Correct
) -> dict[str, float]:
    distinct = np.array([len({s.strip() for s in a.samples}) for a in answers])
    right = np.array(
        [
            np.mean([is_correct(s, line.references) for s in a.samples])
            for line, a in zip(lines, answers, strict=True)
        ]
    )
    return {
        "mean_distinct_samples": round(float(distinct.mean()), 2),
        "share_right_samples_where_greedy_right": round(float(right[correct].mean()), 3)
        if correct.any()
        else 0.0,
        "share_right_samples_where_greedy_wrong": round(float(right[~correct].mean()), 3)
        if (~correct).any()
        else 0.0,
    }


def held_out_pairs(count: int = NUM_HELD_OUT_PAIRS, seed: int = 0) -> list[Pair]:
    """Pairs over entities, numbers and prose that no training pair holds."""
    return make_pairs(sources("test"), count, random.Random(f"test:{seed}"))  # noqa: S311, a corpus is no secret


def answered_pairs(lines: Sequence[HeldOut], answers: Sequence[Answered]) -> list[Pair]:
    """The model's own greedy answers with each different sample, labelled by what they mean."""
    return [
        Pair(a.greedy.strip(), sample, meaning(a.greedy, line) == meaning(sample, line), line.task)
        for line, a in zip(lines, answers, strict=True)
        for sample in sorted({s.strip() for s in a.samples} - {a.greedy.strip()})
    ]


def uncertainty_quality(
    model: BertForSequenceClassification,
    tokenizer: PreTrainedTokenizerFast,
    lines: Sequence[HeldOut],
    answers: Sequence[Answered],
) -> dict[str, float]:
    """ROC-AUC for finding errors, of u, c and u times c.

    u is the negative log-likelihood, c the inconsistency with the greedy answer.
    """
    wrong = ~correctness(lines, answers)
    texts = [(a.greedy.strip(), s.strip()) for a in answers for s in a.samples]
    similarity = scores(model, tokenizer, texts).reshape(len(answers), -1)  # (N, M)
    u = np.array([-a.logprob for a in answers])
    c = 1.0 - similarity.mean(1)
    found = {"nll": u, "inconsistency": c, "cocoa": u * c}
    return {name: round(float(roc_auc_score(wrong, score)), 4) for name, score in found.items()}


def cross_encoder_quality(
    model: BertForSequenceClassification,
    tokenizer: PreTrainedTokenizerFast,
    answered: Mapping[str, tuple[Sequence[HeldOut], Sequence[Answered]]],
) -> dict[str, Any]:
    """Quality on held-out pairs and on pairs of the language model's own answers.

    Also the errors that CoCoA finds.
    """
    own = [pair for lines, answers in answered.values() for pair in answered_pairs(lines, answers)]
    return {
        "held_out_pairs": pair_quality(model, tokenizer, held_out_pairs()),
        "language_model_answers": pair_quality(model, tokenizer, own),
        "auroc_errors": {
            task: uncertainty_quality(model, tokenizer, lines, answers)
            for task, (lines, answers) in answered.items()
        },
    }
