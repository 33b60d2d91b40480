"""Every estimator as a pure function of named statistics: higher means less sure.

Logarithms are natural (nats).

A function's parameter names *are* its needs, so `needs(names)` reads signatures and nothing else is
computed. Adding one: a function with its formula and source in the first docstring line, an entry
in `ESTIMATORS`, a golden row.
"""

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from models.estimators import (
    capped,
    cocoa,
    information,
    light,
    reflection,
    relevance,
    semantic,
    unseen,
)
from models.estimators.cocoa import consistency_std_error, found_mass
from models.estimators.information import Undefined

__all__ = [
    "ESTIMATORS",
    "FOUND_MASS_NEEDS",
    "READ_DISTINCT",
    "OnFailure",
    "Undefined",
    "consistency_std_error",
    "formula",
    "found_mass",
    "needs",
    "range_of",
    "score",
]

Estimator = Callable[..., float]
# Told of an estimator that failed.
OnFailure = Callable[[str, Exception], None]

_FUNCTIONS: tuple[Estimator, ...] = (
    information.sp,
    information.ppl,
    information.mte,
    information.reasoning_length,
    information.mcse,
    information.mcnse,
    cocoa.consistency,
    cocoa.cocoa_sp,
    cocoa.cocoa_ppl,
    cocoa.cocoa_mte,
    light.consistency_light,
    light.cocoa_sp_light,
    light.cocoa_ppl_light,
    light.cocoa_mte_light,
    light.high_semantic_entropy_light,
    cocoa.prob_cocoa_sp,
    cocoa.prob_cocoa_ppl,
    cocoa.additive_cocoa_sp,
    cocoa.additive_cocoa_ppl,
    cocoa.additive_cocoa_mte,
    cocoa.full_sample_cocoa_sp,
    cocoa.full_sample_cocoa_ppl,
    cocoa.full_sample_cocoa_mte,
    cocoa.rb_consistency,
    cocoa.rb_cocoa_sp,
    cocoa.rb_cocoa_ppl,
    cocoa.rb_cocoa_mte,
    capped.capped_sp,
    capped.capped_cocoa_sp,
    capped.capped_rb_cocoa_sp,
    unseen.unseen_rb_consistency,
    unseen.unseen_rb_cocoa_sp,
    semantic.degmat,
    semantic.ce_degmat,
    semantic.eigv,
    semantic.num_sem_sets,
    semantic.semantic_entropy,
    semantic.lexical_similarity,
    semantic.semantic_density,
    relevance.token_sar,
    relevance.sentence_sar,
    relevance.sar,
    reflection.p_true,
    reflection.bsdetector,
)
ESTIMATORS: dict[str, Estimator] = {function.__name__: function for function in _FUNCTIONS}

# They weigh each text by its probability, so that it is no loss to them where draws do not repeat;
# whatever else reads samples counts them.
READ_DISTINCT = frozenset(
    {
        "rb_consistency",
        "rb_cocoa_sp",
        "rb_cocoa_ppl",
        "rb_cocoa_mte",
        "capped_rb_cocoa_sp",
        "unseen_rb_consistency",
        "unseen_rb_cocoa_sp",
    }
)

_UP_TO_1 = frozenset(
    {"consistency", "consistency_light", "rb_consistency", "unseen_rb_consistency", "degmat"}
    | {"ce_degmat", "prob_cocoa_sp", "prob_cocoa_ppl", "bsdetector", "high_semantic_entropy_light"}
)
# Between which values others lie than from 0 without an end.
_RANGES: dict[str, tuple[float | None, float | None]] = {
    **dict.fromkeys(_UP_TO_1, (0.0, 1.0)),
    **dict.fromkeys(("lexical_similarity", "semantic_density"), (-1.0, 0.0)),
    **dict.fromkeys(("semantic_entropy", "sentence_sar", "sar"), (None, None)),
    **dict.fromkeys(("num_sem_sets", "reasoning_length"), (1.0, None)),
}

# Statistics that `found_mass` reads; as with estimators, its parameters are their names.
FOUND_MASS_NEEDS = frozenset(inspect.signature(found_mass).parameters)


def needs(names: Iterable[str]) -> frozenset[str]:
    """Statistics that the named estimators read.

    Raises:
        KeyError: for a name that is not in `ESTIMATORS`.

    >>> sorted(needs(["cocoa_ppl"]))
    ['answer_token_logprobs', 'similarity']
    """
    return frozenset().union(*map(_parameters, names))


def range_of(name: str) -> tuple[float | None, float | None]:
    """Between which values an estimator's lie; None for no end."""
    return _RANGES.get(name, (0.0, None))


def _ignore(name: str, error: Exception) -> None:
    """For whoever has the reasons, and needs no more."""


def score(
    names: Iterable[str],
    statistics: Mapping[str, Any],
    absent: Mapping[str, str] | None = None,
    on_failure: OnFailure = _ignore,
) -> tuple[dict[str, float | None], dict[str, str]]:
    """Values of the named estimators, and for each that has none the reason.

    One that fails, in whatever way, costs no other its value.

    Args:
        names: keys of `ESTIMATORS`.
        statistics: name to value; one that is missing leaves its readers without a value.
        absent: for missing statistics the reason, where there is a better one than that.
        on_failure: told of each that raises anything but `Undefined`, which is a defect of it.

    >>> import numpy as np
    >>> score(["ppl", "mte"], {"answer_token_logprobs": np.array([-0.5, -1.5])})
    ({'ppl': 1.0, 'mte': None}, {'mte': 'answer_token_entropies is not available'})
    """
    scores: dict[str, float | None] = {}
    reasons: dict[str, str] = {}
    for name in names:
        try:
            scores[name] = _evaluate(name, statistics, absent or {})
        except Undefined as reason:
            scores[name], reasons[name] = None, str(reason)
        except Exception as error:
            scores[name], reasons[name] = None, f"the estimator failed ({type(error).__name__})"
            on_failure(name, error)
    return scores, reasons


def formula(name: str) -> str:
    """First line of an estimator's docstring: its name in words, formula, unit and source."""
    return (inspect.getdoc(ESTIMATORS[name]) or "").partition("\n")[0]


@functools.cache
def _parameters(name: str) -> tuple[str, ...]:
    return tuple(sorted(inspect.signature(ESTIMATORS[name]).parameters))


def _evaluate(name: str, statistics: Mapping[str, Any], absent: Mapping[str, str]) -> float:
    given, missing = {}, []
    for statistic in _parameters(name):
        if statistic in statistics:
            given[statistic] = statistics[statistic]
        else:
            missing.append(absent.get(statistic, f"{statistic} is not available"))
    if missing:
        raise Undefined("; ".join(dict.fromkeys(missing)))
    value = ESTIMATORS[name](**given)
    if not math.isfinite(value):
        raise Undefined("not a finite number")
    return value
