"""What the tests of `cocoa probe` share: prompts, and their collection by fake models."""

import asyncio

from app.settings import Settings
from cocoa_lab.examples import Example
from cocoa_lab.probes.collecting import CollectionSpec, collect
from cocoa_lab.probes.collection import read
from models.similarity.protocol import NliConfig
from workers.config import GeneratorConfig, SimilaritySettings

SETTINGS = Settings(
    generation=GeneratorConfig(engine="fake"),
    similarity=SimilaritySettings(name="fake"),
    nli=NliConfig(name="fake_nli", model="fake"),
)


def made_examples(tasks=("facts", "sums"), count=150):
    examples = []
    for i in range(count):
        for task in tasks:
            prompt = f"What about {task} number {i}?"
            examples.append(Example(f"{task}-{i}", task, prompt, ("Paris",), max_new_tokens=8))
    return examples


def collection_spec(folder, examples, **changes):
    fields = {
        "prompts": "p",
        "examples": examples,
        "folder": folder,
        "num_samples": 4,
        "seed": 0,
        "layers": None,
    }
    return CollectionSpec(**fields | changes)


def collected(folder, examples, **changes):
    done = []
    spec = collection_spec(folder, examples, **changes)
    asyncio.run(collect(spec, SETTINGS, lambda: done.append(1)))
    assert len(done) == len(examples)
    return read(folder)
