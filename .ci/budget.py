"""How much there is to read, and what one request travels through; no number may grow.

    python .ci/budget.py          # fails where a number is above its budget in .ci/budget.toml
    python .ci/budget.py --lower  # lowers the budget to what was counted, and a margin of 2 %

Words are those of the documentation, code and tables included; its long sentences have more than
40, but for code and tables.
Lines, comprehensions and conditional expressions (`a if b else c`) are those of app, models and
workers; names are those that their packages use of one another.
The files, functions, source lines and arrows are those of the project that run for one request
after a warm-up; comprehensions are parts of their functions, whose lines all count.
An arrow is a pair of files of which one calls the other; a way back is one that the other returns.
"""

import ast
import asyncio
import json
import os
import re
import subprocess
import sys
import threading
import tomllib
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from names import names_across, names_of_plugins

ROOT = Path(__file__).parent.parent
BUDGET = Path(__file__).with_name("budget.toml")
PACKAGES = ("app", "models", "workers")
DENSITIES = "comprehensions", "conditional_expressions", "names"
# What plugins stand on; of all other modules each uses a few names.
UNDER_PLUGINS = frozenset(
    {"app.plugin", "models.errors", "models.records", "models.statistics", "workers.protocol"}
)
MAX_NAMES_OF_A_PLUGIN = 40
COMPREHENSIONS = ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
CHAT = {"model": "embedded-long", "messages": [{"role": "user", "content": "Tell me about Lima."}]}
# Language model, path, body, and whether an equal request came before it.
REQUESTS: dict[str, tuple[str, str, dict[str, Any], bool]] = {
    "plain": (
        "embedded",
        "/generate-with-uncertainty",
        {"prompt": "What is the capital of France?"},
        False,
    ),
    "streamed_chat_with_tools": (
        "embedded-long",
        "/v1/chat/completions",
        {**CHAT, "stream": True, "tools": [TOOL]},
        False,
    ),
    "cached_chat": ("embedded-long", "/v1/chat/completions", CHAT, True),
}


class Travel:
    """The files and functions of the project that run while it is watched."""

    def __init__(self) -> None:
        self._folders = tuple(f"{ROOT / package}{os.sep}" for package in PACKAGES)
        self._functions: set[tuple[str, str]] = set()
        self._lines: set[tuple[str, int]] = set()
        self._arrows: set[tuple[str, str]] = set()
        self._is_on = False
        threading.setprofile(self._called)  # of the threads that begin from now on
        sys.setprofile(self._called)

    def watch(self) -> None:
        self._functions, self._lines, self._arrows = set(), set(), set()
        self._is_on = True

    def counted(self) -> dict[str, int]:
        self._is_on = False
        back = {arrow for arrow in self._arrows if arrow[::-1] in self._arrows}
        return {
            "files": len({file for file, _ in self._functions}),
            "functions": len(self._functions),
            "source_lines": len(self._lines),
            "arrows": len(self._arrows),
            "ways_back": len(back) // 2,
        }

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        if not self._is_on or event != "call":
            return
        file = frame.f_code.co_filename
        if not file.startswith(self._folders):
            return
        if not frame.f_code.co_name.endswith(("comp>", "genexpr>")):  # a part of its function
            self._functions.add((file, frame.f_code.co_qualname))
            self._lines.update((file, line) for line in _lines_of(frame.f_code))
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(self._folders):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != file:
            self._arrows.add((caller.f_code.co_filename, file))


@cache
def _lines_of(code: CodeType) -> range:
    """The lines of a function, from `def` or its first decorator to its last statement."""
    last = code.co_firstlineno
    for *_, line in code.co_lines():
        last = max(last, line or 0)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            last = max(last, _lines_of(inner)[-1])
    return range(code.co_firstlineno, last + 1)


async def travel_of(path: str, body: dict[str, Any], *, comes_again: bool) -> dict[str, int]:
    """What a request travels through, behind two others.

    The least of three, since the service's own tasks run during some of them.
    """
    import httpx

    from app.main import create_app
    from app.settings import Settings

    travel = Travel()
    app = create_app(Settings())
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://x", timeout=60) as client,
    ):
        await app.state.service.supervisor.ready.wait()
        for seed in (0, 1, *([2, 2] if comes_again else [])):
            await client.post(path, json={**body, "seed": seed})
        found = []
        for seed in (2, 2, 2) if comes_again else (2, 3, 4):
            travel.watch()
            response = await client.post(path, json={**body, "seed": seed})
            response.raise_for_status()
            found.append(travel.counted())
    return {what: min(one[what] for one in found) for what in found[0]}


def of_documentation() -> dict[str, int]:
    """Words and long sentences of all pages but the changelog and what the code makes.

    `docs_words` are those of docs without decisions, `markdown_words` all.
    """
    blocks = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
    no_prose = re.compile(r"^(\||#|    |<!--).*", re.MULTILINE)
    ends = re.compile(r"\n\s*\n|\n *(?:[-*]|\d+\.) |[.!?][\"*)_`]*\s+(?=[\[\"`*(_A-Z0-9])")
    found = {"long_sentences": 0, "docs_words": 0, "markdown_words": 0}
    listed = subprocess.check_output(["git", "ls-files", "*.md"], cwd=ROOT, text=True)  # noqa: S607
    for page in listed.splitlines():
        if page.startswith(("docs/reference", "CHANGELOG.md")):
            continue
        text = (ROOT / page).read_text("utf-8")
        found["markdown_words"] += len(text.split())
        if page.startswith("docs/") and not page.startswith("docs/adr/"):
            found["docs_words"] += len(text.split())
        prose = no_prose.sub("", blocks.sub("", text))
        found["long_sentences"] += sum(len(one.split()) > 40 for one in ends.split(prose))
    return found


def counted() -> dict[str, int]:
    """All numbers that the budget has, as they are."""
    found = {**of_documentation(), "lines": 0, "comprehensions": 0, "conditional_expressions": 0}
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            text = file.read_text(encoding="utf-8")
            found["lines"] += len(text.splitlines())
            for node in ast.walk(ast.parse(text)):
                found["comprehensions"] += isinstance(node, COMPREHENSIONS)
                found["conditional_expressions"] += isinstance(node, ast.IfExp)
    found["names"] = sum(map(len, names_across(ROOT, PACKAGES).values()))
    for name in REQUESTS:
        # Each in a process of its own: threads that began before are not watched.
        reader, writer = os.pipe()
        if not (pid := os.fork()):
            model, path, body, comes_again = REQUESTS[name]
            os.environ["COCOA_GENERATION__MODEL"] = model
            of_request = asyncio.run(travel_of(path, body, comes_again=comes_again))
            os.write(writer, json.dumps(of_request).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as answer:
            said = answer.read()
        os.waitpid(pid, 0)
        if not said:
            sys.exit(f"the request {name} has failed")
        found |= {f"{name}_{what}": count for what, count in json.loads(said).items()}
    return found


def _with_margin(name: str, count: int) -> int:
    """A request takes a few other functions where a processor has other instructions."""
    if name.startswith(tuple(REQUESTS)):
        return count + count // 50
    return count


def main() -> None:
    found, budget = counted(), tomllib.loads(BUDGET.read_text())
    over = {name: count for name, count in found.items() if count > budget.get(name, count)}
    if "--lower" in sys.argv:
        lowest = {}
        for name, count in found.items():
            lowest[name] = min(_with_margin(name, count), budget.get(name, 10**9))
        text = "# Counted by .ci/budget.py. A change may lower these numbers, and not raise them.\n"
        BUDGET.write_text(text + "".join(f"{name} = {n}\n" for name, n in lowest.items()))
    for name, count in found.items():
        mark = "  ABOVE ITS BUDGET" if name in over else ""
        per_thousand = ""
        if name in DENSITIES:
            per_thousand = f" ({count / found['lines'] * 1000:.1f} per 1,000 lines)"
        print(f"{name:42} {count:6} of {budget.get(name, count)}{per_thousand}{mark}")
    for name, names in names_of_plugins(ROOT, "app/plugins", UNDER_PLUGINS).items():
        if len(names) > MAX_NAMES_OF_A_PLUGIN:
            sys.exit(f"the plugin {name} uses {len(names)} names, {', '.join(sorted(names))}")
    if over:
        sys.exit("there is more to read than before: remove what the change makes unnecessary")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
