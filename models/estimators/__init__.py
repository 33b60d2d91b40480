"""Every estimator as a pure function of named statistics: higher means less sure.

Logarithms are natural (nats).

A function's parameter names *are* its needs: nothing else is computed. Adding one: a function with
its formula and source in the first docstring line, a row in the table, a golden case.
"""

import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Literal

from models import others
from models.errors import ModelNotLoaded
from models.estimators import cocoa, information, light, reflection, relevance, semantic, unseen
from models.estimators.information import Undefined
from models.statistics import STATISTICS

# cocoa: the product of a base and of inconsistency, light or not. alternative: other formulas over
# the same. rao_blackwell, unseen: ours over CoCoA. The others are methods of their own.
Family = Literal[
    "likelihood",
    "reasoning",
    "inconsistency",
    "cocoa",
    "alternative",
    "rao_blackwell",
    "unseen",
    "semantic",
    "relevance",
    "reflection",
]
Base = Literal["sp", "root_sp", "ppl", "mte"]
Unit = Literal["nats", "tokens", "meanings", ""]
# Called with the name of an estimator that failed, and its error.
OnFailure = Callable[[str, Exception], None]

# Between which values an estimator lies; None for no end.
Bounds = tuple[float | None, float | None]
_FROM_0: Bounds = (0.0, None)
_SHARE: Bounds = (0.0, 1.0)
_FROM_1: Bounds = (1.0, None)
_ANY: Bounds = (None, None)


@dataclass(frozen=True, slots=True)
class Estimator:
    """One row of the table.

    Attributes:
        function: of the statistics that its parameters name.
        family: the kind of uncertainty.
        base: the lack of confidence that it is made over; None for none.
        range: between which values it lies.
        unit: of its values; "" for a share.
        needs: statistics that it reads.
    """

    function: Callable[..., float]
    family: Family
    base: Base | None = None
    range: Bounds = _FROM_0
    needs: frozenset[str] = frozenset()
    unit: Unit = "nats"

    @property
    def doc(self) -> str:
        """Its docstring: "Title: formula. Source.", details, and when to use it."""
        return inspect.getdoc(self.function) or ""

    @property
    def title(self) -> str:
        """What people read beside its name."""
        return _head(self.doc)[0]

    @property
    def formula(self) -> str:
        return _head(self.doc)[1]

    @property
    def source(self) -> str:
        """Who published it, or "Ours"."""
        return _head(self.doc)[2]

    @property
    def cost(self) -> str:
        """What it costs beyond the answer: samples, and passes of other models."""
        parts: dict[str, None] = {}
        for statistic in sorted(self.needs):
            parts |= dict.fromkeys(filter(None, STATISTICS[statistic].cost.split(", ")))
        return ", ".join(parts) or "nothing beyond the answer"


def _head(doc: str) -> tuple[str, str, str]:
    """Title, formula and source; where no source ends the first paragraph, it is the second."""
    first, _, rest = doc.partition("\n\n")
    told = re.fullmatch(r"(.+?): (.+?)\.( [A-Z].*)?", " ".join(first.split()))
    if told is None:
        return "", first, ""
    source = told[3] or rest.partition("\n\n")[0]
    return told[1], told[2], " ".join(source.split()).removesuffix(".")


def row(
    function: Callable[..., float],
    family: Family,
    base: Base | None = None,
    *,
    bounds: Bounds = _FROM_0,
    unit: Unit = "nats",
) -> Estimator:
    """The row of a function; its facts as in `Estimator`."""
    read = frozenset(inspect.signature(function).parameters)
    if bounds == _SHARE:
        unit = ""
    return Estimator(function, family, base, bounds, read, unit)


_ROWS = (
    row(information.sp, "likelihood"),
    row(information.root_sp, "likelihood"),
    row(information.ppl, "likelihood"),
    row(information.mte, "likelihood"),
    row(information.reasoning_length, "reasoning", bounds=_FROM_1, unit="tokens"),
    row(information.mcse, "likelihood"),
    row(information.mcnse, "likelihood"),
    row(cocoa.inconsistency, "inconsistency", bounds=_SHARE),
    row(cocoa.cocoa_sp, "cocoa", "sp"),
    row(cocoa.cocoa_root_sp, "cocoa", "root_sp"),
    row(cocoa.cocoa_ppl, "cocoa", "ppl"),
    row(cocoa.cocoa_mte, "cocoa", "mte"),
    row(light.inconsistency_light, "inconsistency", bounds=_SHARE),
    row(light.cocoa_sp_light, "cocoa", "sp"),
    row(light.cocoa_ppl_light, "cocoa", "ppl"),
    row(light.cocoa_mte_light, "cocoa", "mte"),
    row(light.high_semantic_entropy_light, "semantic", bounds=_SHARE),
    row(cocoa.prob_cocoa_sp, "alternative", "sp", bounds=_SHARE),
    row(cocoa.prob_cocoa_ppl, "alternative", "ppl", bounds=_SHARE),
    row(cocoa.additive_cocoa_sp, "alternative", "sp"),
    row(cocoa.additive_cocoa_ppl, "alternative", "ppl"),
    row(cocoa.additive_cocoa_mte, "alternative", "mte"),
    row(cocoa.full_sample_cocoa_sp, "alternative", "sp"),
    row(cocoa.full_sample_cocoa_ppl, "alternative", "ppl"),
    row(cocoa.full_sample_cocoa_mte, "alternative", "mte"),
    row(cocoa.rb_inconsistency, "rao_blackwell", bounds=_SHARE),
    row(cocoa.rb_cocoa_sp, "rao_blackwell", "sp"),
    row(cocoa.rb_cocoa_root_sp, "rao_blackwell", "root_sp"),
    row(cocoa.rb_cocoa_ppl, "rao_blackwell", "ppl"),
    row(cocoa.rb_cocoa_mte, "rao_blackwell", "mte"),
    row(unseen.unseen_rb_inconsistency, "unseen", bounds=_SHARE),
    row(unseen.unseen_rb_cocoa_sp, "unseen", "sp"),
    row(semantic.degmat, "semantic", bounds=_SHARE),
    row(semantic.ce_degmat, "semantic", bounds=_SHARE),
    row(semantic.eigv, "semantic", unit="meanings"),
    row(semantic.num_sem_sets, "semantic", bounds=_FROM_1, unit="meanings"),
    row(semantic.semantic_entropy, "semantic", bounds=_ANY),
    row(semantic.semantic_density, "semantic", bounds=(-1.0, 0.0), unit=""),
    row(relevance.token_sar, "relevance"),
    row(relevance.sentence_sar, "relevance", bounds=_ANY),
    row(relevance.sar, "relevance", bounds=_ANY),
    row(reflection.p_true, "reflection"),
    row(reflection.bsdetector, "reflection", bounds=_SHARE),
)
ESTIMATORS: dict[str, Estimator] = {each.function.__name__: each for each in _ROWS}


def known_estimators() -> dict[str, Estimator]:
    """`ESTIMATORS`, and those that plugins add; of two of one name ours.

    Raises:
        ModelNotLoaded: one of theirs cannot be imported.
    """
    return _known(tuple(others.ESTIMATORS.items()))


@cache
def _known(added: tuple[tuple[str, str], ...]) -> dict[str, Estimator]:
    known = dict(ESTIMATORS)
    for name, path in added:
        module, _, row_name = path.partition(":")
        try:
            known.setdefault(name, getattr(import_module(module), row_name))
        except (ImportError, AttributeError) as error:
            raise ModelNotLoaded(f"the estimator {name} cannot be loaded: {error}") from error
    return known


def needs(names: Iterable[str]) -> frozenset[str]:
    """Statistics that the named estimators read.

    Raises:
        KeyError: for a name that no estimator has.

    >>> sorted(needs(["cocoa_ppl"]))
    ['answer_token_logprobs', 'similarity']
    """
    known = known_estimators()
    read: frozenset[str] = frozenset()
    for name in names:
        read |= known[name].needs
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
        names: of known estimators.
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
            scores[name] = _evaluate(known_estimators()[name], statistics, absent or {})
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
