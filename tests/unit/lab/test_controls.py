"""What is no estimator, beside the estimators: an answer's length, and equal texts of samples."""

import json

import numpy as np
import pytest

from cocoa_lab import outputs
from cocoa_lab.examples import Example
from cocoa_lab.metrics import prr
from cocoa_lab.recordings import Recording, RecordingHeader
from cocoa_lab.run import AnswerScores, Origin, Run, ScoredPrompt, Variant
from tests.results import generation, sequence

pytestmark = pytest.mark.usefixtures("undrawn")

RNG = np.random.default_rng(0)
NUM_PROMPTS = 120
SAMPLING = {"num_samples": 3, "temperature": 1.0, "top_k": 50, "top_p": 1.0}
RIGHT = (RNG.random(NUM_PROMPTS) < 0.6).astype(float)
# Of the samples of a right answer most say the same, in whatever case.
SAMPLES = [("Rome", "rome ", "Paris") if right else ("Rome", "Oslo", "Paris") for right in RIGHT]
LENGTHS = RNG.integers(1, 9, NUM_PROMPTS)


def a_prompt(number, score):
    example = Example(f"facts-{number}", "facts", f"Question {number}?", ("Rome",))
    found = generation(sequence("Rome", int(LENGTHS[number])), SAMPLES[number])
    answer = AnswerScores(
        id=example.id,
        strategy="greedy",
        similarity="fake",
        draw="3",
        num_samples=3,
        text="Rome",
        sample=None,
        scores={"sp": score},
        reasons={},
    )
    return ScoredPrompt(example, Recording(example.id, example.prompt, found), [answer])


def results_of(folder, scores):
    prompts = [a_prompt(number, float(score)) for number, score in enumerate(scores)]
    run = Run(
        header=RecordingHeader(
            "made", "fake", "1", 0, SAMPLING, ("sample_texts",), asks_p_true=False
        ),
        prompts=prompts,
        num_failed=0,
        errors=[],
        qualities={Variant("greedy", "fake", "3"): RIGHT},
        measure_names={"facts": "contains"},
        binary_tasks=frozenset({"facts"}),
        models={},
        origin=Origin("fake", {"fake": "fake pairs"}, None, 64, 0.0, ()),
        speed={},
    )
    outputs.write(run, folder, "cocoa evaluate made", num_resamples=50, force=True)
    return json.loads((folder / "results.json").read_text())


@pytest.fixture(scope="module")
def by_chance(tmp_path_factory):
    return results_of(tmp_path_factory.mktemp("chance"), RNG.random(NUM_PROMPTS))


def test_they_rank_by_number_of_tokens_and_by_the_share_of_samples_that_are_another_text(by_chance):
    controls = by_chance["controls"]["prr"]["greedy"]["facts"]
    shares = np.where(RIGHT == 1, 1 / 3, 2 / 3)
    assert controls["equal_texts"]["value"] == prr(shares, RIGHT) == 1.0
    assert controls["length"]["value"] == prr(LENGTHS.astype(float), RIGHT)


def test_a_control_that_no_estimator_beats_is_the_first_thing_to_know(by_chance, tmp_path):
    told = "equal_texts, which is no estimator, ranks as well as any by the column facts"
    assert [note for note in by_chance["notes"][:2] if told in note]
    good = results_of(tmp_path, 1 - RIGHT + 0.1 * RNG.random(NUM_PROMPTS))
    assert not [note for note in good["notes"] if note.startswith("length")]
