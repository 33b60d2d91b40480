"""A language model of yours over HTTP, by default settings, beside Hugging Face's `generate`.

    python benchmarks/real.py --model FOLDER

The service and greedy `generate`, both in the precision of the checkpoint, have a process each and
take turns. Nothing ends a text before its limit: what a checkpoint says of its end is left out.
Light is measured where the service has a probe for the model.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated

import typer
from alone import greedy_generate, in_own_process
from larger import link_without_ends
from report import Figure, Round, Values, bounded, figure, in_turn, reporting
from service import connect, running_cocoa, testbed_prompts
from side_by_side import MODES, block_ms
from transformers import AutoConfig

GREEDY = "greedy generate"


def main(
    model: Annotated[
        Path | None, typer.Option(help="Folder of a checkpoint; qwen in COCOA_TEST_REAL_MODELS.")
    ] = None,
    new_tokens: Annotated[int, typer.Option(min=2, help="Of each text.")] = 16,
    rounds: Annotated[int, typer.Option(min=1, help="Blocks of each side.")] = 4,
    size: Annotated[int, typer.Option(min=1, help="Prompts in a block.")] = 4,
    cores: Annotated[int, typer.Option(min=1, help="Cores for everything.")] = 2,
) -> None:
    """Measure, print and store; the exit code is 1 where a ratio misses its bound."""
    if model is None and (folder := os.environ.get("COCOA_TEST_REAL_MODELS")):
        model = Path(folder) / "qwen"
    if model is None or not (model / "config.json").exists():
        raise typer.BadParameter("names no checkpoint: --model, or COCOA_TEST_REAL_MODELS")
    asked = {"model": model.name, "new_tokens": new_tokens, "size": size}
    with reporting("real", cores=cores, **asked) as report:
        start = partial(_sides, model, new_tokens, size, cores)
        report.measure("real", rounds, start, _figures)
    raise typer.Exit(report.exit_code)


@contextmanager
def _sides(model: Path, new_tokens: int, size: int, cores: int) -> Iterator[Round]:
    prompts = testbed_prompts(size)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        link_without_ends(model, Path(folder))
        dtype = str(AutoConfig.from_pretrained(folder).dtype).removeprefix("torch.")
        url = stack.enter_context(running_cocoa("serve", GENERATION__MODEL=folder))
        client = stack.enter_context(connect(url))
        of = folder, new_tokens, cores, 0, dtype
        greedy = stack.enter_context(in_own_process(greedy_generate, *of))
        sides = {GREEDY: lambda: median(greedy(prompts))}
        probes = client.get("/version").json()["probes"]
        for mode, fields in MODES.items():
            if mode != "light" or "predicted_dissimilarity" in probes:
                asked = {"max_new_tokens": new_tokens, **fields}
                sides[mode] = partial(block_ms, client, prompts, **asked)
        for side in sides.values():
            side()
        yield partial(in_turn, sides)


def _figures(rounds: Sequence[Values]) -> list[Figure]:
    figures = []
    for name in rounds[0]:
        figures.append(figure(name, [values[name] for values in rounds], "ms"))
        if name != GREEDY:
            figures.append(bounded("real", rounds, name, GREEDY))
    return figures


if __name__ == "__main__":
    typer.run(main)
