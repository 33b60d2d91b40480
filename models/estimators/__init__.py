"""Every estimator as a pure function of named statistics: higher means less sure.

Logarithms are natural (nats).

A function's parameter names *are* its needs: nothing else is computed. Adding one: a function with
its formula and source in the first docstring line, a row in the table, a golden case.
"""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from models.estimators import cocoa, information, light, reflection, relevance, semantic, unseen
from models.estimators.information import Undefined

# cocoa: the product of a base and of consistency, light or not. alternative: other formulas over
# the same. rao_blackwell, unseen: ours over CoCoA. The others are methods of their own.
Family = Literal[
    "likelihood",
    "reasoning",
    "consistency",
    "cocoa",
    "alternative",
    "rao_blackwell",
    "unseen",
    "semantic",
    "relevance",
    "reflection",
]
Base = Literal["sp", "root_sp", "ppl", "mte"]
# Called with the name of an estimator that failed, and its error.
OnFailure = Callable[[str, Exception], None]

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


@dataclass(frozen=True, slots=True)
class Estimator:
    """One row of the table.

    Attributes:
        function: of the statistics that its parameters name.
        family: the kind of uncertainty.
        base: the lack of confidence that it is made over; None for none.
        takes_long: over long samples, as word overlap does; others take less than handing them to a
            thread.
        needs: statistics that it reads.
    """

    function: Callable[..., float]
    family: Family
    base: Base | None = None
    takes_long: bool = False
    needs: frozenset[str] = frozenset()

    @property
    def range(self) -> tuple[float | None, float | None]:
        """Between which values it lies; None for no end."""
        return _RANGES.get(self.function.__name__, (0.0, None))

    @property
    def doc(self) -> str:
        """Its docstring: name in words, formula, unit and source, and when to use it."""
        return inspect.getdoc(self.function) or ""

    @property
    def formula(self) -> str:
        """First line of the docstring."""
        return self.doc.partition("\n")[0]


def row(
    function: Callable[..., float],
    family: Family,
    base: Base | None = None,
    *,
    slow: bool = False,
) -> Estimator:
    """The row of a function; its facts as in `Estimator`."""
    read = frozenset(inspect.signature(function).parameters)
    return Estimator(function, family, base, slow, read)


_ROWS = (
    row(information.sp, "likelihood"),
    row(information.root_sp, "likelihood"),
    row(information.ppl, "likelihood"),
    row(information.mte, "likelihood"),
    row(information.reasoning_length, "reasoning"),
    row(information.mcse, "likelihood"),
    row(information.mcnse, "likelihood"),
    row(cocoa.consistency, "consistency"),
    row(cocoa.cocoa_sp, "cocoa", "sp"),
    row(cocoa.cocoa_root_sp, "cocoa", "root_sp"),
    row(cocoa.cocoa_ppl, "cocoa", "ppl"),
    row(cocoa.cocoa_mte, "cocoa", "mte"),
    row(light.consistency_light, "consistency"),
    row(light.cocoa_sp_light, "cocoa", "sp"),
    row(light.cocoa_ppl_light, "cocoa", "ppl"),
    row(light.cocoa_mte_light, "cocoa", "mte"),
    row(light.high_semantic_entropy_light, "semantic"),
    row(cocoa.prob_cocoa_sp, "alternative", "sp"),
    row(cocoa.prob_cocoa_ppl, "alternative", "ppl"),
    row(cocoa.additive_cocoa_sp, "alternative", "sp"),
    row(cocoa.additive_cocoa_ppl, "alternative", "ppl"),
    row(cocoa.additive_cocoa_mte, "alternative", "mte"),
    row(cocoa.full_sample_cocoa_sp, "alternative", "sp"),
    row(cocoa.full_sample_cocoa_ppl, "alternative", "ppl"),
    row(cocoa.full_sample_cocoa_mte, "alternative", "mte"),
    row(cocoa.rb_consistency, "rao_blackwell"),
    row(cocoa.rb_cocoa_sp, "rao_blackwell", "sp"),
    row(cocoa.rb_cocoa_root_sp, "rao_blackwell", "root_sp"),
    row(cocoa.rb_cocoa_ppl, "rao_blackwell", "ppl"),
    row(cocoa.rb_cocoa_mte, "rao_blackwell", "mte"),
    row(unseen.unseen_rb_consistency, "unseen"),
    row(unseen.unseen_rb_cocoa_sp, "unseen", "sp"),
    row(semantic.degmat, "semantic"),
    row(semantic.ce_degmat, "semantic"),
    row(semantic.eigv, "semantic"),
    row(semantic.num_sem_sets, "semantic"),
    row(semantic.semantic_entropy, "semantic"),
    row(semantic.lexical_similarity, "semantic", slow=True),
    row(semantic.semantic_density, "semantic"),
    row(relevance.token_sar, "relevance"),
    row(relevance.sentence_sar, "relevance"),
    row(relevance.sar, "relevance"),
    row(reflection.p_true, "reflection"),
    row(reflection.bsdetector, "reflection"),
)
ESTIMATORS: dict[str, Estimator] = {each.function.__name__: each for each in _ROWS}


def needs(names: Iterable[str]) -> frozenset[str]:
    """Statistics that the named estimators read.

    Raises:
        KeyError: for a name that is not in `ESTIMATORS`.

    >>> sorted(needs(["cocoa_ppl"]))
    ['answer_token_logprobs', 'similarity']
    """
    read: frozenset[str] = frozenset()
    for name in names:
        read |= ESTIMATORS[name].needs
    return read


def score(
    names: Iterable[str],
    statistics: Mapping[str, Any],
    absent: Mapping[str, str] | None = None,
    on_failure: OnFailure = lambda name, error: None,
) -> tuple[dict[str, float | None], dict[str, str]]:
    """Values of the named estimators, and for each that has none the reason.

    One that fails, in whatever way, costs no other its value.

    Args:
        names: keys of `ESTIMATORS`.
        statistics: name to value; one that is missing leaves its readers without a value.
        absent: for missing statistics the reason, where there is a better one than that.
        on_failure: called with each that raises anything but `Undefined`, a defect of it.

    >>> import numpy as np
    >>> score(["ppl", "mte"], {"answer_token_logprobs": np.array([-0.5, -1.5])})
    ({'ppl': 1.0, 'mte': None}, {'mte': 'answer_token_entropies is not available'})
    """
    scores: dict[str, float | None] = {}
    reasons: dict[str, str] = {}
    for name in names:
        try:
            scores[name] = _evaluate(ESTIMATORS[name], statistics, absent or {})
        except Undefined as reason:
            scores[name], reasons[name] = None, str(reason)
        except Exception as error:
            scores[name], reasons[name] = None, f"the estimator failed ({type(error).__name__})"
            on_failure(name, error)
    return scores, reasons


def _evaluate(
    estimator: Estimator, statistics: Mapping[str, Any], absent: Mapping[str, str]
) -> float:
    if missing := sorted(estimator.needs - statistics.keys()):
        reasons = [absent.get(name, f"{name} is not available") for name in missing]
        raise Undefined("; ".join(dict.fromkeys(reasons)))
    given = {}
    for name in estimator.needs:
        given[name] = statistics[name]
    value = estimator.function(**given)
    if not math.isfinite(value):
        raise Undefined("not a finite number")
    return value
