"""Where the processor time of a request goes, by stage, and how it grows.

    python benchmarks/stages.py      # the table of docs/benchmarks.md and docs/images/growth.png

The service runs in a process of its own, one thread to each model, and is asked over HTTP from the
same process. Its threads' clocks are read around each stage, so that other work on the machine
moves the times less than those of a wall clock, though it does move them: caches and the pace of a
core are shared.

- `embedded` answers in a few tokens. Long answers are of `embedded-long` without the tokens that
  end an answer or a reasoning: it goes on writing sentences, seven tokens each.
- The answer's share of decoding is that of the same request without samples. Records are not asked
  for without them: all of their decoding stands with the answer's.
- HTTP is what the event loop's thread takes besides: parsing, checks, JSON, tasks. The rest is what
  models' threads take beside their passes: joining rows, texts, tokenising.
"""

import asyncio
import json
import re
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import httpx
import matplotlib as mpl
import torch
import typer
import uvicorn
from alone import Block, Measure, in_own_process, save_endless_model
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from report import Figure, Round, Values, figure, reporting
from service import PATH, body_of, free_port, testbed_prompts
from transformers import AutoModelForCausalLM

from app.main import create_app
from app.scoring import computation, scorer
from app.settings import Settings
from cocoa_lab.plots import STYLE
from models.embedded import LANGUAGE_MODELS
from models.engines import inflight
from models.engines.rows import RowCache
from models.similarity.cross_encoder import CrossEncoderModel
from models.similarity.nli import NliModel

# What is timed where it is called: the stage, the owner, the name.
_TIMED: Sequence[tuple[str, Any, str]] = (
    ("prefill", RowCache, "prefill"),
    ("decode", RowCache, "forward"),
    ("decode", inflight, "next_tokens"),
    ("decode", inflight, "mask"),
    ("pairs", CrossEncoderModel, "score"),
    ("NLI", NliModel, "score"),
    ("arithmetic", computation, "derive"),
    ("arithmetic", scorer, "score"),
    ("arithmetic", scorer, "scored_units"),
    ("arithmetic", scorer, "judge_units"),
)
STAGES = (
    "prefill",
    "decode of the answer",
    "decode of the samples",
    "pairs",
    "NLI",
    "arithmetic",
    "HTTP",
    "rest",
)
_COLOURS = mpl.color_sequences["tab10"]
_DOCS = Path(__file__).parents[1] / "docs"
_TESTBED = Path(__file__).parents[1] / "models" / "embedded" / "long_testbed"
_TIMEOUT_S = 600
_NUM_SAMPLES = (1, 2, 5, 10, 20, 40)
_NUM_TOKENS = (20, 60, 150, 300)
_NUM_CLIENTS = (1, 2, 4, 8, 16, 32)
_TITLES = {
    "samples": "a request of a few tokens, by M",
    "long answers": "a request with sentences, M = 5, by tokens",
    "clients": "a request, M = 10, by clients at once",
}
_NUM_ROWS = (1, 2, 4, 8, 16, 32, 64, 128)
# Columns of the table: the part, and the request of it.
_COLUMNS = {
    "a few tokens, M = 10": ("samples", "M = 10"),
    "60 tokens, 8 sentences": ("long answers", "60 tokens"),
    "150 tokens, 21 sentences": ("long answers", "150 tokens"),
    "reasoned, 300 tokens": ("long answers", "reasoned"),
    "JSON": ("JSON", "JSON"),
}
_CORNER = "| ms of one processor |"


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Of each part.")] = 3,
    minutes: Annotated[float, typer.Option(help="It ends after these.")] = 10.0,
    write: Annotated[bool, typer.Option(help="Write table and picture into docs/.")] = True,
) -> None:
    """Measure, print and store, then write what was measured into the documentation."""
    with reporting("stages", minutes) as report, tempfile.TemporaryDirectory() as folder:
        save_endless_model(LANGUAGE_MODELS["embedded-long"], folder, trained=True)
        parts: dict[str, Callable[[], AbstractContextManager[Round]]] = {
            "samples": partial(_requests, "embedded", _short()),
            "long answers": partial(_requests, folder, _long()),
            "JSON": partial(_requests, "embedded-long", _record()),
            "rows": _rows,
            "clients": _clients,
        }
        medians: dict[str, Values] = {}
        for part, start in parts.items():
            found = report.measure(part, rounds, start, partial(_figures, part))
            medians[part] = {one.name: one.value for one in _figures(part, found)}
        if write:
            drawing(medians).savefig(_DOCS / "images" / "growth.png", dpi=110)
            page = _DOCS / "benchmarks.md"
            page.write_text(with_table(page.read_text("utf-8"), medians), "utf-8")


def _short() -> dict[str, dict[str, Any]]:
    """Requests of a few tokens, by M."""
    prompt = testbed_prompts(1)[0]
    return {f"M = {count}": body_of(prompt, 1, num_samples=count) for count in _NUM_SAMPLES}


def _long() -> dict[str, dict[str, Any]]:
    """Requests with sentences, by tokens; a reasoned one."""
    asked = {f"{count} tokens": _of("paragraph", count, units="sentences") for count in _NUM_TOKENS}
    return asked | {"reasoned": _of("reasoning", 320, max_reasoning_tokens=300)}


def _record() -> dict[str, dict[str, Any]]:
    schema = {"name": "record", "schema": _first("json")["json_schema"]}
    held = {"type": "json_schema", "json_schema": schema}
    return {"JSON": _of("json", 200, response_format=held)}


def _first(task: str) -> dict[str, Any]:
    lines = (_TESTBED / f"{task}.jsonl").read_text("utf-8").splitlines()
    found: dict[str, Any] = json.loads(lines[0])
    return found


def _of(task: str, num_tokens: int, **fields: Any) -> dict[str, Any]:
    """The first of that task, M = 5."""
    few = {"num_samples": 5, "seed": 1, "cache": False, "max_new_tokens": num_tokens}
    return few | {"messages": _first(task)["messages"]} | fields


@contextmanager
def _requests(model: str, asked: Mapping[str, dict[str, Any]]) -> Iterator[Round]:
    """Stages of each request; without samples first, for the answer's share."""
    with in_own_process(stages_of, model) as block:
        _split(block, next(iter(asked.values())))  # warms up

        def measure(number: int) -> Values:
            found: Values = {}
            for name, body in asked.items():
                for stage, ms in _split(block, body).items():
                    found[f"{name}: {stage}"] = ms
            return found

        yield measure


def _split(block: Block, body: dict[str, Any]) -> Values:
    bare = {name: value for name, value in body.items() if name not in ("num_samples", "units")}
    [alone] = block([json.dumps([bare | {"estimators": ["sp"]}])])
    [stages] = block([json.dumps([body])])
    decode = stages.pop("decode")
    of_answer = decode if "response_format" in body else min(alone["decode"], decode)
    split = {"decode of the answer": of_answer, "decode of the samples": decode - of_answer}
    return {stage: (stages | split)[stage] for stage in STAGES}


@contextmanager
def _clients() -> Iterator[Round]:
    """Processor milliseconds of a request, by stage, where so many are asked at once."""
    bodies = [body_of(prompt, 1) for prompt in testbed_prompts(max(_NUM_CLIENTS))]
    with in_own_process(stages_of, "embedded") as block:
        block([json.dumps(bodies[:1])])  # warms up

        def measure(number: int) -> Values:
            found: Values = {}
            for count in _NUM_CLIENTS:
                waves = [bodies[i : i + count] for i in range(0, len(bodies), count)]
                measured = block([json.dumps(wave) for wave in waves])
                for stage in measured[0]:
                    total = sum(one[stage] for one in measured)
                    found[f"{count}: {stage}"] = total / len(waves)
            return found

        yield measure


@contextmanager
def _rows() -> Iterator[Round]:
    with in_own_process(step_of, "embedded-long") as block:
        block(["1"])
        yield lambda number: dict(
            zip(map(str, _NUM_ROWS), block(list(map(str, _NUM_ROWS))), strict=True)
        )


def step_of(model: str, repetitions: int = 20) -> Measure:
    """Processor milliseconds of a decoding step's pass, by the number of its rows."""
    torch.set_num_threads(1)
    rows = RowCache(AutoModelForCausalLM.from_pretrained(LANGUAGE_MODELS[model]).eval())

    def measure(num_rows: str) -> float:
        rows.clear()
        rows.join(rows.prefill([[7] * 64]) * int(num_rows))
        began_at = time.thread_time()
        for _ in range(repetitions):
            rows.forward([7] * int(num_rows))
        return 1000 * (time.thread_time() - began_at) / repetitions

    return torch.inference_mode()(measure)


def stages_of(model: str) -> Measure:
    """Processor milliseconds of a request, of several at once, by stage; the service runs here."""
    spent = dict.fromkeys((stage for stage, _, _ in _TIMED), 0.0)
    for stage, owner, name in _TIMED:
        setattr(owner, name, _timed(getattr(owner, name), spent, stage))
    settings = Settings.model_validate(
        {
            "generation": {"model": model, "threads": 1},
            "similarity": {"threads": 1},
            "nli": {"model": "embedded"},
            "log_level": "warning",
        }
    )
    port = free_port()
    server = uvicorn.Server(
        uvicorn.Config(create_app(settings), port=port, log_level="error", access_log=False)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{port}"
    while not server.started or httpx.get(f"{url}/readyz").status_code != httpx.codes.OK:
        time.sleep(0.1)
    assert thread.ident is not None
    loop_clock = time.pthread_getcpuclockid(thread.ident)
    runner = asyncio.Runner()
    client = httpx.AsyncClient(base_url=url, timeout=_TIMEOUT_S)

    async def ask(bodies: Sequence[dict[str, Any]]) -> None:
        for reply in await asyncio.gather(*(client.post(PATH, json=body) for body in bodies)):
            if reply.is_error:
                raise RuntimeError(reply.text)

    def clocks() -> tuple[float, float, float]:
        return time.process_time(), time.thread_time(), time.clock_gettime(loop_clock)

    def measure(asked: str) -> Values:
        bodies = json.loads(asked)
        spent.update(dict.fromkeys(spent, 0.0))
        before = clocks()
        runner.run(ask(bodies))
        everything, own, loop = (b - a for a, b in zip(before, clocks(), strict=True))
        stages = dict(spent)
        stages["HTTP"] = max(0.0, loop - spent["arithmetic"])
        stages["rest"] = max(0.0, everything - own - sum(stages.values()))
        return {stage: 1000 * seconds / len(bodies) for stage, seconds in stages.items()}

    return measure


def _timed(function: Callable[..., Any], spent: dict[str, float], stage: str) -> Callable[..., Any]:
    def timed(*args: Any, **kwargs: Any) -> Any:
        began_at = time.thread_time()
        try:
            return function(*args, **kwargs)
        finally:
            spent[stage] += time.thread_time() - began_at

    return timed


def _figures(part: str, rounds: Sequence[Values]) -> list[Figure]:
    return [figure(name, [one[name] for one in rounds], "ms") for name in rounds[0]]


def with_table(page: str, medians: Mapping[str, Values]) -> str:
    """The page with its table of stages as it was measured now."""
    lines = [f"{_CORNER} {' | '.join(_COLUMNS)} |", "| --- |" + " ---: |" * len(_COLUMNS)]
    for stage in STAGES:
        cells = [medians[part][f"{name}: {stage}"] for part, name in _COLUMNS.values()]
        told = [f"{ms:,.1f}" if ms < 100 else f"{ms:,.0f}" for ms in cells]
        lines.append(f"| {stage} | {' | '.join(told)} |")
    table = re.compile(rf"^{re.escape(_CORNER)}.*?\n(?=\n)", re.MULTILINE | re.DOTALL)
    written, found = table.subn("\n".join(lines) + "\n", page)
    if found != 1:
        raise RuntimeError(f"the page has {found} tables of stages")
    return written


def drawing(medians: Mapping[str, Values]) -> Drawing:
    """Four panels: processor time by M, tokens, clients, and of a step by rows."""
    with mpl.rc_context(STYLE):
        picture = Drawing(figsize=(9.5, 7.2), layout="constrained")
        *panels, last = picture.subplots(2, 2).flat
        for axes, (part, title) in zip(panels, _TITLES.items(), strict=True):
            _stacked(axes, medians[part])
            axes.set_title(title)
        rows = {int(name): ms for name, ms in medians["rows"].items()}
        last.plot(list(rows), list(rows.values()), "o-", color=_COLOURS[0])
        last.set_title("the pass of one decoding step, by rows")
        last.set_xticks([16, 32, 64, 128])
        handles, labels = panels[0].get_legend_handles_labels()
        picture.legend(handles, labels, loc="outside lower center", ncols=4)
        for axes in picture.axes:
            axes.set_ylabel("ms of one processor")
            axes.set_ylim(bottom=0)
            axes.grid(axis="y")
        return picture


def _stacked(axes: Axes, medians: Values) -> None:
    """Stages on top of each other, at equal distances; decoding in one colour where it is one."""
    bottoms: Counter[str] = Counter()
    for stage in dict.fromkeys(name.partition(": ")[2] for name in medians):
        heights = {}
        for name, ms in medians.items():
            point, _, of = name.partition(": ")
            if of == stage and point != "reasoned":
                heights[point] = ms
        lows = [bottoms[point] for point in heights]
        colour = _COLOURS[STAGES.index("decode of the samples" if stage == "decode" else stage)]
        axes.bar(list(heights), list(heights.values()), 0.7, lows, label=stage, color=colour)
        bottoms.update(heights)
    axes.yaxis.set_major_formatter("{x:,.0f}")


if __name__ == "__main__":
    typer.run(main)
