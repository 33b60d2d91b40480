"""What mkdocs needs to make the site of the files as they stand in the repository.

Pages that live outside of docs/ are taken in, and links between files become links between pages.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
# File of the repository: page of the site.
OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "docker/vllm/README.md": "vllm-plugin.md",
}
_SOURCES = {page: source for source, page in OUTSIDE.items()}
_LINK = re.compile(r"(!?)\[([^\[\]]*)\]\(([^()\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Take in the pages that live outside of docs/."""
    for source, page in OUTSIDE.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links between files as links between pages; what has no page is named, not linked."""
    here = page.file.src_uri
    source = _SOURCES.get(here, f"docs/{here}")

    def linked(match: re.Match[str]) -> str:
        mark, text, target = match.groups()
        path, anchor_mark, anchor = target.partition("#")
        if not path or ":" in path:
            return match[0]
        found = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        goal = _page_of(found)
        if goal is None:
            return text
        relative = posixpath.relpath(goal, posixpath.dirname(here) or ".")
        return f"{mark}[{text}]({relative}{anchor_mark}{anchor})"

    return _LINK.sub(linked, markdown)


def _page_of(path: str) -> str | None:
    """Page of a file or folder of the repository; None where it has none."""
    if path in OUTSIDE:
        return OUTSIDE[path]
    inside = path.removeprefix("docs/")
    if inside == path:
        if not (ROOT / path).exists():
            raise FileNotFoundError(f"a link leads to {path}, which does not exist")
        return None
    return f"{inside}/README.md" if (ROOT / path).is_dir() else inside
