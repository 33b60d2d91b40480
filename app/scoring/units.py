"""Pure: the units of an answer, beside its samples, and their scores.

The definitions are those of `models.units`. Nothing here is stored: the pairs of texts are, by
`app.scoring.pairs`, so that the units of an answer that comes again cost no model.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from app.scoring.defaults import OF_SUPPORT
from app.scoring.derive import Evidence
from app.scoring.plan import Plan
from app.scoring.questions import Subject
from models.errors import InvalidRequest
from models.estimators import OnFailure, needs, score
from models.records import Generation
from models.similarity.pairs import PairTable
from models.units.characters import token_spans
from models.units.fields import compared, fields
from models.units.json_schemas import BadSchema
from models.units.json_values import parsed
from models.units.steps import WorkBudget
from models.units.tool_calls import as_value, names_of, schema_of
from models.units.unit import PREDICTED, Unit, cut, summary

# The reason why the statistics of tokens cannot be cut to a unit.
TOKENS_UNKNOWN = "the texts of the answer's tokens are not known"
_NO_PROBE = "no probe of whole answers is loaded for this model"


@dataclass(frozen=True, slots=True)
class Parts:
    """The units of an answer beside the answer itself.

    Attributes:
        units: in the order of the text.
        missing: what samples have and the answer lacks, by path, with its share of the samples; of
            fields only.
        num_pairs: of a chunk and a statement that the NLI model scores; None of fields.
        warnings: codes for readers of the units.
        is_whole: there are no further units.
    """

    units: tuple[Unit, ...] = ()
    missing: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    is_whole: bool = True
    num_pairs: int | None = None


@dataclass(frozen=True, slots=True)
class ScoredUnit:
    """A unit with its scores.

    Attributes:
        estimator: of the unit's uncertainty: that of its kind, or `consistency` for one without
            tokens; None where none is defined for its kind.
    """

    unit: Unit
    estimator: str | None
    scores: Mapping[str, float | None]
    reasons: Mapping[str, str]

    @property
    def uncertainty(self) -> float | None:
        if self.estimator is None:
            return None
        return self.scores[self.estimator]


@dataclass(frozen=True, slots=True)
class ScoredUnits:
    """All units of an answer, the answer itself first.

    Attributes:
        mean, greatest: of the uncertainties of the parts by the estimator of their kind, or where
            none has tokens, of all; None where none has any.
    """

    units: tuple[ScoredUnit, ...]
    parts: Parts
    mean: float | None
    greatest: float | None


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of an answer, and of its parts.

    Attributes:
        scores: estimator to its value; None where it has none, for which `reasons` says why.
    """

    scores: Mapping[str, float | None]
    reasons: Mapping[str, str]
    units: ScoredUnits | None = None


def fields_beside(
    subject: Subject,
    schema: Mapping[str, Any] | bool,
    max_units: int,
    tools: Sequence[Mapping[str, Any]],
    steps: WorkBudget,
) -> Callable[[PairTable], Parts]:
    """A function from similarities of strings to the fields of an answer beside its samples.

    The answer is JSON, or calls tools. The function raises `InvalidRequest` where the schema is
    invalid, or comparing takes too many steps.

    Args:
        subject: with its y* chosen. Equal samples are parsed and compared once.
        schema: that the answer follows; true where there is none.
        max_units: that are scored of one answer, and as many of those that it lacks.
        tools: that the model may call. An answer without calls may then be text.
        steps: that comparing may take.
    """
    text, read, names = subject.answer.text, parsed, names_of(tools)
    if tools and as_value(text, names) is not None:
        read, schema = partial(as_value, names=names), schema_of(tools)
    if (answer := read(text)) is None:
        may_be_text = tools and schema is True
        return lambda table: Parts(warnings=() if may_be_text else ("answer_not_json",))
    units = fields(answer, text, token_spans(subject.answer))
    known = {sample: read(sample) for sample in set(subject.other_texts)}
    samples = [known[sample] for sample in subject.other_texts]

    def parts(table: PairTable) -> Parts:
        of_values = replace(table, rules=table.rules.of_values())
        similarity = partial(of_values.both_directions, label="similarity")
        try:
            told, extra = compared(units[:max_units], answer, samples, schema, similarity, steps)
        except BadSchema as error:
            raise InvalidRequest(str(error), field="json_schema") from None
        missing = dict(itertools.islice(extra.items(), max_units))
        is_whole, warnings = len(units) <= max_units, tuple[str, ...]()
        if not is_whole or len(missing) < len(extra):
            warnings = ("units_cut",)
        return Parts(tuple(told), missing, warnings, is_whole=is_whole)

    return parts


def as_read(parts: Parts, generation: Generation | None) -> Parts:
    if generation is None or not generation.sentence_readings:
        return parts
    units, readings = [], dict(generation.sentence_readings)
    for unit in parts.units:
        if unit.kind == "sentence":
            unit = replace(unit, reading=readings.get(unit.spans[0]))
        units.append(unit)
    return replace(parts, units=tuple(units))


def scored(plan: Plan, evidence: Evidence, parts: Parts, on_failure: OnFailure) -> Scored:
    absent = {PREDICTED: _NO_PROBE, **plan.absent, **evidence.absent}
    scores, reasons = score(plan.estimators, evidence.statistics, absent, on_failure)
    if plan.ask.units is None:
        return Scored(scores, reasons)
    answer, statistics = evidence.subject.answer, evidence.statistics
    whole = Unit(
        "answer",
        answer.text,
        np.arange(answer.num_tokens),
        ((0, len(answer.text)),),
        supports=statistics.get("similarity"),
    )
    units = [ScoredUnit(whole, plan.primary, scores, reasons)]
    if answer.token_texts is None:
        unknown = dict.fromkeys(("answer_token_logprobs", "answer_token_entropies"), TOKENS_UNKNOWN)
        absent = {**unknown, **absent}
    # What the whole answer lacks its parts lack, too; the reason is reported once.
    names = []
    for name in plan.unit_estimators:
        is_read = PREDICTED in needs([name])  # by a probe of its own
        if scores[name] is not None or is_read or name == plan.unit_primary:
            names.append(name)
    for unit in parts.units:
        values, why = score(names, *cut(unit, statistics, absent), on_failure)
        estimator = plan.unit_primary
        if not len(unit.tokens) and values.get(OF_SUPPORT) is not None:
            estimator = OF_SUPPORT  # which reads no tokens
        units.append(ScoredUnit(unit, estimator, values, why))
    _, *others = units
    comparable = [part for part in others if part.estimator == plan.unit_primary] or others
    mean, greatest = summary([part.uncertainty for part in comparable])
    return Scored(scores, reasons, ScoredUnits(tuple(units), parts, mean, greatest))
