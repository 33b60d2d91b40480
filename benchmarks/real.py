"""A language model of yours over HTTP, by default settings, beside Hugging Face's `generate`.

    python benchmarks/real.py --model FOLDER

The service and greedy `generate`, both in the precision of the checkpoint, have a process each and
take turns. Each round starts both anew, since `generate` differs by a fifth from start to start.
Nothing ends a text before its limit: what a checkpoint says of its end is left out. Light is
measured with a probe of the model.
"""

import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated

import typer
from alone import greedy_generate, in_own_process
from larger import link_without_ends
from report import Figure, Values, bounded, figure, in_turn, reporting
from service import connect, running_cocoa, testbed_prompts
from side_by_side import MODES, block_ms
from transformers import AutoConfig

GREEDY = "greedy generate"


def main(
    model: Annotated[
        Path | None, typer.Option(help="Folder of a checkpoint; qwen in COCOA_TEST_REAL_MODELS.")
    ] = None,
    probe: Annotated[
        Path | None, typer.Option(help="Folder of its probe, by which light mode is measured.")
    ] = None,
    new_tokens: Annotated[int, typer.Option(min=2, help="Of each text.")] = 16,
    rounds: Annotated[int, typer.Option(min=1, help="Starts and blocks of each side.")] = 4,
    size: Annotated[int, typer.Option(min=1, help="Prompts in a block.")] = 4,
    cores: Annotated[int, typer.Option(min=1, help="Cores for everything.")] = 2,
) -> None:
    """Measure, print and store; the exit code is 1 where a ratio misses its bound."""
    if model is None and (folder := os.environ.get("COCOA_TEST_REAL_MODELS")):
        model = Path(folder) / "qwen"
    if model is None or not (model / "config.json").exists():
        raise typer.BadParameter("names no checkpoint: --model, or COCOA_TEST_REAL_MODELS")
    asked = {"model": model.name, "probe": probe is not None}
    asked |= {"new_tokens": new_tokens, "size": size}
    with reporting("real", cores=cores, **asked) as report:
        measured = partial(_block, model, probe, new_tokens, size, cores)
        report.measure("real", rounds, partial(nullcontext, measured), _figures)
    raise typer.Exit(report.exit_code)


def _block(
    model: Path, probe: Path | None, new_tokens: int, size: int, cores: int, number: int
) -> Values:
    prompts = testbed_prompts(size)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        unending = Path(folder) / model.name  # by which a probe knows it
        unending.mkdir()
        link_without_ends(model, unending)
        dtype = str(AutoConfig.from_pretrained(unending).dtype).removeprefix("torch.")
        settings = {"GENERATION__MODEL": unending, "PROBES__INCONSISTENCY": probe or ""}
        client = stack.enter_context(
            connect(stack.enter_context(running_cocoa("serve", **settings)))
        )
        of = str(unending), new_tokens, cores, 0, dtype
        greedy = stack.enter_context(in_own_process(greedy_generate, *of))
        sides = {GREEDY: lambda: median(greedy(prompts))}
        for mode, fields in MODES.items():
            if mode != "light" or probe is not None:
                asked = {"max_new_tokens": new_tokens, **fields}
                sides[mode] = partial(block_ms, client, prompts, **asked)
        for side in sides.values():
            side()
        return in_turn(sides, number)


def _figures(rounds: Sequence[Values]) -> list[Figure]:
    figures = []
    for name in rounds[0]:
        figures.append(figure(name, [values[name] for values in rounds], "ms"))
        if name != GREEDY:
            figures.append(bounded("real", rounds, name, GREEDY))
    return figures


if __name__ == "__main__":
    typer.run(main)
