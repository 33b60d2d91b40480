"""Gathers the pages of the site, as they stand in the repository, where it is built.

    python docs/site/gather.py build

writes build/docs and build/zensical.toml. Pages that live outside of docs/ are taken in, and links
between files become links between pages.
"""

import base64
import json
import posixpath
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
# File of the repository: page of the site.
OUTSIDE = {
    "README.md": "overview.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "docker/vllm/README.md": "vllm-plugin.md",
}
# What the pages look like.
ASSETS = {"docs/site/colours.css": "colours.css", "app/plugins/page/files/icon.svg": "icon.svg"}
_LINK = re.compile(r"(!?)\[([^\[\]]*)\]\(([^()\s]+)\)")


def gather(folder: Path) -> None:
    """Write the pages and the settings of the site into this folder.

    Raises:
        FileNotFoundError: a link leads to a file that does not exist.
    """
    pages = folder / "docs"
    shutil.rmtree(pages, ignore_errors=True)
    for path in sorted((ROOT / "docs").rglob("*")):
        inside = path.relative_to(ROOT / "docs")
        if path.is_dir() or inside.parts[0] == "site":
            continue
        if path.suffix == ".ipynb":
            _write_notebook(path, pages / inside.with_suffix(".md"))
        elif path.suffix == ".md":
            _write(pages / inside, _page(f"docs/{inside}", str(inside)))
        else:
            _copy(path, pages / inside)
    for source, page in OUTSIDE.items():
        _write(pages / page, _page(source, page))
    for source, name in ASSETS.items():
        _copy(ROOT / source, pages / name)
    _copy(HERE / "zensical.toml", folder / "zensical.toml")


def linked(text: str, source: str, page: str) -> str:
    """The text of a file as that of a page: what has no page is named, not linked."""

    def changed(match: re.Match[str]) -> str:
        mark, shown, target = match.groups()
        path, anchor_mark, anchor = target.partition("#")
        if not path or ":" in path:
            return match[0]
        goal = _page_of(posixpath.normpath(posixpath.join(posixpath.dirname(source), path)))
        if goal is None:
            return shown
        relative = posixpath.relpath(goal, posixpath.dirname(page) or ".")
        return f"{mark}[{shown}]({relative}{anchor_mark}{anchor})"

    return _LINK.sub(changed, text)


def _write_notebook(path: Path, page: Path) -> None:
    """Write a notebook of docs/ as a page, with what its cells have printed and drawn."""
    name = path.name
    page.parent.mkdir(parents=True, exist_ok=True)
    parts: list[str] = []
    num_drawn = 0
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(linked(text, f"docs/{name}", name))
            continue
        parts.append(f"```python\n{text}\n```")
        for output in cell["outputs"]:
            if output["output_type"] == "stream":
                parts.append(f"```text\n{''.join(output['text'])}```")
            elif drawn := output.get("data", {}).get("image/png"):
                num_drawn += 1
                picture = page.with_name(f"{path.stem}-{num_drawn}.png")
                picture.write_bytes(base64.b64decode(drawn))
                parts.append(f"![What the code above draws]({picture.name})")
    page.write_text("\n\n".join(parts), encoding="utf-8")


def _page(source: str, page: str) -> str:
    return linked((ROOT / source).read_text(encoding="utf-8"), source, page)


def _page_of(path: str) -> str | None:
    """Page of a file or folder of the repository; None where it has none."""
    if path in OUTSIDE:
        return OUTSIDE[path]
    if not (ROOT / path).exists():
        raise FileNotFoundError(f"a link leads to {path}, which does not exist")
    inside = path.removeprefix("docs/")
    if inside == path:
        return None
    if (ROOT / path).is_dir():
        return f"{inside}/README.md"
    return re.sub(r"\.ipynb$", ".md", inside)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _copy(source: Path, goal: Path) -> None:
    goal.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, goal)


if __name__ == "__main__":
    gather(Path(sys.argv[1]))
