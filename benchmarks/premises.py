"""What an NLI model should be asked about a sentence: PRR by premise, hypothesis and signal.

Reads a run of `cocoa evaluate --units sentences` and asks the deployment's NLI model anew. The
premise is a whole sample, or each of its sentences, of which the one that says most counts; the
hypothesis is the sentence, or the question and the sentence. Fewer samples are the first of them.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from app.scoring.units import unknown_pairs
from app.settings import Settings
from cocoa_lab.examples import objects_of
from cocoa_lab.loading import lab_scorer
from cocoa_lab.metrics import Interval, auroc, prr
from cocoa_lab.parts.measures import Answers, clustered
from cocoa_lab.recordings import read
from cocoa_lab.report import number
from models.records import Array, Pair
from models.similarity.pairs import PairTable
from models.units.chunks import chunk_spans
from models.units.sentences import sentence_spans
from workers.protocol import NliComparer

_DRAWS = (10, 5, 3, 2)  # of samples, of which those count that are read
_LEAST = 1e-9
_CHUNK = 2000  # pairs asked at once


@dataclass(frozen=True, slots=True)
class Run:
    """U labelled sentences of a run, and the texts of M samples of each one's answer.

    Attributes:
        sentences, questions: (U,) each.
        samples: (U, M).
        right: (U,) 1 or 0.
        own: (U,) `sp` and `ppl`, by name.
        answers: (U,) number of the answer that has it.
    """

    sentences: list[str]
    questions: list[str]
    samples: list[list[str]]
    right: Array
    own: Mapping[str, Array]
    answers: Answers


def main(
    results: Annotated[Path, typer.Argument(help="Of `cocoa evaluate --units sentences`.")],
    limit: Annotated[int, typer.Option(help="Answers, the first ones of the run.")] = 300,
    num_samples: Annotated[int, typer.Option(help="Of each, the first ones.")] = 10,
    num_resamples: int = 1000,
) -> None:
    """Print tables of signals by premise and hypothesis, and how far each lies above two."""
    run = _read(results, limit, num_samples)
    says = asyncio.run(_asked(run))
    typer.echo(f"{len(run.right)} sentences, {run.right.mean():.3f} right")
    interval = partial(
        clustered, correct=run.right, answers=run.answers, num_resamples=num_resamples
    )
    for draw in [one for one in _DRAWS if one <= num_samples]:
        tables = {name: signals(run.own, one[:, :, :draw]) for name, one in says.items()}
        typer.echo(f"\nM = {draw}\n\n| | {' | '.join(tables)} |\n|---|" + "---|" * len(tables))
        for signal in next(iter(tables.values())):
            cells = []
            for table in tables.values():
                u = table[signal]
                area = auroc(u, run.right) or 0.0
                cells.append(f"{_cell(interval(prr, u))}, {number(area)}")
            typer.echo(f"| {signal} | {' | '.join(cells)} |")
    plain = signals(run.own, says["whole"])
    typer.echo("\nPRR above that of `sp`, and of the same signal from whole samples, paired")
    for name, one in says.items():
        for signal, u in signals(run.own, one).items():
            leads = []
            for base in ("sp", signal):
                both = np.stack([u, plain[base]], axis=1)
                leads.append(_cell(interval(_lead, both)))
            typer.echo(f"| {name} | {signal} | {' | '.join(leads)} |")


def signals(own: Mapping[str, Array], says: Array) -> dict[str, Array]:
    """Uncertainties (U,) by name, of what M samples say (2, U, M): that it is so, that it is not.

    Each is a mean over the samples first.
    """
    says_so, says_not = says.mean(axis=2)
    denied = says_not / (says_so + says_not + _LEAST)
    found = {"1 - e": 1 - says_so, "c": says_not, "c / (e + c)": denied, **own}
    for name, u in own.items():
        found[f"{name} (1 - e)"] = u * (1 - says_so)
        found[f"{name} c / (e + c)"] = u * denied
        found[f"{name} + (1 - e)"] = u + 1 - says_so
    return found


def _lead(scores: Array, correct: Array) -> float | None:
    first, second = prr(scores[:, 0], correct), prr(scores[:, 1], correct)
    return None if first is None or second is None else first - second


def _cell(interval: Interval | None) -> str:
    if interval is None:
        return "-"
    return f"{number(interval.value)} [{number(interval.low)}, {number(interval.high)}]"


def _read(results: Path, limit: int, num_samples: int) -> Run:
    header, recordings = read(results / "generations.jsonl")
    if header is None:
        raise typer.BadParameter(f"{results} has no generations")
    questions = {}
    for _, line in objects_of(Path(header.dataset)):
        questions[line["id"]] = line["messages"][-1]["content"]
    ids = set(list(recordings)[:limit])
    units = [json.loads(line) for line in (results / "units.jsonl").open(encoding="utf-8")]
    units = [unit for unit in units if unit["id"] in ids]
    samples = []
    for unit in units:
        generation = recordings[unit["id"]].generation
        if generation is None:
            raise typer.BadParameter(f"{unit['id']} has no generation")
        samples.append([one.text for one in generation.samples[:num_samples]])
    return Run(
        sentences=[unit["text"] for unit in units],
        questions=[questions[unit["id"]] for unit in units],
        samples=samples,
        right=np.array([unit["correct"] for unit in units]),
        own={name: np.array([unit["scores"][name] for unit in units]) for name in ("sp", "ppl")},
        answers=np.unique([unit["id"] for unit in units], return_inverse=True)[1],
    )


async def _asked(run: Run) -> dict[str, Array]:
    """Entailment and contradiction (2, U, M) by premise and hypothesis."""
    settings = Settings()
    async with lab_scorer(settings) as scorer:
        nli = scorer.workers.nli
        if nli is None:
            raise typer.BadParameter("there is no NLI model")
        texts = list(dict.fromkeys(text for row in run.samples for text in row))
        premises = {"whole": await _wholes(texts, nli)}
        premises["matched"] = {
            text: [text[start:end] for start, end in sentence_spans(text)] for text in texts
        }
        asked = [
            f"{question} {sentence}"
            for question, sentence in zip(run.questions, run.sentences, strict=True)
        ]
        found = {}
        for name, by_text in premises.items():
            found[name] = await _strongest(run.sentences, run.samples, by_text, nli)
            found[f"{name}, question"] = await _strongest(asked, run.samples, by_text, nli)
        return found


async def _wholes(texts: Sequence[str], nli: NliComparer) -> dict[str, list[str]]:
    """The chunks of each text, as a request reads them."""
    chunks = {}
    for text, ends in zip(texts, await nli.token_ends(texts), strict=True):
        spans = chunk_spans(sentence_spans(text), ends)
        chunks[text] = [text[start:end].strip() for start, end in spans]
    return chunks


async def _strongest(
    hypotheses: Sequence[str],
    samples: Sequence[Sequence[str]],
    premises: Mapping[str, Sequence[str]],
    nli: NliComparer,
) -> Array:
    """The greatest over the premises of each sample, of either label: (2, U, M)."""
    pairs: list[Pair] = []
    for hypothesis, row in zip(hypotheses, samples, strict=True):
        pairs += [(premise, hypothesis) for text in row for premise in premises[text]]
    rules = nli.info.rules
    unknown = unknown_pairs(pairs, rules)
    scores: dict[Pair, tuple[float, ...]] = {}
    for start in range(0, len(unknown), _CHUNK):
        reply = await nli.compare(unknown[start : start + _CHUNK])
        scores |= {pair: values for pair, (values, _) in reply.scores.items()}
    table = PairTable(nli.info.labels, scores, rules)
    found = np.zeros((2, len(hypotheses), len(samples[0])))
    for i, label in enumerate(("entailment", "contradiction")):
        for u, (hypothesis, row) in enumerate(zip(hypotheses, samples, strict=True)):
            for m, text in enumerate(row):
                values = [table.value(premise, hypothesis, label) for premise in premises[text]]
                found[i, u, m] = max(values, default=0.0)
    return found


if __name__ == "__main__":
    typer.run(main)
