"""Code blocks of the documentation, and what each is run as.

    python -m tests.docs.blocks

lists those that are not run here, with their reasons.

A block is run unless a comment before it says why not, `<!-- not run: REASON -->`; with
`<!-- not run on this page: REASON -->` no block of the page is. Fences without a language, and
those of `text`, show a picture or an output; indented blocks are commands. The code of a notebook
is one block.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "clients/python/README.md",
    "docker/vllm/README.md",
    *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md")),
    *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.ipynb")),
]
# What a language is called in fences: what runs or reads it.
KINDS = {
    "sh": "shell",
    "bash": "shell",
    "python": "python",
    "javascript": "javascript",
    "json": "json",
    "toml": "toml",
    "yaml": "yaml",
    "text": "text",
    "": "text",
}
_NOT_RUN = re.compile(r"<!-- not run: (.+?) -->")
_NONE_RUN = re.compile(r"^<!-- not run on this page: (.+?) -->", re.MULTILINE)
_FENCE = re.compile(r"( *)```+ *([\w+-]*)")


@dataclass(frozen=True)
class Block:
    """A block of a page.

    Attributes:
        line: the first of its text, from 1.
        kind: what it is run as.
        reason: why it is not run; None where it is.
    """

    page: str
    line: int
    kind: str
    text: str
    reason: str | None

    def __str__(self):
        return f"{self.page}:{self.line}"


def blocks_of(page, text=None):
    """All blocks of a page, in order."""
    text = (ROOT / page).read_text() if text is None else text
    if page.endswith(".ipynb"):
        return [Block(page, 1, "python", _code_of(text), None)]
    lines = text.splitlines()
    none_run = _NONE_RUN.search(text)
    found, reason, at = [], None, 0
    while at < len(lines):
        begun = at
        if fence := _FENCE.match(lines[at]):
            at = next(i for i in range(at + 1, len(lines)) if lines[i].strip().startswith("```"))
            kind, inside = KINDS[fence[2]], lines[begun + 1 : at]
            inside = [line.removeprefix(fence[1]) for line in inside]
            at += 1
            first = begun + 2
        elif lines[at].startswith("    ") and (at == 0 or not lines[at - 1].strip()):
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                at += 1
            kind, inside = "shell", [line[4:] for line in lines[begun:at]]
            first = begun + 1
        else:
            if named := _NOT_RUN.search(lines[at]):
                reason = named[1]
            elif lines[at].strip():
                reason = None
            at += 1
            continue
        if none_run:
            reason = none_run[1]
        found.append(Block(page, first, kind, "\n".join(inside).strip("\n") + "\n", reason))
        reason = None
    return found


def _code_of(notebook):
    """The code of all cells."""
    cells = json.loads(notebook)["cells"]
    return "\n\n".join("".join(one["source"]) for one in cells if one["cell_type"] == "code")


def all_blocks():
    """Blocks of all pages."""
    return [block for page in PAGES for block in blocks_of(page)]


if __name__ == "__main__":
    for block in all_blocks():
        if block.reason is not None:
            print(f"{block}: {block.reason}")
