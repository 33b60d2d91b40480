"""The model's opinion of its own answer."""

import math

from models.estimators.information import at_least, plain
from models.records import Array


def p_true(p_true_logprob: float) -> float:
    """Negative log-probability that the model calls its answer true: -log(p_T / (p_T + p_F)).

    Kadavath et al. 2022.

    Use: large instruction-tuned models; small ones cannot judge their own answers.
    """
    return plain(-p_true_logprob)


def bsdetector(answer_contradiction: Array, exact_match: Array, p_true_logprob: float) -> float:
    """BSDetector: 1 - (0.7 O + 0.3 S), O = mean_i [0.8 (1 - C_i) + 0.2 exact_match_i], S = P(True).

    Chen & Mueller 2024.

    answer_contradiction, exact_match: (M,).

    Use: a model behind an API, where an NLI model is available.
    """
    observed = (0.8 * (1.0 - at_least(1, answer_contradiction)) + 0.2 * exact_match).mean()
    return plain(1.0 - (0.7 * observed + 0.3 * math.exp(p_true_logprob)))
