"""Sequence probability over the root of the length, and CoCoA over it. Ours.

A sum over tokens measures length where lengths differ, and a mean forgets that a longer answer has
more to get wrong. What tokens say beside their mean spreads as the root of their number: over it, a
word and a paragraph that are equally unusual for their length are equally uncertain.
"""

import math
from collections.abc import Sequence

from models.estimators.cocoa import consistency, rb_consistency
from models.estimators.information import nonempty, sp
from models.records import Array


def root_sp(answer_token_logprobs: Array) -> float:
    """Sequence probability over the root of the length: sp / sqrt(T), in nats. Ours, 2026.

    answer_token_logprobs: (T,), the terminating token included.

    Use: as sp, where answers differ in length.
    """
    return sp(answer_token_logprobs) / math.sqrt(len(nonempty(answer_token_logprobs)))


def cocoa_root_sp(answer_token_logprobs: Array, similarity: Array) -> float:
    """CoCoA over the root of the length: root_sp * consistency, in nats.

    Ours, over Vashurin et al. 2025.

    Use: as rb_cocoa_root_sp, where the samples' log-probs are not known.
    """
    return root_sp(answer_token_logprobs) * consistency(similarity)


def rb_cocoa_root_sp(
    answer_token_logprobs: Array,
    sample_token_logprobs: Sequence[Array],
    sample_texts: Sequence[str],
    similarity: Array,
    exact_match: Array,
) -> float:
    """Rao-Blackwellised CoCoA over the root of the length, the default: root_sp * rb_consistency.

    In nats. Ours: Rao-Blackwell over Vashurin et al. 2025.

    Use: answers of any length, words and sentences mixed; chosen on real models
    (docs/adr/0027-a-default-for-answers-of-any-length.md). Means over tokens rank better where
    words and paragraphs are mixed and an answer is worth the share of it that is right.
    """
    return root_sp(answer_token_logprobs) * rb_consistency(
        answer_token_logprobs, sample_token_logprobs, sample_texts, similarity, exact_match
    )
