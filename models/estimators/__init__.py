"""Every estimator as a pure function of named statistics: higher means less sure.

Logarithms are natural (nats).

A function's parameter names *are* its needs: nothing else is computed. Adding one: a function with
its formula and source in the first docstring line, a row in the table, a golden case. CoCoA and
its variants, which multiply a base and a factor, are in `products.py`.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from models import others
from models.errors import ModelNotLoaded
from models.estimators import cocoa, documents, information, light, reflection, relevance, semantic
from models.estimators.information import Undefined
from models.estimators.products import products
from models.estimators.rows import ANY, FROM_1, SHARE, Estimator
from models.estimators.rows import row as row

_ROWS = (
    row(information.sp, "likelihood"),
    row(information.root_sp, "likelihood"),
    row(information.ppl, "likelihood"),
    row(information.mte, "likelihood"),
    row(information.reasoning_length, "reasoning", bounds=FROM_1, unit="tokens"),
    row(information.mcse, "likelihood"),
    row(information.mcnse, "likelihood"),
    row(cocoa.inconsistency, "inconsistency", bounds=SHARE),
    row(light.inconsistency_light, "inconsistency", bounds=SHARE),
    row(light.high_semantic_entropy_light, "semantic", bounds=SHARE),
    row(cocoa.rb_inconsistency, "rao_blackwell", bounds=SHARE),
    row(semantic.degmat, "semantic", bounds=SHARE),
    row(semantic.ce_degmat, "semantic", bounds=SHARE),
    row(semantic.eigv, "semantic", unit="meanings"),
    row(semantic.num_sem_sets, "semantic", bounds=FROM_1, unit="meanings"),
    row(semantic.semantic_entropy, "semantic", bounds=ANY),
    row(semantic.semantic_density, "semantic", bounds=(-1.0, 0.0), unit=""),
    row(relevance.token_sar, "relevance"),
    row(relevance.sentence_sar, "relevance", bounds=ANY),
    row(relevance.sar, "relevance", bounds=ANY),
    row(reflection.p_true, "reflection"),
    row(reflection.bsdetector, "reflection", bounds=SHARE),
    row(documents.remaining, "documents", bounds=SHARE),
    row(documents.ungrounded, "documents", bounds=SHARE),
)
ESTIMATORS: dict[str, Estimator] = {each.name: each for each in (*_ROWS, *products())}


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
    on_failure: Callable[[str, Exception], None] = lambda name, error: None,
) -> tuple[dict[str, float | None], dict[str, str]]:
    """Values of the named estimators, and for each that has none the reason.

    One that fails, in whatever way, costs no other its value.

    Args:
        names: of known estimators.
        statistics: name to value; one that is missing leaves its readers without a value.
        absent: for missing statistics the reason, where there is a better one than that.
        on_failure: called with each that raises anything but `Undefined`, a defect of it.
    """
    scores: dict[str, float | None] = {}
    reasons: dict[str, str] = {}
    known: dict[Callable[..., float], float] = {}
    for name in names:
        try:
            scores[name] = known_estimators()[name].value(statistics, absent or {}, known)
        except Undefined as reason:
            scores[name], reasons[name] = None, str(reason)
        except Exception as error:
            scores[name], reasons[name] = None, f"the estimator failed ({type(error).__name__})"
            on_failure(name, error)
    return scores, reasons
