"""What a report shows: tables with their marks, claims, answers. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import starmap
from typing import Any

from cocoa_lab.claims import Claim
from cocoa_lab.comparison import Table, intervals
from cocoa_lab.metrics import Interval
from models.estimators import known_estimators

_DIGITS = 3
_GROUPS = ("baselines", "CoCoA", "alternative formulations", "Rao-Blackwellised")
_CONTROLS = "controls, no estimators"
_GROUP_OF = dict(zip(("cocoa", "alternative", "rao_blackwell"), _GROUPS[1:], strict=True))


@dataclass(frozen=True, slots=True)
class Cell:
    """One value of a table and its marks; equal as shown means equally marked.

    Attributes:
        is_best: largest of its column.
        is_second: second largest of its column.
        beats_base: above the value of its own base.
    """

    value: Interval
    is_best: bool = False
    is_second: bool = False
    beats_base: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One row of a table: a method and its cells by column; None where it has no value there."""

    method: str
    group: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table in the paper's shape: rows methods, columns tasks."""

    title: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class ContestLine:
    """One method's differences by column; `rival` is empty where it differs by cell."""

    strategy: str
    method: str
    rival: str
    cells: tuple[Claim | None, ...]


@dataclass(frozen=True, slots=True)
class Contest:
    """The verdicts on one claim."""

    title: str
    columns: tuple[str, ...]
    lines: tuple[ContestLine, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """One answer as the report shows it.

    Attributes:
        samples: distinct texts with their counts, the most frequent first.
    """

    prompt: str
    answer: str
    uncertainty: float
    quality: float
    references: tuple[str, ...]
    samples: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Gallery:
    """Answers of one task at the ends of the order by uncertainty."""

    task: str
    surest: tuple[Shown, ...]
    least_sure: tuple[Shown, ...]
    surest_mistakes: tuple[Shown, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """All that the pages show.

    Attributes:
        facts: name to value: what was run, and how.
        tasks: facts of each task.
        costs: of the estimators, by what models are asked for.
        methods: what each estimator is.
        galleries: answers under the first strategy.
        estimator: by which the galleries are ordered.
        plots: caption to SVG, for the HTML page only.
    """

    title: str
    command: str
    facts: Mapping[str, str]
    tasks: Sequence[Mapping[str, str]]
    costs: Sequence[Mapping[str, str]]
    methods: Sequence[Mapping[str, str]]
    grids: Sequence[Grid]
    claims: Sequence[Claim]
    similarity_grids: Sequence[Grid]
    similarity_claims: Sequence[Claim]
    sample_grids: Sequence[Grid]
    sample_claims: Sequence[Claim]
    rao_blackwell_claims: Sequence[Claim]
    alternative_claims: Sequence[Claim]
    galleries: Sequence[Gallery]
    estimator: str
    notes: Sequence[str]
    recommendation: str
    plots: Mapping[str, str]


def grid(
    title: str, table: Table, left_out: Collection[str] = (), controls: Table | None = None
) -> Grid:
    """A table with its marks: best and second of each column, and what beats its base.

    Args:
        title: of the table.
        table: values of the estimators.
        left_out: columns that rank nothing; their head says so, and no cell of theirs is marked.
        controls: of the same columns, what is no estimator; they stand last and are not marked.
    """
    cells: dict[str, Mapping[str, Cell]] = {}
    heads: list[str] = []
    methods: dict[str, None] = {}
    for column, values in table.items():
        found = intervals(values)
        methods |= dict.fromkeys(values)
        if column in left_out:
            heads.append(f"{column} (left out)")
            cells[column] = {name: Cell(interval) for name, interval in found.items()}
        else:
            heads.append(column)
            cells[column] = marked(found)
    lines = []
    for name in sorted(methods, key=lambda name: _GROUPS.index(group_of(name))):
        line = Line(name, group_of(name), tuple(cells[column].get(name) for column in table))
        lines.append(line)
    lines += _control_lines(table, controls or {})
    return Grid(title, tuple(heads), tuple(lines))


def _control_lines(table: Table, controls: Table) -> list[Line]:
    """Lines of what is no estimator, in the columns of a table."""
    found = {column: intervals(controls.get(column, {})) for column in table}
    lines = []
    for name in dict.fromkeys(name for values in found.values() for name in values):
        cells: list[Cell | None] = []
        for column in table:
            interval = found[column].get(name)
            cells.append(None if interval is None else Cell(interval))
        lines.append(Line(name, _CONTROLS, tuple(cells)))
    return lines


def marked(values: Mapping[str, Interval]) -> dict[str, Cell]:
    """The cells of one column by method."""
    ranked = sorted({_rounded(interval) for interval in values.values()}, reverse=True)
    cells: dict[str, Cell] = {}
    for name, interval in values.items():
        base = known_estimators()[name].base
        cells[name] = Cell(
            value=interval,
            is_best=_rounded(interval) == ranked[0],
            is_second=len(ranked) > 1 and _rounded(interval) == ranked[1],
            beats_base=base is not None and base in values and interval.value > values[base].value,
        )
    return cells


def contests(claims: Sequence[Claim]) -> list[Contest]:
    """One table a claim: a line for each strategy, method and rival, a column for each task."""
    by_name: dict[str, list[Claim]] = {}
    for claim in claims:
        by_name.setdefault(claim.claim, []).append(claim)
    return list(starmap(_contest, by_name.items()))


def group_of(name: str) -> str:
    """The part of the table that a method stands in, one of `_GROUPS`."""
    return _GROUP_OF.get(known_estimators()[name].family, "baselines")


def to_json(table: Table) -> dict[str, Any]:
    """Column to method to value, low and high."""
    columns: dict[str, Any] = {}
    for column, values in table.items():
        columns[column] = {name: asdict(found) for name, found in intervals(values).items()}
    return columns


def cell_text(cell: Cell | None, best: str, second: str) -> str:
    """A value with its interval; `{}` is it in `best` and `second`, which mark it so."""
    if cell is None:
        return "-"
    text = number(cell.value.value)
    if cell.is_best:
        text = best.format(text)
    elif cell.is_second:
        text = second.format(text)
    arrow = " ↑" * cell.beats_base
    return f"{text}{arrow} [{number(cell.value.low)}, {number(cell.value.high)}]"


def number(value: float | None) -> str:
    """Three digits, without the zero before the point; "-" where there is no value.

    >>> number(0.5), number(-0.25), number(1.0)
    ('.500', '-.250', '1.000')
    """
    if value is None:
        return "-"
    text = f"{value:.{_DIGITS}f}"
    if abs(value) < 1 and text.lstrip("-").startswith("0."):
        return text.replace("0.", ".", 1)
    return text


def signed(value: float) -> str:
    """`number` with its sign."""
    sign = "+" * (value >= 0)
    return sign + number(value)


def _contest(name: str, claims: Sequence[Claim]) -> Contest:
    columns = tuple(dict.fromkeys(claim.column for claim in claims))
    cells: dict[tuple[str, str, str], dict[str, Claim]] = {}
    for claim in claims:
        rival = ""  # against many, the strongest differs by task and stands in the cell
        if claim.num_rivals == 1 and claim.rival != claim.method:
            rival = claim.rival
        cells.setdefault((claim.strategy, claim.method, rival), {})[claim.column] = claim
    lines = []
    for key, by_column in cells.items():
        lines.append(ContestLine(*key, tuple(map(by_column.get, columns))))
    return Contest(f"{name[0].upper()}{name[1:]}", columns, tuple(lines))


def _rounded(interval: Interval) -> float:
    return round(interval.value, _DIGITS)
