"""The held-out prompts with their accepted answers, and further prompts for training probes."""

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from cocoa_lab.embedded import TASKS, held_out_path
from cocoa_lab.embedded.corpus import all_topics
from cocoa_lab.embedded.topics import Split, Topic, prompts_in, wordings

NUM_PROMPTS = 720
# Kinds with few prompts run out (there are only 138 products), which leaves some 8,600 in all.
NUM_PROBE_PROMPTS = 3300

# Share of a kind in the testbed. These set how hard the testbed is; training has its own shares.
KIND_SHARES = {
    "facts": {
        "city_country": 0.55,
        "city_continent": 0.1,
        "capital": 0.15,
        "currency": 0.12,
        "continent": 0.08,
    },
    "arithmetic": {"sum": 0.38, "difference": 0.38, "product": 0.24},
    "translation": {
        "number": 0.35,
        "number_words": 0.2,
        "country": 0.2,
        "language": 0.15,
        "currency": 0.1,
    },
}
# Topics are drawn in proportion to weight ** FLATNESS: at 1 as in training, at 0 all alike, below 0
# the rare ones more often.
FLATNESS = {"facts": 0.6, "arithmetic": -0.5, "translation": 0.5}


@dataclass(frozen=True, slots=True)
class HeldOut:
    """One line of the testbed; `references` are all accepted texts, the first is `reference`."""

    id: str
    task: str
    kind: str
    prompt: str
    reference: str
    references: list[str]
    fame: float


def is_correct(text: str, references: Iterable[str]) -> bool:
    """A text is right when, stripped, it is one of the accepted wordings."""
    return text.strip() in references


def _shuffled(topics: Sequence[Topic], flatness: float, rng: random.Random) -> list[Topic]:
    """A weighted random order without replacement (Efraimidis and Spirakis 2006)."""
    arrivals = [(rng.expovariate(1.0) / t.weight**flatness, i) for i, t in enumerate(topics)]
    return [topics[i] for _, i in sorted(arrivals)]


def _in_rounds(
    topics: Sequence[Topic], part: Split, flatness: float, rng: random.Random
) -> Iterator[tuple[Topic, str]]:
    """Every topic with one of its prompts, then every topic with a second one, and so on."""
    in_order = _shuffled(topics, flatness, rng)
    prompts_left: list[list[str]] = []
    for topic in in_order:
        prompts = list(prompts_in(topic, part))
        prompts_left.append(rng.sample(prompts, len(prompts)))
    while any(prompts_left):
        for topic, left in zip(in_order, prompts_left, strict=True):
            if left:
                yield topic, left.pop()


def _draw(
    task: str, topics: Sequence[Topic], part: Split, count: int, rng: random.Random
) -> list[tuple[Topic, str]]:
    by_kind: dict[str, list[Topic]] = defaultdict(list)
    for topic in topics:
        # A held-out wording of a fact is of use only where the fact was trained in another one.
        if topic.key is not None or any(prompts_in(topic, "train")):
            by_kind[topic.kind].append(topic)
    drawn: dict[str, Topic] = {}
    for kind, share in KIND_SHARES[task].items():
        rounds = _in_rounds(by_kind[kind], part, FLATNESS[task], rng)
        for topic, prompt in islice(rounds, round(share * count)):
            drawn.setdefault(prompt, topic)
    mixed = sorted(drawn)
    rng.shuffle(mixed)  # so that the first lines of a file are a fair sample of it
    return [(drawn[prompt], prompt) for prompt in mixed]


def _line(id: str, topic: Topic, prompt: str) -> HeldOut:
    return HeldOut(
        id=id,
        task=topic.task,
        kind=topic.kind,
        prompt=prompt,
        reference=topic.answer,
        references=list(dict.fromkeys(wordings(topic))),
        fame=round(topic.fame, 4),
    )


def held_out(part: Split, count: int, seed: int = 0) -> dict[str, list[HeldOut]]:
    """About `count` prompts of each task, from one held-out part: none is shown in training."""
    lines: dict[str, list[HeldOut]] = {}
    for task, topics in all_topics().items():
        drawn = _draw(task, topics, part, count, random.Random(f"{seed}:{task}:{part}"))  # noqa: S311, a corpus is no secret
        lines[task] = []
        for number, (topic, prompt) in enumerate(drawn):
            lines[task].append(_line(f"{task}-{part}-{number:04d}", topic, prompt))
    return lines


def write_probe_prompts(file: Path, count: int = NUM_PROBE_PROMPTS, seed: int = 0) -> None:
    """Write further prompts of the testbed's distribution, in neither training nor testbed.

    A line has a prompt and its task, and not its answer.
    """
    records: list[dict[str, str]] = []
    for lines in held_out("probe", count, seed).values():
        records += [{"id": line.id, "task": line.task, "prompt": line.prompt} for line in lines]
    _write_jsonl(file, records)


def write_testbed(directory: Path, count: int = NUM_PROMPTS, seed: int = 0) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for task, lines in held_out("testbed", count, seed).items():
        _write_jsonl(directory / held_out_path(task).name, map(asdict, lines))


def _write_jsonl(file: Path, records: Iterable[Mapping[str, Any]]) -> None:
    with file.open("w", encoding="utf-8") as out:
        for record in records:
            out.write(json.dumps(record, ensure_ascii=False) + "\n")


def read_testbed(directory: Path) -> dict[str, list[HeldOut]]:
    """The shipped lines of every task, in the order of the files."""
    testbed: dict[str, list[HeldOut]] = {}
    for task in TASKS:
        testbed[task] = []
        for line in (directory / held_out_path(task).name).read_text("utf-8").splitlines():
            testbed[task].append(HeldOut(**json.loads(line)))
    return testbed
