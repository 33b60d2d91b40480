"""What the probability of an answer over all reasonings is worth: PRR on sums, in this process.

The model that reasons in the tests is asked sums that its training left out. Each request has ten
samples; fewer are the first of them. Similarity is equality of the sums.
"""

import asyncio
import random
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from app.scoring.derive import reasoned_statistics
from app.scoring.questions import Subject
from cocoa_lab.embedded.reasoner import pairs, question
from cocoa_lab.metrics import prr
from models.engines.protocol import EngineConfig
from models.engines.transformers import TransformersEngine
from models.estimators import score
from models.records import Generation, GenerationRequest, SamplingParams
from models.statistics import REASONING_SOURCES
from workers.generation import GenerationWorker

_MODEL = str(Path(__file__).parents[1] / "tests/data/reasoning_model")
_NAMES = ("sp", "consistency", "cocoa_sp", "marginal_sp", "marginal_rb_consistency")
_NAMES += ("marginal_cocoa_sp",)
_WANTED = frozenset({"answer_token_logprobs", "sample_texts"}) | REASONING_SOURCES
_SEED = 11
_RESAMPLES = 500


def main(
    num_sums: Annotated[int, typer.Argument(help="Of held-out sums.")] = 600,
    bound: Annotated[int | None, typer.Option(help="max_reasoning_tokens.")] = None,
    sample_bound: Annotated[int | None, typer.Option(help="max_sample_reasoning_tokens.")] = None,
) -> None:
    """Print PRR by the number of samples, and how far marginal_sp is above consistency."""
    sampling = SamplingParams(
        10, 150, max_reasoning_tokens=bound, max_sample_reasoning_tokens=sample_bound
    )
    asked, right = asyncio.run(_asked(num_sums, sampling))
    quality = np.array(right, dtype=np.float64)
    typer.echo(f"{len(asked)} sums, {quality.mean():.3f} right")
    for num_samples in (1, 2, 3, 5, 10):
        scores = [_scores(one, num_samples) for one in asked]
        by_name = {name: np.array([one[name] for one in scores]) for name in _NAMES}
        values = ", ".join(f"{name} {prr(by_name[name], quality):.3f}" for name in _NAMES)
        low, middle, high = _above(by_name["marginal_sp"], by_name["consistency"], quality)
        typer.echo(f"M = {num_samples}: {values}; {middle:+.3f} [{low:+.3f}, {high:+.3f}]")


async def _asked(num_sums: int, sampling: SamplingParams) -> tuple[list[Generation], list[bool]]:
    """Generations whose answers have ended, and whether they are right."""
    engine = TransformersEngine.load(EngineConfig(model=_MODEL, dtype="float32"))
    worker = GenerationWorker(engine)
    running = asyncio.create_task(worker.run())
    rng = random.Random(_SEED)
    sums = list(islice(pairs(rng, held_out=True), num_sums))
    found, right = [], []
    for seed, (a, b) in enumerate(sums):
        message = {"role": "user", "content": question(a, b, rng)}
        request = GenerationRequest(
            messages=(message,), sampling=replace(sampling, seed=seed), statistics=_WANTED
        )
        generation = await worker.generate(request)
        answer = generation.answer
        if generation.reasoned and answer.compared_text in generation.reasoned.texts:
            found.append(generation)
            right.append(answer.compared_text == str(a + b))
    await worker.close()
    await running
    return found, right


def _scores(generation: Generation, num_samples: int) -> dict[str, Any]:
    samples = generation.samples[:num_samples]
    subject = Subject(generation.answer, None, samples)
    answer = subject.answer.compared_text
    statistics: dict[str, Any] = {
        "answer_token_logprobs": subject.answer.token_logprobs,
        "similarity": np.array([float(text == answer) for text in subject.texts]),
    }
    scores, _ = score(_NAMES, statistics | reasoned_statistics(subject, generation, statistics))
    return {name: np.inf if value is None else value for name, value in scores.items()}


def _above(one: Any, other: Any, quality: Any) -> tuple[float, float, float]:
    """By how much PRR of one score is above that of another, with its interval."""
    rng = np.random.default_rng(0)
    differences = []
    for _ in range(_RESAMPLES):
        rows = rng.integers(len(quality), size=len(quality))
        first, second = prr(one[rows], quality[rows]), prr(other[rows], quality[rows])
        if first is not None and second is not None:
            differences.append(first - second)
    low, middle, high = np.percentile(differences, [2.5, 50, 97.5])
    return float(low), float(middle), float(high)


if __name__ == "__main__":
    typer.run(main)
