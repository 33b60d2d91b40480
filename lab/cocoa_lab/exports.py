"""Tables of a run for other programs: tables.csv, and tables.tex for a paper."""

import csv
from collections.abc import Sequence
from pathlib import Path

from cocoa_lab.report import Cell, Grid, cell_text

_TEX = str.maketrans(
    {
        **{sign: f"\\{sign}" for sign in "_%&#${}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
    }
)
_ARROW = str.maketrans({"↑": r"$\uparrow$"})
_HEAD = ("table", "method", "column", "value", "low", "high")


def write_tables(grids: Sequence[Grid], out: Path) -> None:
    """Write both files; values in the CSV have all their digits."""
    with (out / "tables.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(_HEAD)
        for grid in grids:
            for line in grid.lines:
                for column, cell in zip(grid.columns, line.cells, strict=True):
                    if cell is not None:
                        value = cell.value.value, cell.value.low, cell.value.high
                        rows.writerow([grid.title, line.method, column, *value])
    text = "% Needs \\usepackage{booktabs}.\n" + "\n".join(map(_tex, grids))
    (out / "tables.tex").write_text(text, encoding="utf-8")


def _tex(grid: Grid) -> str:
    """A table of LaTeX, with its title as caption."""
    columns = " & ".join(["method", *map(_escaped, grid.columns)])
    lines = [r"\begin{table}", rf"\caption{{{_escaped(grid.title)}}}"]
    lines += [rf"\begin{{tabular}}{{l{'r' * len(grid.columns)}}}", r"\toprule"]
    lines += [rf"{columns} \\", r"\midrule"]
    for line in grid.lines:
        cells = " & ".join([_escaped(line.method), *map(_tex_cell, line.cells)])
        lines.append(rf"{cells} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _tex_cell(cell: Cell | None) -> str:
    return cell_text(cell, best=r"\textbf{{{}}}", second=r"\underline{{{}}}").translate(_ARROW)


def _escaped(text: str) -> str:
    return text.translate(_TEX)
