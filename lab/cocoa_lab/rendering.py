"""A report as Markdown in the paper's shape, and as one self-contained HTML page. Pure."""

from collections.abc import Mapping, Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from cocoa_lab.claims import Claim
from cocoa_lab.comparison import MEAN
from cocoa_lab.report import Cell, Contest, Grid, Report, cell_text, contests, number, signed

_VERDICTS = (
    "Differences of PRR with their 95 % intervals, both methods on the same resampled prompts. "
    "**Supported**: the interval lies above zero; _refuted_: below; undecided: it holds zero. "
    "Against every baseline: the strongest one, "
    "and how many the method lies above / below by interval."
)

COSTS = (
    "Processor time of one prompt once its answer and samples are there, measured on a few prompts "
    "one after another, for estimators that ask models for the same. What several rows ask for, "
    "a run computes once."
)


def markdown(report: Report) -> str:
    """Everything but plots and answers."""
    parts = [f"# {report.title}", "## Recommendation", report.recommendation, "## Run"]
    parts += [f"```sh\n{report.command}\n```", _markdown_facts(report.facts)]
    if report.tasks:
        parts.append(_markdown_rows(report.tasks))
    if report.costs:
        parts += ["## What estimators cost", COSTS, _markdown_rows(report.costs)]
    parts.append("## Tables")
    parts.append(
        "Best of a column **bold**, second <u>underlined</u>, ↑ above its own base; "
        "in brackets the 95 % interval of "
        "the percentile bootstrap over prompts."
    )
    parts += map(_markdown_grid, report.grids)
    parts += ["## Claims", _VERDICTS, *_markdown_claims(report.claims)]
    if report.similarity_grids:
        parts += ["## Similarity functions", *map(_markdown_grid, report.similarity_grids)]
        parts += _markdown_claims(report.similarity_claims)
    if report.sample_grids:
        parts += ["## Number of samples", *map(_markdown_grid, report.sample_grids)]
        parts += _markdown_claims(report.sample_claims)
    if report.rao_blackwell_claims:
        parts += ["## Rao-Blackwellised", *_markdown_claims(report.rao_blackwell_claims)]
    if report.alternative_claims:
        parts += ["## Alternative formulations", *_markdown_claims(report.alternative_claims)]
    parts += ["## What the methods are", _markdown_rows(report.methods)]
    if report.notes:
        parts += ["## Notes", "\n".join(f"- {note}" for note in report.notes)]
    return "\n\n".join(parts) + "\n"


def html(report: Report) -> str:
    """One page without anything from elsewhere; every text is escaped."""
    environment = Environment(
        loader=PackageLoader("cocoa_lab"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.filters |= {"number": number, "signed": signed, "contests": contests}
    return environment.get_template("report.html.j2").render(
        report=report, mean=MEAN, about_costs=COSTS
    )


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = []
    for row in [head, ["---"] * len(head), *rows]:
        cells = [cell.replace("|", "\\|") for cell in row]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _markdown_facts(facts: Mapping[str, str]) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in facts.items())


def _markdown_rows(rows: Sequence[Mapping[str, str]]) -> str:
    return markdown_table(list(rows[0]), [list(row.values()) for row in rows])


def _markdown_grid(one: Grid) -> str:
    rows = [[f"`{line.method}`", *map(_markdown_cell, line.cells)] for line in one.lines]
    return f"### {one.title}\n\n" + markdown_table(["method", *one.columns], rows)


def _markdown_cell(cell: Cell | None) -> str:
    return cell_text(cell, best="**{}**", second="<u>{}</u>")


def _markdown_claims(claims: Sequence[Claim]) -> list[str]:
    return list(map(_markdown_contest, contests(claims)))


def _markdown_contest(one: Contest) -> str:
    has_rival = any(line.rival for line in one.lines)
    rows = [["answers", "method", "against", *one.columns]]
    for line in one.lines:
        cells = map(_markdown_claim, line.cells)
        rows.append([line.strategy, f"`{line.method}`", f"`{line.rival}`", *cells])
    if not has_rival:
        for row in rows:
            del row[2]
    return f"### {one.title}\n\n" + markdown_table(rows[0], rows[1:])


def _markdown_claim(claim: Claim | None) -> str:
    if claim is None:
        return "-"
    interval = claim.difference
    text = f"{signed(interval.value)} [{signed(interval.low)}, {signed(interval.high)}]"
    marks = {"supported": "**", "refuted": "_", "undecided": ""}
    text = f"{marks[claim.verdict]}{text}{marks[claim.verdict]}"
    if claim.num_rivals > 1:
        text += f" `{claim.rival}`; {claim.num_above} / {claim.num_below} of {claim.num_rivals}"
    return f"{text} {claim.verdict}"
