"""A language model of 160 million parameters with random weights: the engine beside `generate`.

    python benchmarks/larger.py

The embedded models are so small that a step costs the same whatever rows it has. Here arithmetic
and memory decide: prompts of 64 and 512 tokens, 32 new ones, M = 10, fp32. Nothing ends a sequence.
"""

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Annotated

import torch
import typer
from alone import engine_alone, greedy_generate, in_own_process
from report import Figure, figure_records, figures_table, machine, publish
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from models.embedded import LANGUAGE_MODELS

M = 10
NEW_TOKENS = 32
PROMPT_TOKENS = (64, 512)
_REST_S = 1.0
_RESULTS = Path(__file__).parent / "results" / "larger.json"


def main(
    cores: Annotated[int, typer.Option(min=1, help="Cores for everything.")] = 2,
    rounds: Annotated[int, typer.Option(min=1, help="Times that each side is measured.")] = 3,
    json_path: Annotated[Path, typer.Option("--json", help="Where the report goes.")] = _RESULTS,
) -> None:
    """Measure, print a table, write JSON; the exit code is 0 whatever the figures."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    figures = measure_larger(cores, rounds)
    report = {"machine": machine(cores), "figures": figure_records(figures)}
    title = f"{cores} cores of {machine(cores)['cpu']}"
    publish([figures_table(title, figures)], report, json_path)


def measure_larger(cores: int, rounds: int) -> list[Figure]:
    """The sides in turn, each in a process of its own, after one request that warms up."""
    with tempfile.TemporaryDirectory() as folder:
        save_model(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        prompts = {count: prompt_of(tokenizer, count) for count in PROMPT_TOKENS}
        seconds: dict[tuple[str, int], list[float]] = {}
        with (
            in_own_process(greedy_generate, folder, NEW_TOKENS, cores) as greedy,
            in_own_process(greedy_generate, folder, NEW_TOKENS, cores, M) as both,
            in_own_process(engine_alone, folder, NEW_TOKENS, cores, M) as engine,
        ):
            sides = {"greedy": greedy, "greedy and samples": both, "engine": engine}
            for number in range(rounds + 1):
                for count, prompt in prompts.items():
                    for name, side in sides.items():
                        time.sleep(_REST_S)
                        [elapsed_ms] = side([prompt])
                        if number:  # the first round warms up
                            seconds.setdefault((name, count), []).append(elapsed_ms / 1000)
    medians = {key: statistics.median(values) for key, values in seconds.items()}
    figures = []
    for count in PROMPT_TOKENS:
        of = f"160 M, {count} tokens"
        ours, limit = medians["engine", count], 2.3 if count == max(PROMPT_TOKENS) else None
        figures += [
            Figure(f"{of}: M = 10 / greedy", ours / medians["greedy", count], "x", limit),
            Figure(
                f"{of}: M = 10 / greedy and samples by generate",
                ours / medians["greedy and samples", count],
                "x",
            ),
            Figure(f"{of}: M = 10", ours, "s"),
            Figure(f"{of}: greedy generate", medians["greedy", count], "s"),
        ]
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
