"""Estimators of the samples' diversity in meaning, by graphs, classes and densities over pairs."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from models.estimators.cocoa import distinct_rows
from models.estimators.information import at_least, nonempty, plain, with_tokens
from models.records import Array


def degmat(entailment: Array) -> float:
    """DegMat, mean disagreement of samples: 1 - sum W / M^2, W = (E + E^T)/2, W_ii = 1.

    Lin et al. 2023.

    entailment: (M, M), probability that sample i entails sample j.

    Use: free text without log-probs, where samples that contradict each other are a sign of error.
    """
    weights = _symmetric(entailment)
    return plain(1.0 - weights.sum() / weights.size)


def ce_degmat(similarity_matrix: Array) -> float:
    """CEDegMat, DegMat over the cross-encoder: 1 - sum S / M^2. Vashurin et al. 2025 (CEDegMat).

    similarity_matrix: (M, M), diagonal 1.

    Use: as degmat, with the similarity model in place of NLI.
    """
    matrix = at_least(1, similarity_matrix)
    return plain(1.0 - matrix.sum() / matrix.size)


def eigv(entailment: Array) -> float:
    """Number of meanings, continuous: sum_k max(0, 1 - lambda_k), lambda of I - D^-1/2 W D^-1/2.

    Lin et al. 2023.

    W as in degmat, D its row sums.

    entailment: (M, M).

    Use: as degmat; counts meanings softly.
    """
    weights = _symmetric(entailment)
    scale = 1.0 / np.sqrt(weights.sum(axis=1))
    # The normalised weights have the eigenvalues 1 - lambda_k.
    return plain(np.maximum(0.0, np.linalg.eigvalsh(weights * scale[:, None] * scale)).sum())


def num_sem_sets(entailment: Array, contradiction: Array) -> float:
    """Number of meanings: connected components of {E_ij > C_ij and E_ji > C_ji}. Lin et al. 2023.

    entailment, contradiction: (M, M).

    Use: a coarse count of meanings; many ties.
    """
    agrees = at_least(1, entailment) > contradiction
    reachable = (agrees & agrees.T) | np.eye(len(agrees), dtype=bool)
    for _ in range(len(agrees).bit_length()):  # squaring doubles the length of the paths
        reachable = reachable @ reachable
    return float(len(np.unique(reachable, axis=0)))


def semantic_entropy(
    sample_token_logprobs: Sequence[Array],
    sample_texts: Sequence[str],
    entailment: Array,
    contradiction: Array,
) -> float:
    """Entropy over meanings: -sum_k (|C_k|/M) log p_k, in nats.

    Kuhn et al. 2023, Farquhar et al. 2024.

    In order, each sample joins the first class whose first member it entails and is entailed by;
    i entails j where E_ij is the largest of (E, N, C). p_k sums exp(sum_t l_t) over the distinct
    rows of tokens in the class, which differ by text or by log-probs. The classes depend on the
    order of the samples where entailment is not transitive, as published.

    sample_token_logprobs: M arrays (T_i,). sample_texts: M. entailment, contradiction: (M, M).

    Use: the established baseline for short free-form answers.
    """
    samples, entropy = with_tokens(sample_token_logprobs), 0.0
    entails = (entailment >= contradiction) & (entailment >= 1.0 - entailment - contradiction)
    for members in classes_of(entails & entails.T):
        texts, rows = [sample_texts[i] for i in members], [samples[i] for i in members]
        distinct = distinct_rows(texts, rows, np.zeros(len(members)))
        class_logprob = float(np.logaddexp.reduce([rows[i].sum() for i in distinct]))
        entropy -= len(members) / len(samples) * class_logprob
    return plain(entropy)


def semantic_density(
    answer_token_logprobs: Array,
    sample_token_logprobs: Sequence[Array],
    sample_texts: Sequence[str],
    exact_match: Array,
    answer_entailment: Array,
    answer_contradiction: Array,
) -> float:
    """Negated density around the answer: -[w_* + sum_U w_i (1+E_i-C_i)/2] / [w_* + sum_U w_i].

    Qiu et al. 2024.

    w = exp(mean_t l_t); U: the distinct rows of tokens among the samples, which differ by text or
    by log-probs, without those of the answer.

    exact_match, answer_entailment, answer_contradiction: (M,), answer against sample.

    Use: to tell whether this answer, rather than the question, is in doubt.
    """
    samples, answer = with_tokens(sample_token_logprobs), nonempty(answer_token_logprobs)
    others = distinct_rows(sample_texts, samples, exact_match)
    # Weights relative to the largest: those of very unlikely answers would all be 0 otherwise.
    means, closeness = [answer.mean()], [1.0]
    for i in others:
        means.append(samples[i].mean())
        closeness.append((1.0 + answer_entailment[i] - answer_contradiction[i]) / 2)
    log_weights = np.array(means)
    weights = np.exp(log_weights - log_weights.max())
    return plain(-(weights @ np.array(closeness)) / weights.sum())


def _symmetric(entailment: Array) -> Array:
    weights: Array = (at_least(1, entailment) + entailment.T) / 2
    np.fill_diagonal(weights, 1.0)
    return weights


def classes_of(is_alike: NDArray[np.bool_]) -> list[list[int]]:
    """Indices of the samples of each class: each joins the first whose first member is like it.

    is_alike: (M, M), symmetric.
    """
    classes: list[list[int]] = []
    for sample in range(len(is_alike)):
        for members in classes:
            if is_alike[members[0], sample]:
                members.append(sample)
                break
        else:
            classes.append([sample])
    return classes
