"""A language model of 160 million parameters with random weights: the engine beside `generate`.

    python benchmarks/larger.py

The embedded models are so small that a step costs the same whatever rows it has. Here arithmetic
and memory decide: prompts of 64 and 512 tokens, 32 new ones, M = 10, fp32. Nothing ends a sequence.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Annotated

import torch
import typer
from alone import engine_alone, greedy_generate, in_own_process
from report import Figure, Report, Round, Values, figure, in_turn, ratio, reporting
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from models.embedded import LANGUAGE_MODELS

M = 10
NEW_TOKENS = 32
PROMPT_TOKENS = (64, 512)
GREEDY, BOTH, ENGINE = "greedy generate", "greedy and samples by generate", "M = 10"


def main(
    cores: Annotated[int, typer.Option(min=1, help="Cores for everything.")] = 2,
    rounds: Annotated[int, typer.Option(min=1, help="Times that each side is measured.")] = 3,
) -> None:
    """Measure, print and store; the exit code is 0 whatever the figures."""
    with reporting("larger", cores=cores) as report:
        measure_larger(report, cores, rounds)


def measure_larger(report: Report, cores: int, num_rounds: int) -> None:
    """The sides in turn, each in a process of its own, after one request that warms up."""
    report.measure("160 M", num_rounds, partial(_sides, cores), _figures)


@contextmanager
def _sides(cores: int) -> Iterator[Round]:
    with tempfile.TemporaryDirectory() as folder:
        save_model(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        prompts = [prompt_of(tokenizer, count) for count in PROMPT_TOKENS]
        with (
            in_own_process(greedy_generate, folder, NEW_TOKENS, cores) as greedy,
            in_own_process(greedy_generate, folder, NEW_TOKENS, cores, M) as both,
            in_own_process(engine_alone, folder, NEW_TOKENS, cores, M) as engine,
        ):
            sides = {GREEDY: greedy, BOTH: both, ENGINE: engine}
            for side in sides.values():
                side(prompts[:1])

            def measure(number: int) -> Values:
                found = in_turn({name: partial(sides[name], prompts) for name in sides}, number)
                seconds: Values = {}
                for name, elapsed_ms in found.items():
                    for count, ms in zip(PROMPT_TOKENS, elapsed_ms, strict=True):
                        seconds[f"{count}: {name}"] = ms / 1000
                return seconds

            yield measure


def _figures(rounds: Sequence[Values]) -> list[Figure]:
    figures = []
    for count in PROMPT_TOKENS:
        of, limit = f"160 M, {count} tokens", 2.3 if count == max(PROMPT_TOKENS) else None
        ours = f"{count}: {ENGINE}"
        for other, bound in ((GREEDY, limit), (BOTH, None)):
            name = f"{of}: {ENGINE} / {other}"
            figures.append(ratio(rounds, ours, f"{count}: {other}", bound, name=name))
        for side in (ENGINE, GREEDY):
            seconds = [values[f"{count}: {side}"] for values in rounds]
            figures.append(figure(f"{of}: {side}", seconds, "s"))
    return figures


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
