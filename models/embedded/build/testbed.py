"""The held-out prompts with references, and the pool of further prompts for training probes."""

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from models.embedded import TASKS, held_out_path
from models.embedded.build.corpus import all_topics
from models.embedded.build.topics import Split, Topic, prompts_in, wordings

NUM_PROMPTS = 720
# Some kinds run out, above all products, of which there are 138; that leaves some 8,600 in all.
NUM_PROBE_PROMPTS = 3300

# Share of a kind in the testbed. Training keeps its own shares: these set how hard the testbed is.
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
# Topics are drawn in proportion to weight ** FLATNESS: 1 asks as often as training showed, 0 asks
# about all alike, below 0 about the rare more than the frequent.
FLATNESS = {"facts": 0.6, "arithmetic": -0.5, "translation": 0.5}


@dataclass(frozen=True, slots=True)
class HeldOut:
    """One line of the testbed. `references` are all accepted texts; the first is `reference`."""

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
    # Exponential races (Efraimidis and Spirakis 2006): a weighted order without replacement.
    races = [(rng.expovariate(1.0) / topic.weight**flatness, i) for i, topic in enumerate(topics)]
    return [topics[i] for _, i in sorted(races)]


def _asked(
    topics: Sequence[Topic], part: Split, flatness: float, rng: random.Random
) -> Iterator[tuple[Topic, str]]:
    """Every topic in one wording, then every topic in a second one, and so on."""
    in_order = _shuffled(topics, flatness, rng)
    wordings_left = [
        rng.sample(found := list(prompts_in(topic, part)), len(found)) for topic in in_order
    ]
    while any(wordings_left):
        for topic, left in zip(in_order, wordings_left, strict=True):
            if left:
                yield topic, left.pop()


def _draw(
    task: str, topics: Sequence[Topic], part: Split, count: int, rng: random.Random
) -> list[tuple[Topic, str]]:
    by_kind: dict[str, list[Topic]] = defaultdict(list)
    for topic in topics:
        # An unseen wording of a fact counts only where the fact was trained in another one.
        if topic.key is not None or any(prompts_in(topic, "train")):
            by_kind[topic.kind].append(topic)
    drawn: dict[str, Topic] = {}
    for kind, share in KIND_SHARES[task].items():
        asked = _asked(by_kind[kind], part, FLATNESS[task], rng)
        for topic, prompt in islice(asked, round(share * count)):
            drawn.setdefault(prompt, topic)
    mixed = sorted(drawn)
    rng.shuffle(mixed)  # so that the first lines of a file are a fair sample of it
    return [(drawn[prompt], prompt) for prompt in mixed]


def held_out(part: Split, count: int, seed: int = 0) -> dict[str, list[HeldOut]]:
    """About `count` prompts a task from one held-out part of the split.

    Never a prompt that training shows.
    """
    lines: dict[str, list[HeldOut]] = {}
    for task, topics in all_topics().items():
        drawn = _draw(task, topics, part, count, random.Random(f"{seed}:{task}:{part}"))  # noqa: S311, a corpus is no secret
        lines[task] = [
            HeldOut(
                id=f"{task}-{part}-{number:04d}",
                task=task,
                kind=topic.kind,
                prompt=prompt,
                reference=topic.answer,
                references=list(dict.fromkeys(wordings(topic))),
                fame=round(topic.fame, 4),
            )
            for number, (topic, prompt) in enumerate(drawn)
        ]
    return lines


def probe_prompts(count: int = NUM_PROBE_PROMPTS, seed: int = 0) -> dict[str, list[str]]:
    """Further prompts of the same distribution, without labels.

    They are in neither the training nor the testbed.
    """
    return {
        task: [line.prompt for line in lines]
        for task, lines in held_out("probe", count, seed).items()
    }


def write_probe_prompts(file: Path, count: int = NUM_PROBE_PROMPTS, seed: int = 0) -> None:
    """One line a prompt, with its task and without its answer."""
    lines = [
        {"id": f"{task}-probe-{number:04d}", "task": task, "prompt": prompt}
        for task, prompts in probe_prompts(count, seed).items()
        for number, prompt in enumerate(prompts)
    ]
    file.write_text(
        "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8"
    )


def write_testbed(directory: Path, count: int = NUM_PROMPTS, seed: int = 0) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for task, lines in held_out("testbed", count, seed).items():
        text = "".join(json.dumps(asdict(line), ensure_ascii=False) + "\n" for line in lines)
        (directory / held_out_path(task).name).write_text(text, encoding="utf-8")


def read_testbed(directory: Path) -> dict[str, list[HeldOut]]:
    """The shipped lines of every task, in the order of the files."""
    return {
        task: [
            HeldOut(**json.loads(line))
            for line in (directory / held_out_path(task).name)
            .read_text(encoding="utf-8")
            .splitlines()
        ]
        for task in TASKS
    }
