"""What answers behind other samples' reasonings cost: one engine, with and without, in turn.

A language model with random weights reasons for 200 tokens, before its answer and before each of
ten samples. What it says then is short, and much of it alike; with `--distinct` it has some twenty
tokens, and no two are alike (those that are cut at the limit are no answers).
The figure is the ratio of a request's processor seconds, which others on the machine change less
than its time, with a bootstrap interval over the blocks.
"""

import asyncio
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from side_by_side import ratio_of
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


def main(
    hidden: Annotated[int, typer.Option(help="Width of the model.")] = 256,
    layers: Annotated[int, typer.Option(help="Its layers.")] = 4,
    blocks: Annotated[int, typer.Option(min=2, help="Requests of each kind.")] = 12,
    distinct: Annotated[bool, typer.Option(help="Long answers that all differ.")] = False,
    threads: Annotated[int, typer.Option(min=1)] = 1,
) -> None:
    """Print the median processor seconds of both kinds and their ratio with its interval."""
    torch.set_num_threads(threads)
    typer.echo(
        asyncio.run(_compared(_engine(hidden, layers), blocks, _DISTINCT if distinct else _SHORT))
    )


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


async def _compared(engine: TransformersEngine, blocks: int, stop: tuple[str, ...]) -> str:
    worker = GenerationWorker(engine)
    running = asyncio.create_task(worker.run())
    kinds = {"without": _WITHOUT, "with": _WITHOUT | REASONING_SOURCES}
    times: dict[str, list[list[float]]] = {kind: [] for kind in kinds}
    sampling = SamplingParams(10, 240, top_k=0, stop=stop, max_reasoning_tokens=192)
    num_answers = []
    for block in range(-1, blocks):
        for kind in list(kinds)[:: 1 if block % 2 else -1]:
            request = GenerationRequest(_PROMPT, sampling=replace(sampling, seed=block + 1))
            began = time.process_time()
            generation = await worker.generate(replace(request, statistics=kinds[kind]))
            if block < 0:  # warms up
                continue
            times[kind].append([time.process_time() - began])
            if generation.reasoned is not None:
                num_answers.append(len(generation.reasoned.texts))
    await worker.close()
    await running
    without, with_them = np.array(times["without"]), np.array(times["with"])
    low, ratio, high = ratio_of(without, with_them)
    return (
        f"{np.median(without):.3f} s without, {np.median(with_them):.3f} s with "
        f"{np.mean(num_answers):.1f} answers, ratio {ratio:.3f} [{low:.3f}, {high:.3f}]"
    )


if __name__ == "__main__":
    typer.run(main)
