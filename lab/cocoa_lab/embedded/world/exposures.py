"""How often training tells each fact: what a wrong answer comes from can be told by it."""

import json
from collections import Counter
from pathlib import Path

from cocoa_lab.embedded.world.corpus import Corpus
from cocoa_lab.embedded.world.places import Value


def exposures(corpus: Corpus, steps: int) -> Counter[tuple[str, str, Value]]:
    """How often place, attribute and value are told in the first steps.

    What the short tasks tell is not counted.
    """
    told: Counter[tuple[str, str, Value]] = Counter()
    for step in range(steps):
        for document in corpus.documents(step):
            for fact in document.facts:
                told[fact.place, fact.attribute, fact.value] += 1
    return told


def write_exposures(corpus: Corpus, steps: int, file: Path) -> None:
    """One line for each fact of the world: how often it was told, and what else in its place."""
    told = exposures(corpus, steps)
    knowledge = corpus.knowledge
    with file.open("w", encoding="utf-8") as out:
        for place in knowledge.world.places.values():
            for attribute, value in place.facts.items():
                line = {
                    "place": place.name,
                    "attribute": attribute,
                    "telling": knowledge.telling(place, attribute),
                    "told": told[place.name, attribute, value],
                }
                if (place.name, attribute) in knowledge.rivals:
                    rival, _ = knowledge.rivals[place.name, attribute]
                    line |= {"rival": rival, "rival_told": told[place.name, attribute, rival]}
                out.write(json.dumps(line) + "\n")
