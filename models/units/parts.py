"""The parts of one answer: made of its text, compared with its samples, and taken out again. Pure.

The definitions are those of `models.units`.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from models.records import Sequence as TokenSequence
from models.units.characters import token_spans
from models.units.comparison import Similarity
from models.units.fields import compared, fields, without
from models.units.json_schemas import BadSchema
from models.units.json_values import Value, parsed
from models.units.prose import Tools, claim, sentences, spans_in
from models.units.schemas import may_be_null
from models.units.sentences import without_sentences
from models.units.statements import Statements
from models.units.steps import WorkBudget
from models.units.tool_calls import as_value, schema_of
from models.units.unit import Unit
from models.warnings import Warned


@dataclass(frozen=True, slots=True)
class Parts:
    """The units of an answer beside the answer itself."""

    units: tuple[Unit, ...] = ()  # in the order of the text
    # What samples have and the answer lacks, by path, with its share of them; of fields only.
    missing: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[Warned, ...] = ()
    is_whole: bool = True  # there are no further units
    # Of a chunk and a statement that the NLI model scores; None of fields.
    num_pairs: int | None = None
    text: str = ""  # of the answer
    value: Value | None = None  # the answer as JSON, where its fields are units
    schema: object = True  # that the value follows; true where there is none
    called: Tools = ()  # the tools, where the value is calls of them
    # Share of the answer in [0, 1] that documents say, or why it is not known; None without any.
    grounded: float | str | None = None

    def fields_beside(
        self, samples: Sequence[str], max_missing: int, steps: WorkBudget
    ) -> Callable[[Similarity], "Parts"] | None:
        """A function from the similarity of strings to the fields beside M samples.

        None where the answer has none. It raises `InvalidRequest` where a schema but that of tools
        is invalid, or comparing takes too many steps. Equal samples are parsed and compared once;
        of what the answer lacks it tells no more than `max_missing`.
        """
        answer, read = self.value, parsed
        if answer is None:
            return None
        if self.called:
            read = partial(as_value, tools=self.called)
        known = {sample: read(sample) for sample in set(samples)}
        values = [known[sample] for sample in samples]

        def parts(similarity: Similarity) -> Parts:
            try:
                told, extra = compared(self.units, answer, values, self.schema, similarity, steps)
            except BadSchema:
                if not self.called:  # the model is shown tools as they were sent
                    raise
                told, extra = compared(self.units, answer, values, True, similarity, steps)
            missing = dict(itertools.islice(extra.items(), max_missing))
            warnings = self.warnings
            if len(missing) < len(extra):
                warnings = (Warned.UNITS_CUT,)
            return replace(self, units=tuple(told), missing=missing, warnings=warnings)

        return parts

    def statements_beside(
        self,
        samples: Sequence[str],
        token_ends: Mapping[str, Sequence[int]] | None = None,
        tools: Tools = (),
    ) -> Statements:
        """Sentences or claims beside the chunks of M samples; see `Statements`."""
        return Statements(self.units, samples, token_ends, tools)

    def without(
        self, removed: Iterable[Unit], steps: WorkBudget | None = None
    ) -> tuple[str, list[Unit]]:
        """The answer's text without some of its sentences or fields, and those that have to stay.

        A field is null instead, unless the schema does not let it be null.

        Raises:
            InvalidRequest: the schema is invalid, or reading it takes too many steps.
        """
        if self.value is None:
            return without_sentences(self.text, [unit.spans[0] for unit in removed]), []
        nullable = may_be_null(self.value, self.schema, steps)
        gone, kept = list[Unit](), list[Unit]()
        for unit in removed:
            (gone if unit.path in nullable else kept).append(unit)
        return without(self.text, gone), kept


def split(
    answer: TokenSequence,
    into: str,
    *,
    max_units: int | None = None,
    tools: Tools = (),
    schema: object = True,
    claims: Sequence[tuple[str, Sequence[str]]] = (),
) -> Parts:
    """The parts of an answer, which are not compared yet.

    Args:
        answer: an answer with fields is JSON, or calls tools.
        into: "fields", "sentences" or "claims".
        max_units: that are kept; None keeps all.
        tools: that the model may call. An answer that calls some has no sentences.
        schema: that the answer follows; true where there is none: with tools it may then be text.
        claims: each with the quotes that it rests on. One of which a quote does not occur in the
            answer has no tokens.
    """
    text = answer.text
    called: Tools = ()
    value: Value | None = None
    warnings: list[Warned] = []
    if into == "fields":
        if tools and (value := as_value(text, tools)) is not None:
            called, schema = tools, schema_of(tools)
        elif (value := parsed(text)) is None:
            if not tools or schema is not True:
                warnings.append(Warned.ANSWER_NOT_JSON)
            return Parts(warnings=tuple(warnings), text=text)
        units = fields(value, text, token_spans(answer))
    elif into == "sentences":
        units = sentences(text, spans_in(text, tools), token_spans(answer))
        if not units:
            warnings.append(Warned.NO_SENTENCES)
    else:
        tokens = token_spans(answer)
        units = [claim(said, quotes, text, tokens) for said, quotes in claims]
        kept = zip(claims[:max_units], units, strict=False)
        if any(quotes and not unit.spans for (_, quotes), unit in kept):
            warnings.append(Warned.QUOTES_NOT_FOUND)
    is_whole = max_units is None or len(units) <= max_units
    if not is_whole:
        warnings.append(Warned.UNITS_CUT)
    return Parts(
        tuple(units[:max_units]),
        warnings=tuple(warnings),
        is_whole=is_whole,
        text=text,
        value=value,
        schema=schema,
        called=called,
    )
