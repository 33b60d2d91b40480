"""Pure: results as JSON, as Markdown in the paper's shape, and as one self-contained HTML page."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from app.lab.comparison import ALTERNATIVES, MEAN, Claim, Table, base_of, is_cocoa
from models.metrics import Interval

_DIGITS = 3
_VERDICTS = (
    "Differences of PRR with their 95 % intervals, both methods on the same resampled prompts. "
    "**Supported**: the interval lies above zero; _refuted_: below; undecided: it holds zero. "
    "Against every baseline: the strongest one, "
    "and how many the method lies above / below by interval."
)


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
        galleries: answers under the first strategy.
        estimator: by which the galleries are ordered.
        plots: caption to SVG, for the HTML page only.
    """

    title: str
    command: str
    facts: Mapping[str, str]
    tasks: Sequence[Mapping[str, str]]
    grids: Sequence[Grid]
    claims: Sequence[Claim]
    similarity_grids: Sequence[Grid]
    similarity_claims: Sequence[Claim]
    alternative_claims: Sequence[Claim]
    galleries: Sequence[Gallery]
    estimator: str
    notes: Sequence[str]
    plots: Mapping[str, str]


def grid(title: str, table: Table) -> Grid:
    """A table with its marks: best and second of each column, and what beats its base."""
    columns = tuple(table)
    methods = sorted({name: None for row in table.values() for name in row}, key=_group_index)
    intervals = {column: _intervals(row) for column, row in table.items()}
    cells = {column: marked(row) for column, row in intervals.items()}
    lines = (
        Line(name, group_of(name), tuple(cells[column].get(name) for column in columns))
        for name in methods
    )
    return Grid(title, columns, tuple(lines))


def marked(row: Mapping[str, Interval]) -> dict[str, Cell]:
    """The cells of one column by method."""
    ranked = sorted({_rounded(interval) for interval in row.values()}, reverse=True)
    return {
        name: Cell(
            value=interval,
            is_best=_rounded(interval) == ranked[0],
            is_second=len(ranked) > 1 and _rounded(interval) == ranked[1],
            beats_base=(base := base_of(name)) is not None
            and base in row
            and interval.value > row[base].value,
        )
        for name, interval in row.items()
    }


def contests(claims: Sequence[Claim]) -> list[Contest]:
    """One table a claim: a line for each strategy, method and rival, a column for each task."""
    found = []
    for name in dict.fromkeys(claim.claim for claim in claims):
        lines: dict[tuple[str, str, str], dict[str, Claim]] = {}
        columns = list(dict.fromkeys(claim.column for claim in claims if claim.claim == name))
        for claim in claims:
            if claim.claim == name:
                # Against many, the strongest differs by task and stands in the cell.
                rival = claim.rival if claim.num_rivals == 1 and claim.rival != claim.method else ""
                lines.setdefault((claim.strategy, claim.method, rival), {})[claim.column] = claim
        rows = tuple(
            ContestLine(*key, tuple(cells.get(column) for column in columns))
            for key, cells in lines.items()
        )
        found.append(Contest(f"{name[0].upper()}{name[1:]}", tuple(columns), rows))
    return found


def group_of(name: str) -> str:
    """The part of the table that a method stands in."""
    if is_cocoa(name):
        return "CoCoA"
    return "alternative formulations" if name.startswith(ALTERNATIVES) else "baselines"


def shown_samples(texts: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Distinct texts with their counts, the most frequent first."""
    return tuple(Counter(texts).most_common())


def to_json(table: Table) -> dict[str, Any]:
    """Column to method to value, low and high."""
    return {
        column: {name: asdict(interval) for name, interval in _intervals(row).items()}
        for column, row in table.items()
    }


def markdown(report: Report) -> str:
    """Everything but plots and answers."""
    parts = [f"# {report.title}", f"```sh\n{report.command}\n```", _markdown_facts(report.facts)]
    if report.tasks:
        parts.append(_markdown_rows(report.tasks))
    parts += ["## Claims", _VERDICTS, *_markdown_claims(report.claims)]
    parts.append("## Tables")
    parts.append(
        "Best of a column **bold**, second <u>underlined</u>, ↑ above its own base; "
        "in brackets the 95 % interval of "
        "the percentile bootstrap over prompts."
    )
    parts += [_markdown_grid(one) for one in report.grids]
    if report.similarity_grids:
        parts += ["## Similarity functions", *map(_markdown_grid, report.similarity_grids)]
        parts += _markdown_claims(report.similarity_claims)
    if report.alternative_claims:
        parts += ["## Alternative formulations", *_markdown_claims(report.alternative_claims)]
    if report.notes:
        parts += ["## Notes", "\n".join(f"- {note}" for note in report.notes)]
    return "\n\n".join(parts) + "\n"


def html(report: Report) -> str:
    """One page without anything from elsewhere; every text is escaped."""
    environment = Environment(
        loader=PackageLoader("app.lab"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.filters |= {"number": number, "signed": signed, "contests": contests}
    return environment.get_template("report.html.j2").render(report=report, mean=MEAN)


def number(value: float) -> str:
    """Three digits, without the zero before the point.

    >>> number(0.5), number(-0.25), number(1.0)
    ('.500', '-.250', '1.000')
    """
    text = f"{value:.{_DIGITS}f}"
    return (
        text.replace("0.", ".", 1) if abs(value) < 1 and text.lstrip("-").startswith("0.") else text
    )


def signed(value: float) -> str:
    """`number` with its sign."""
    return number(value) if value < 0 else f"+{number(value)}"


def _intervals(row: Mapping[str, Any]) -> dict[str, Interval]:
    return {
        name: interval
        for name, measured in row.items()
        if (interval := measured.interval) is not None
    }


def _group_index(name: str) -> int:
    return ("baselines", "CoCoA", "alternative formulations").index(group_of(name))


def _rounded(interval: Interval) -> float:
    return round(interval.value, _DIGITS)


def _markdown_facts(facts: Mapping[str, str]) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in facts.items())


def _markdown_rows(rows: Sequence[Mapping[str, str]]) -> str:
    head = list(rows[0])
    return markdown_table(head, [[row[name] for name in head] for row in rows])


def _markdown_grid(one: Grid) -> str:
    rows = [[f"`{line.method}`", *map(_markdown_cell, line.cells)] for line in one.lines]
    return f"### {one.title}\n\n" + markdown_table(["method", *one.columns], rows)


def _markdown_cell(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    text = number(cell.value.value)
    text = f"**{text}**" if cell.is_best else f"<u>{text}</u>" if cell.is_second else text
    arrow = " ↑" if cell.beats_base else ""
    return f"{text}{arrow} [{number(cell.value.low)}, {number(cell.value.high)}]"


def _markdown_claims(claims: Sequence[Claim]) -> list[str]:
    return [_markdown_contest(one) for one in contests(claims)]


def _markdown_contest(one: Contest) -> str:
    has_rival = any(line.rival for line in one.lines)
    head = ["answers", "method", *(["against"] if has_rival else []), *one.columns]
    rows = [
        [
            line.strategy,
            f"`{line.method}`",
            *([f"`{line.rival}`"] if has_rival else []),
            *map(_markdown_claim, line.cells),
        ]
        for line in one.lines
    ]
    return f"### {one.title}\n\n" + markdown_table(head, rows)


def _markdown_claim(claim: Claim | None) -> str:
    if claim is None:
        return "-"
    interval = claim.difference
    text = f"{signed(interval.value)} [{signed(interval.low)}, {signed(interval.high)}]"
    text = (
        f"**{text}**"
        if claim.verdict == "supported"
        else f"_{text}_"
        if claim.verdict == "refuted"
        else text
    )
    if claim.num_rivals > 1:
        text += f" `{claim.rival}`; {claim.num_above} / {claim.num_below} of {claim.num_rivals}"
    return f"{text} {claim.verdict}"


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines
    )
