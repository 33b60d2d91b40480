"""What answers behind other samples' reasonings cost: one engine, with and without, in turn.

A language model with random weights reasons for 200 tokens, before its answer and before each of
ten samples. What it says then is short, and much of it alike; with `--distinct` it has some twenty
tokens, and no two are alike (those that are cut at the limit are no answers).
The figure is the ratio of a request's processor seconds, which others on the machine change less
than its time.
"""

import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import typer
from report import Figure, Round, Values, figure, in_turn, ratio, reporting
from transformers import AutoModelForCausalLM, LlamaConfig

from models.engines.protocol import EngineConfig
from models.engines.transformers import TransformersEngine
from models.records import GenerationRequest, SamplingParams
from models.statistics import REASONING_SOURCES
from workers.generation import GenerationWorker

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.tiny_models import byte_tokenizer

_PROMPT = "A question of some length, which the model is to think about for a while. <think>"
# What ends an answer: half a character, of which random bytes are full, or some letter.
_SHORT, _DISTINCT = ("\ufffd",), tuple("etaoinsr")
_WITHOUT = frozenset({"answer_token_logprobs", "sample_texts"})
_KINDS = {"without": _WITHOUT, "with": _WITHOUT | REASONING_SOURCES}


def main(
    hidden: Annotated[int, typer.Option(help="Width of the model.")] = 256,
    layers: Annotated[int, typer.Option(help="Its layers.")] = 4,
    blocks: Annotated[int, typer.Option(min=2, help="Requests of each kind.")] = 12,
    distinct: Annotated[bool, typer.Option(help="Long answers that all differ.")] = False,
    threads: Annotated[int, typer.Option(min=1)] = 1,
    minutes: Annotated[float, typer.Option(help="It ends after these.")] = 10.0,
) -> None:
    """Print the median processor seconds of both kinds and their ratio with its interval."""
    settings = {"hidden": hidden, "layers": layers, "distinct": distinct, "threads": threads}
    with reporting("marginal_cost", minutes, **settings) as report:
        torch.set_num_threads(threads)
        start = partial(_blocks, hidden, layers, _DISTINCT if distinct else _SHORT)
        report.measure("marginal_cost", blocks, start, _figures)


def _engine(hidden: int, layers: int) -> TransformersEngine:
    config = LlamaConfig(
        vocab_size=259,
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        num_key_value_heads=hidden // 64,
        max_position_embeddings=1024,
        bos_token_id=0,
        eos_token_id=1,
    )
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    tagged = EngineConfig(reasoning="<think>,</think>")
    return TransformersEngine(model, byte_tokenizer(), tagged, model_id="random", revision="1")


@contextmanager
def _blocks(hidden: int, layers: int, stop: tuple[str, ...]) -> Iterator[Round]:
    worker = GenerationWorker(_engine(hidden, layers))
    sampling = SamplingParams(10, 240, top_k=0, stop=stop, max_reasoning_tokens=192)
    with asyncio.Runner() as runner:
        running = runner.get_loop().create_task(worker.run())

        def answered(number: int, statistics: frozenset[str]) -> tuple[float, float]:
            request = GenerationRequest(_PROMPT, sampling=replace(sampling, seed=number))
            began = time.process_time()
            generation = runner.run(worker.generate(replace(request, statistics=statistics)))
            elapsed = time.process_time() - began
            reasoned = generation.reasoned
            return elapsed, 0.0 if reasoned is None else float(len(reasoned.texts))

        def measure(number: int) -> Values:
            sides = {kind: partial(answered, number, names) for kind, names in _KINDS.items()}
            found = in_turn(sides, number, rest_s=0)
            return {kind: s for kind, (s, _) in found.items()} | {"answers": found["with"][1]}

        measure(0)  # warms up
        yield measure
        runner.run(worker.close())
        runner.run(asyncio.wait_for(running, None))


def _figures(rounds: Sequence[Values]) -> list[Figure]:
    figures = [ratio(rounds, "with", "without")]
    for name, unit in (("without", "s"), ("with", "s"), ("answers", "")):
        figures.append(figure(name, [one[name] for one in rounds], unit))
    return figures


if __name__ == "__main__":
    typer.run(main)
