"""Pure: the estimators that are scored, and the one that is reported, where an ask names none."""

from collections.abc import Collection, Sequence

from app.scoring.ask import Ask
from models.estimators import needs

DEFAULT_ESTIMATORS = (
    "rb_cocoa_root_sp", "cocoa_root_sp", "cocoa_sp", "cocoa_ppl", "cocoa_mte", "sp", "root_sp",
    "ppl", "mte", "inconsistency",
)  # fmt: skip
LIGHT_ESTIMATORS = (
    "cocoa_sp_light", "cocoa_ppl_light", "cocoa_mte_light", "sp", "ppl", "mte",
    "inconsistency_light",
)  # fmt: skip
# Without samples, which add little for tool calls, as measured.
TOKEN_ESTIMATORS = ("sp", "ppl", "mte")
# Calibrated by labels of whether the documents say it; all others by what is right. Scored besides
# where there are documents, in which an answer is looked up in any case.
OF_DOCUMENTS = "ungrounded"
# Reported as the uncertainty where none is named: the first of these that is scored and can be.
PRIMARY = ("rb_cocoa_root_sp", "cocoa_root_sp", "rb_cocoa_sp", "cocoa_sp", "cocoa_sp_light")
# Behind a reasoning, where the first of them has no meaning and the answer's own log-probs, once
# its reasoning has said it, hardly any.
_PRIMARY_OF_REASONED = ("inconsistency", "cocoa_sp", "cocoa_sp_light", "sp")
# In their place where no log-probs are known: samples have texts nevertheless.
OF_SUPPORT = "inconsistency"
# In the place of the light one where a probe reads sentences only.
_LIGHT_FALLBACK = "sp"
# Reported as the uncertainty of a part of an answer: the first of these that is scored and can be.
PRIMARY_OF_PARTS = ("cocoa_sp", "cocoa_sp_light", "sp")


def estimators_of(ask: Ask) -> tuple[str, ...]:
    """Those that an ask names, or the defaults of its mode; the one that it reports among them."""
    names: Sequence[str]
    if ask.estimators is not None:
        names = ask.estimators
    elif ask.of_tokens and not ask.light:
        names = TOKEN_ESTIMATORS
    elif not ask.light:
        names = DEFAULT_ESTIMATORS
    else:
        names = LIGHT_ESTIMATORS
    distinct = dict.fromkeys(names)
    if ask.estimators is None and ask.documents is not None:
        distinct[OF_DOCUMENTS] = None
    if ask.primary:
        distinct[ask.primary] = None
    return tuple(distinct)


def primary_of(estimators: Sequence[str], available: frozenset[str]) -> tuple[str, bool]:
    """The uncertainty where none is named, and True where it stands in for a better one."""
    for name in PRIMARY:
        if name in estimators and needs([name]) <= available:
            return name, False
    stands_in = OF_SUPPORT in estimators and needs([OF_SUPPORT]) <= available
    if stands_in and not set(PRIMARY).isdisjoint(estimators):
        return OF_SUPPORT, True
    if "cocoa_sp_light" in estimators and _LIGHT_FALLBACK in estimators:
        return _LIGHT_FALLBACK, False
    return estimators[0], False


def primary_of_reasoned(estimators: Collection[str]) -> str | None:
    """The uncertainty of an answer behind a reasoning; None where none of these is one."""
    return next((name for name in _PRIMARY_OF_REASONED if name in estimators), None)
