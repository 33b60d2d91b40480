"""vLLM with the plugin beside vLLM without it: what entropies and Light's readings cost.

    make .venv-vllm/plugin.stamp
    python benchmarks/vllm_plugin.py --vllm .venv-vllm/bin/python

A model of 160 million parameters on a CPU, each side in a process of its own with one thread.
Greedy answers are asked as the service asks them, in a mode of the plugin, and beside them samples,
which ask the plugin for nothing; all at once, 64 tokens of prompt and 32 of answer. Compared are
prompts per second of processor time, which other work on the machine disturbs least: with those of
the other process, and with what the same steps had taken without the plugin's functions, which
hardly varies and leaves out that a model shows layers and that vLLM tells more top log-probs.
"""

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from larger import M, save_model
from peers import Ask, peer
from report import Figure, Round, Values, figure, in_turn, ratio, reporting
from transformers import AutoConfig

from tests.tiny_probes import saved

TARGETS = ("consistency", "semantic_entropy")
WITHOUT = "without the plugin"
# What the service asks for: the mode's columns, or one likeliest token.
GREEDY: dict[str, dict[str, Any]] = {
    WITHOUT: {"logprobs": 1},
    "with it, not asked": {"logprobs": 1},
    "entropy": {"logprobs": 2, "extra_args": {"cocoa": "entropy"}},
    "light": {"logprobs": 2 + 2 * len(TARGETS), "extra_args": {"cocoa": "light"}},
}
LEAST = {"entropy": 0.97, "light": 0.95}
# Prompts at once by the samples of each.
AT_ONCE = {M: 1, 0: 4}


def main(
    vllm: Annotated[str, typer.Option(help="Interpreter with vLLM and the plugin.")],
    model: Annotated[str, typer.Option(help="Folder of another model than that of 160 M.")] = "",
    rounds: Annotated[int, typer.Option(min=1, help="Times that each side is measured.")] = 8,
    minutes: Annotated[float, typer.Option(help="It ends after these.")] = 10.0,
) -> None:
    """Measure, print and store; the exit code is 0 whatever the figures."""
    with reporting("vllm_plugin", minutes, model=model) as report:
        report.measure("plugin", rounds, partial(_sides, vllm, model), _figures)


@contextmanager
def _sides(vllm: str, model: str) -> Iterator[Round]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if not model:
            model = str(folder / "model")
            save_model(model)
        plugged = stack.enter_context(_vllm(vllm, model, "cocoa_vllm", _probes(model, folder)))
        bare = stack.enter_context(_vllm(vllm, model, "none", {}))
        of = {name: bare if name == WITHOUT else plugged for name in GREEDY}

        def measure(number: int) -> Values:
            found: Values = {}
            for samples, num in AT_ONCE.items():
                sides = {}
                for name, greedy in GREEDY.items():
                    asked = {"greedy": greedy, "num": num, "samples": samples}
                    sides[name] = partial(of[name], asked)
                for name, took in in_turn(sides, number).items():
                    of_side = f"{name}, M = {samples}"
                    found[of_side] = 1000 * num / took["ms"]
                    found[f"beside {of_side}"] = 1000 * num / (took["ms"] - took["plugin_ms"])
            return found

        measure(0)  # warms up
        yield measure


def _probes(model: str, folder: Path) -> dict[str, Any]:
    """A configuration of the plugin with untrained probes that fit the model."""
    config = AutoConfig.from_pretrained(model)
    of = {"model_id": "", "revision": "", "dimension": config.hidden_size}
    layer = config.num_hidden_layers // 2
    return {"cocoa": {"probes": [saved(folder, name, layer=layer, **of) for name in TARGETS]}}


@contextmanager
def _vllm(python: str, model: str, plugins: str, additional: dict[str, Any]) -> Iterator[Ask]:
    program = str(Path(__file__).parent / "vllm_peer.py")
    one_process = {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_PLUGINS": plugins,
    }
    with peer([python, program, model, json.dumps(additional)], **one_process) as ask:
        yield ask


def _figures(rounds: Sequence[Values]) -> list[Figure]:
    figures = []
    for samples in AT_ONCE:
        without = f"{WITHOUT}, M = {samples}"
        for name in list(GREEDY)[1:]:
            of = f"{name}, M = {samples}"
            least = LEAST.get(name)
            figures.append(ratio(rounds, of, without, least, at_least=True))
            within = f"{of}: less the plugin's own steps"
            figures.append(ratio(rounds, of, f"beside {of}", least, name=within, at_least=True))
        figures.append(figure(without, [values[without] for values in rounds], "prompts/s"))
    return figures


if __name__ == "__main__":
    typer.run(main)
