"""What the engine in process says, to which vLLM is held."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass

from transformers import AutoTokenizer

from cocoa_lab.embedded import TASKS, held_out_path
from cocoa_lab.loading import running_workers
from models.embedded import LANGUAGE_MODEL_DIR
from models.engines.tokenization import encode_prompt
from models.records import Generation, GenerationRequest, SamplingParams
from models.statistics import supplied_by
from workers.build import build_workers
from workers.config import GeneratorConfig, WorkerConfig

MAX_NEW_TOKENS = 64
# Readings of the two shipped probes, in the order in which the servers here name them.
STATISTICS = ("predicted_dissimilarity", "predicted_high_semantic_entropy")


@dataclass(frozen=True)
class Case:
    """A prompt, its token ids, and the generation in process."""

    prompt: str
    ids: list[int]
    expected: Generation


def testbed_prompts(count: int) -> list[str]:
    """Testbed prompts of all tasks in turn."""
    texts = []
    for task in TASKS:
        lines = held_out_path(task).read_text(encoding="utf-8").splitlines()
        texts.append([json.loads(line)["prompt"] for line in lines])
    return [texts[i % len(texts)][i // len(texts)] for i in range(count)]


def long_prompts(count: int) -> list[str]:
    """Prompts of some hundred tokens, which end differently."""
    texts = testbed_prompts(3 * count)
    return [" ".join(texts[:20] + texts[20 + 2 * i : 24 + 2 * i]) for i in range(count)]


def cases(prompts: Sequence[str]) -> list[Case]:
    """Generations in process of each prompt, with every statistic of the answer."""
    tokenizer = AutoTokenizer.from_pretrained(LANGUAGE_MODEL_DIR)
    requests = [
        GenerationRequest(
            prompt,
            sampling=SamplingParams(max_new_tokens=MAX_NEW_TOKENS, seed=0),
            statistics=supplied_by("answer", "probe"),
        )
        for prompt in prompts
    ]

    async def generate() -> list[Generation]:
        config = WorkerConfig(generation=GeneratorConfig(threads=2))
        async with running_workers(build_workers(config)) as workers:
            return await asyncio.gather(*map(workers.generator.generate, requests))

    found = []
    for request, generation in zip(requests, asyncio.run(generate()), strict=True):
        found.append(Case(request.prompt, encode_prompt(tokenizer, request), generation))
    return found
