"""Larger language models: the engine beside Hugging Face's `generate`, M = 10.

    python benchmarks/larger.py
    python benchmarks/larger.py --model FOLDER --prompts 40 --new-tokens 16 --dtype bfloat16

The embedded models are so small that a step costs the same whatever rows it has. Here arithmetic
and memory decide. Without `--model` it is a Llama of 160 million parameters with random weights.
Nothing ends a sequence: what a checkpoint says of its end is left out.
"""

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import typer
from alone import engine_alone, greedy_generate, in_own_process
from report import Figure, Report, Round, Values, figure, in_turn, ratio, reporting
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from models.embedded import LANGUAGE_MODELS

M = 10
PROMPT_TOKENS = (64, 512)
GREEDY, BOTH = "greedy generate", "greedy and samples by generate"
LIGHT, ENGINE = "light", "M = 10"
# Files of a checkpoint that may say what ends a text.
_SAY_ENDS = ("config.json", "generation_config.json", "tokenizer_config.json")


def main(
    model: Annotated[Path | None, typer.Option(help="Folder of a checkpoint.")] = None,
    prompts: Annotated[str, typer.Option(help="Tokens of each prompt, commas between.")] = "64,512",
    new_tokens: Annotated[int, typer.Option(min=2, help="Of each text.")] = 32,
    dtype: Annotated[str, typer.Option(help="Precision of all sides.")] = "float32",
    cores: Annotated[int, typer.Option(min=1, help="Cores for everything.")] = 2,
    rounds: Annotated[int, typer.Option(min=1, help="Times that each side is measured.")] = 3,
) -> None:
    """Measure, print and store; the exit code is 0 whatever the figures."""
    counts = [int(count) for count in prompts.split(",")]
    asked = {"model": str(model), "new_tokens": new_tokens, "dtype": dtype, "prompts": prompts}
    name = "160 M" if model is None else model.name
    with reporting("larger", cores=cores, **asked) as report:
        sides = partial(_sides, model, counts, new_tokens, dtype, cores)
        report.measure(name, rounds, sides, partial(_figures, name, counts, None))


def measure_larger(report: Report, cores: int, num_rounds: int) -> None:
    """The 160 M model's sides in turn, each in a process of its own, after one that warms up."""
    sides = partial(_sides, None, PROMPT_TOKENS, 32, "float32", cores)
    report.measure("160 M", num_rounds, sides, partial(_figures, "160 M", PROMPT_TOKENS, 2.3))


@contextmanager
def _sides(
    model: Path | None, counts: Sequence[int], new_tokens: int, dtype: str, cores: int
) -> Iterator[Round]:
    with tempfile.TemporaryDirectory() as folder:
        if model is None:
            save_model(folder)
        else:
            link_without_ends(model, Path(folder))
        tokenizer = AutoTokenizer.from_pretrained(folder)
        prompts = [prompt_of(tokenizer, count) for count in counts]
        of = folder, new_tokens, cores
        with (
            in_own_process(greedy_generate, *of, 0, dtype) as greedy,
            in_own_process(greedy_generate, *of, M, dtype) as both,
            in_own_process(engine_alone, *of, 0, dtype) as light,
            in_own_process(engine_alone, *of, M, dtype) as engine,
        ):
            sides = {GREEDY: greedy, BOTH: both, LIGHT: light, ENGINE: engine}
            for side in sides.values():
                side(prompts[:1])

            def measure(number: int) -> Values:
                found = in_turn({name: partial(sides[name], prompts) for name in sides}, number)
                seconds: Values = {}
                for name, elapsed_ms in found.items():
                    for count, ms in zip(counts, elapsed_ms, strict=True):
                        seconds[f"{count}: {name}"] = ms / 1000
                return seconds

            yield measure


def _figures(
    name: str, counts: Sequence[int], limit: float | None, rounds: Sequence[Values]
) -> list[Figure]:
    figures = []
    for count in counts:
        of = f"{name}, {count} tokens"
        for ours, other in ((ENGINE, GREEDY), (ENGINE, BOTH), (LIGHT, GREEDY)):
            sides = f"{count}: {ours}", f"{count}: {other}"
            bound = limit if (ours, other) == (ENGINE, GREEDY) else None
            figures.append(ratio(rounds, *sides, bound, name=f"{of}: {ours} / {other}"))
        for side in (ENGINE, LIGHT, GREEDY):
            seconds = [values[f"{count}: {side}"] for values in rounds]
            figures.append(figure(f"{of}: {side}", seconds, "s"))
    return figures


def link_without_ends(model: Path, folder: Path) -> None:
    """A checkpoint in `folder` that is the one at `model` but for what ends its texts."""
    for file in model.iterdir():
        if file.name not in _SAY_ENDS:
            (folder / file.name).symlink_to(file.resolve())
            continue
        said = json.loads(file.read_text())
        for key in ("eos_token", "eos_token_id"):
            if key in said:
                said[key] = None
        (folder / file.name).write_text(json.dumps(said))


def save_model(folder: str) -> None:
    """Write the model and a tokenizer for it; nothing ends its sequences."""
    tokenizer = AutoTokenizer.from_pretrained(LANGUAGE_MODELS["embedded"])
    tokenizer.eos_token = None
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=32_000,
        hidden_size=768,
        intermediate_size=3072,
        num_hidden_layers=12,
        num_attention_heads=12,
        max_position_embeddings=2048,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = LlamaForCausalLM(config)
    model.generation_config.eos_token_id = None
    model.save_pretrained(folder)


def prompt_of(tokenizer: object, num_tokens: int) -> str:
    """A text of that many tokens, the tokenizer's own first one among them."""
    words = "the "
    while len(tokenizer(words)["input_ids"]) < num_tokens:  # type: ignore[operator]
        words += "the "
    return words.rstrip()


if __name__ == "__main__":
    typer.run(main)
