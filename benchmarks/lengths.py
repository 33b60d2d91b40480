"""How estimators rank answers of several parts: short ones, long ones, and lengths mixed.

Short answers of the testbed are joined, K = 1 to 16 of them: log-probs one after another, the i-th
samples likewise, similarity the mean over the parts. Quality is the share of parts that are right,
or whether all are. Intervals are over draws of the testbed's prompts.

docs/results-in-detail.md says what was found, and by which commands.
"""

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app.scoring.result import Result
from app.settings import Settings
from cocoa_lab.datasets import load
from cocoa_lab.examples import Example
from cocoa_lab.loading import lab_scorer
from cocoa_lab.metrics import prr
from cocoa_lab.quality import QUALITY, quality_names, score_by_task
from cocoa_lab.recordings import RecordingHeader
from cocoa_lab.report import number
from cocoa_lab.running import each, sampling_of
from cocoa_lab.scoring import ask_of
from models.records import Array

Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]

NUM_SAMPLES = 10
CAP = 16
# What the service scores, by which the sums here are checked; it reads all that they need.
_CHECKED = ("consistency", "rb_consistency")
NUM_JOINED = 1000
NUM_DRAWS = 200
MOST_PARTS = 16
SETS: Mapping[str, tuple[int, int]] = {
    "one": (1, 1),
    "16": (MOST_PARTS, MOST_PARTS),
    "1 to 16": (1, MOST_PARTS),
}


@dataclass(frozen=True, slots=True)
class Pool:
    """N short answers, each with M samples.

    Attributes:
        logprobs, tokens: (N,) sum, and number, of the answer's tokens.
        sample_logprobs: (N, M) sums of the samples' tokens.
        similarity: (N, M) of answer and samples.
        names: (N, 1 + M) a random number for each distinct text of a prompt, the answer's first.
        right: (N,) 1 or 0.
    """

    logprobs: Array
    tokens: Array
    sample_logprobs: Array
    similarity: Array
    names: Indices
    right: Array


def bases(pool: Pool, joined: Indices, mask: Mask) -> dict[str, Array]:
    """Lack of confidence (n,) by name; joined: (n, K) prompts, of which `mask` are there."""
    sp = -(pool.logprobs[joined] * mask).sum(1)
    tokens = (pool.tokens[joined] * mask).sum(1)
    found = {"sp": sp, "ppl": sp / tokens, "sp / √T": sp / np.sqrt(tokens)}
    found["sp min(1, 16/T)"] = sp * np.minimum(1.0, CAP / tokens)
    return found


def disagreements(pool: Pool, joined: Indices, mask: Mask) -> dict[str, Array]:
    """`consistency` and `rb_consistency` (n,) of joined answers."""
    num_parts = mask.sum(1)[:, None]
    similarity = (pool.similarity[joined] * mask[:, :, None]).sum(1) / num_parts
    c = 1.0 - similarity.mean(1)
    names = (pool.names[joined] * mask[:, :, None]).sum(1)  # equal sums: equal texts
    probability = np.exp((pool.sample_logprobs[joined] * mask[:, :, None]).sum(1))
    is_new = names[:, 1:] != names[:, :1]
    for i in range(1, probability.shape[1]):
        is_new[:, i] &= (names[:, 1 : i + 1] != names[:, i + 1 : i + 2]).all(1)
    probability = probability * is_new
    mass = np.exp((pool.logprobs[joined] * mask).sum(1)) + probability.sum(1)
    found = (probability * (1.0 - similarity)).sum(1)
    rb = np.where(mass > 1.0, found / mass, found + (1.0 - mass) * c)
    return {"consistency": c, "rb_consistency": rb}


def scores(pool: Pool, joined: Indices, mask: Mask) -> dict[str, Array]:
    """Uncertainties (n,) of joined answers by name."""
    found = disagreements(pool, joined, mask)
    c, rb = found["consistency"], found["rb_consistency"]
    every = {"consistency": c}
    for name, u in bases(pool, joined, mask).items():
        every |= {name: u, f"{name} · c": u * c, f"{name} · rb": u * rb}
    return every


def join(pool: Pool, parts: tuple[int, int], rng: np.random.Generator) -> tuple[Indices, Mask]:
    """Prompts (n, 16) of joined answers, and which of these are there (n, 16)."""
    joined = rng.integers(len(pool.right), size=(NUM_JOINED, MOST_PARTS))
    counts = rng.integers(parts[0], parts[1] + 1, size=NUM_JOINED)
    return joined, np.arange(MOST_PARTS) < counts[:, None]


def table(pool: Pool) -> list[str]:
    """Lines of a Markdown table: PRR with its interval, by set of lengths and quality."""
    columns: dict[str, dict[str, list[float]]] = {}
    for draw in range(1 + NUM_DRAWS):
        rng = np.random.default_rng(draw)
        chosen = np.arange(len(pool.right))
        if draw:  # the first is the whole pool, as it is
            chosen = rng.choice(chosen, size=len(chosen))
        drawn = Pool(*(getattr(pool, name)[chosen] for name in Pool.__dataclass_fields__))
        for name, parts in SETS.items():
            joined, mask = join(drawn, parts, rng)
            share = (drawn.right[joined] * mask).sum(1) / mask.sum(1)
            qualities = {f"{name}, share right": share}
            if parts != (MOST_PARTS, MOST_PARTS) and parts[1] > 1:
                qualities[f"{name}, all right"] = (share == 1.0).astype(float)
            for estimator, u in scores(drawn, joined, mask).items():
                for column, quality in qualities.items():
                    value = prr(u, quality)
                    values = columns.setdefault(column, {}).setdefault(estimator, [])
                    values.append(np.nan if value is None else value)
    lines = [f"| | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
    for estimator in next(iter(columns.values())):
        cells = [_cell(values[estimator]) for values in columns.values()]
        lines.append(f"| {estimator} | {' | '.join(cells)} |")
    return lines


def _cell(values: list[float]) -> str:
    whole, *drawn = values
    low, high = np.nanpercentile(drawn, (2.5, 97.5))
    return f"{number(whole)} [{number(low)}, {number(high)}]"


async def answered(dataset: str, limit: int | None) -> Pool:
    """The short answers of a dataset, and what is known of them."""
    examples = load(dataset, limit=limit)
    async with lab_scorer(Settings()) as scorer:
        info = scorer.workers.generator.info
        header = RecordingHeader(
            dataset, info.model_id, info.revision, 0, sampling_of(NUM_SAMPLES), (), False
        )

        async def one(example: Example) -> Result:
            return await scorer.run(replace(ask_of(example, header), estimators=_CHECKED))

        results = await each(examples, one)
    texts = [result.evidence.subject.answer.text for result in results]
    measures = {task: QUALITY[name] for task, name in quality_names(examples, None).items()}
    right = await score_by_task(texts, examples, measures, None)
    _check(results)
    return _pool(results, right)


def _pool(results: list[Result], right: Array) -> Pool:
    rows: dict[str, list[object]] = {name: [] for name in Pool.__dataclass_fields__}
    rng = np.random.default_rng(0)
    for result in results:
        known, subject = result.evidence.statistics, result.evidence.subject
        rows["logprobs"].append(known["answer_token_logprobs"].sum())
        rows["tokens"].append(float(subject.answer.num_tokens))
        rows["sample_logprobs"].append([one.sum() for one in known["sample_token_logprobs"]])
        rows["similarity"].append(known["similarity"])
        texts = [subject.answer.compared_text, *subject.texts]
        by_text = dict(zip(texts, rng.integers(1 << 40, size=len(texts)).tolist(), strict=True))
        rows["names"].append([by_text[text] for text in texts])
    arrays = {name: np.array(values) for name, values in rows.items() if name != "right"}
    return Pool(right=np.asarray(right, dtype=float), **arrays)


def _check(results: list[Result]) -> None:
    """That sums over parts give, for one part, what the service scores."""
    pool = _pool(results, np.zeros(len(results)))
    single = np.arange(len(results))[:, None]
    found = disagreements(pool, single, np.ones_like(single, dtype=bool))
    for name in _CHECKED:
        served = [result.scores[name] for result in results]
        np.testing.assert_allclose(found[name], np.array(served, dtype=float), atol=1e-9)


if __name__ == "__main__":
    most = int(sys.argv[2]) if len(sys.argv) > 2 else None
    print("\n".join(table(asyncio.run(answered(sys.argv[1], most)))))
