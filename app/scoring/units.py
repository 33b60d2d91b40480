"""Pure: the units of an answer, the texts that must be compared for them, and their scores.

The definitions are those of `models.units`. Nothing here is stored: the pairs of texts are, by
`app.scoring.pairs`, so that the units of an answer that comes again cost no model.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
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
from models.records import Generation, Pair
from models.similarity.pairs import PairRules, PairTable
from models.units.characters import token_spans
from models.units.fields import compared, fields, string_pairs
from models.units.json_schemas import BadSchema
from models.units.json_values import Value, parsed
from models.units.steps import Steps
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
        split_tokens: that a model read and wrote to split the answer; None where none did.
    """

    units: tuple[Unit, ...] = ()
    missing: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    is_whole: bool = True
    num_pairs: int | None = None
    split_tokens: int | None = None


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


class Fields:
    """The fields of an answer that is JSON, or calls tools, and their support by its samples.

    Args:
        subject: with its y* chosen. Equal samples are parsed and compared once.
        schema: that the answer follows; true where there is none.
        max_units: that are scored of one answer, and as many of those that it lacks.
        tools: that the model may call. An answer without calls may then be text.

    Attributes:
        pairs: of strings whose similarity `parts` reads, in both directions.

    Raises:
        InvalidRequest: the schema is invalid, or comparing takes too many steps.
    """

    def __init__(
        self,
        subject: Subject,
        schema: Mapping[str, Any] | bool,
        max_units: int,
        tools: Sequence[Mapping[str, Any]],
        steps: Steps,
    ) -> None:
        self._max_units = max_units
        self._steps = steps
        self._may_be_text = bool(tools) and schema is True
        read, self._answer = parsed, None
        if tools:
            read = partial(as_value, names=names_of(tools))
            self._answer = read(subject.answer.text)
        if self._answer is None:
            read, self._answer = parsed, parsed(subject.answer.text)
        else:
            schema = schema_of(tools)
        self._schema = schema
        self._units: list[Unit] = []
        self._samples: list[Value | None] = []
        self._is_cut = False
        self.pairs: list[Pair] = []
        if self._answer is not None:
            units = fields(self._answer, subject.answer.text, token_spans(subject.answer))
            self._units, self._is_cut = units[:max_units], len(units) > max_units
            known = {text: read(text) for text in set(subject.other_texts)}
            self._samples = [known[text] for text in subject.other_texts]
            try:
                strings = string_pairs(self._answer, self._samples, schema, steps)
            except BadSchema as error:
                raise InvalidRequest(str(error), field="json_schema") from None
            for first, second in strings:
                self.pairs += [(first, second), (second, first)]

    def parts(self, table: PairTable) -> Parts:
        if self._answer is None and self._may_be_text:
            return Parts()
        if self._answer is None:
            return Parts(warnings=("answer_not_json",))
        warnings: tuple[str, ...] = ()
        if self._is_cut:
            warnings = ("units_cut",)
        if not self._samples:
            return Parts(tuple(self._units), warnings=warnings, is_whole=not self._is_cut)

        table = replace(table, rules=table.rules.of_values())

        def similarity(first: str, second: str) -> float:
            return table.both_directions(first, second, "similarity")

        units, extra = compared(
            self._units, self._answer, self._samples, self._schema, similarity, self._steps
        )
        missing = dict(itertools.islice(extra.items(), self._max_units))
        if len(missing) < len(extra):
            warnings = ("units_cut",)
        return Parts(tuple(units), missing, warnings, is_whole=not self._is_cut)


def unknown_pairs(pairs: Iterable[Pair], rules: PairRules) -> list[Pair]:
    """The pairs that no rule scores, as they are compared."""
    unknown: dict[Pair, None] = {}
    for first, second in pairs:
        first, second = rules.compared(first), rules.compared(second)
        if not rules.is_known(first, second):
            unknown[first, second] = None
    return list(unknown)


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
        units.append(ScoredUnit(unit, _estimator_of(unit, plan, values), values, why))
    _, *others = units
    comparable = [part for part in others if part.estimator == plan.unit_primary] or others
    mean, greatest = summary([part.uncertainty for part in comparable])
    return Scored(scores, reasons, ScoredUnits(tuple(units), parts, mean, greatest))


def _estimator_of(unit: Unit, plan: Plan, scores: Mapping[str, float | None]) -> str | None:
    """The estimator of a unit's uncertainty; of one without tokens that which reads none."""
    if not len(unit.tokens) and scores.get(OF_SUPPORT) is not None:
        return OF_SUPPORT
    return plan.unit_primary
