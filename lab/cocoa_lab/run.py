"""Records of a finished run: each prompt with its answers' scores, and the answers' quality."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from app.scoring.selection import Strategy
from cocoa_lab.examples import Example
from cocoa_lab.recordings import Recording, RecordingHeader
from models.records import Array
from models.similarity.rules import SCORED

_MAX_SAMPLES = 64


def numbers_of_samples(names: str) -> list[int]:
    """The numbers between commas, each once.

    Raises:
        ValueError: one of them is no number from 1 to 64.
    """
    numbers: dict[int, None] = {}
    for name in names.replace(" ", "").split(","):
        if name.startswith("auto"):
            raise ValueError(f"{name} is gone: name numbers of samples, such as 5")
        if not name.isdecimal() or not 1 <= int(name) <= _MAX_SAMPLES:
            raise ValueError(f"{name!r} is no number from 1 to {_MAX_SAMPLES}")
        numbers[int(name)] = None
    return list(numbers)


def with_revision(model: str, revision: str | None) -> str:
    """A model as reports name it."""
    if not revision:
        return model
    return f"{model} ({revision})"


class Variant(NamedTuple):
    """How an answer was chosen and what it was compared with.

    Attributes:
        similarity: name of the similarity function.
        draw: how many samples there are, as users name it.
    """

    strategy: Strategy
    similarity: str
    draw: str


@dataclass(frozen=True, slots=True)
class AnswerScores:
    """One answer of one prompt, with its uncertainties.

    Attributes:
        similarity: name of the similarity function.
        draw: how many samples were wanted, as users name it.
        num_samples: that were drawn and not withheld.
        text: y* as it is compared.
        sample: index of y* among the samples; None for the greedy answer.
        scores: None where an estimator has no value, for which `reasons` says why.
        similarities: of y* to each sample (M,), and of the samples to each other (M, M), rounded;
            only those that a score reads.
    """

    id: str
    strategy: Strategy
    similarity: str
    draw: str
    num_samples: int
    text: str
    sample: int | None
    scores: Mapping[str, float | None]
    reasons: Mapping[str, str]
    similarities: Mapping[str, list[Any]] = field(default_factory=dict)

    @property
    def variant(self) -> Variant:
        """How it was chosen and what it was compared with."""
        return Variant(self.strategy, self.similarity, self.draw)


@dataclass(frozen=True, slots=True)
class ScoredPrompt:
    """One example with its recording and the scores of its answers, one for each variant.

    There are no scores where the example has no generation.
    """

    example: Example
    recording: Recording
    answers: Sequence[AnswerScores]


@dataclass(frozen=True, slots=True)
class Origin:
    """What a run's scores came from, as a calibrator is bound to it.

    Attributes:
        generator: identity of the language model.
        comparers: identity by similarity function (the name of stored files).
        nli: identity of the NLI model; None where there is none.
        max_new_tokens: the largest limit of a prompt.
        share_cut: of all answers and samples, those that ended at their prompt's limit.
        stop: the prompts' stop strings; None where they differ.
        rules: version of the rules by which scores were made.
        schema_use: of a JSON schema, as in `models.calibration.Binding`; None where prompts differ.
    """

    generator: str
    comparers: Mapping[str, str]
    nli: str | None
    max_new_tokens: int
    share_cut: float
    stop: tuple[str, ...] | None
    schema_use: str | None = "none"
    rules: int = SCORED


@dataclass(frozen=True, slots=True)
class Cost:
    """What a prompt costs estimators that ask models for the same.

    Attributes:
        estimators: that share it; none for the answer and its samples.
        reads: statistics that models are asked for; none where only arithmetic is left.
        ms: processor time of the process a prompt, where nothing else is asked or remembered.
    """

    estimators: tuple[str, ...]
    reads: tuple[str, ...]
    ms: float


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run.

    Attributes:
        prompts: those that have a generation, one at least.
        num_failed: examples that have none, for `errors`.
        qualities: quality (n,) of the prompts' answers under each variant; the first strategy,
            similarity function and draw serve all tables but those that compare with others.
        measure_names: name of the quality measure, by task.
        binary_tasks: those whose quality is 0 or 1.
        models: role to model and revision.
        origin: what the scores came from.
        foreign: roles of embedded pair models that do not know the language model's answers.
        speed: prompts a second and how it was measured; empty where something was there before.
        costs: of the estimators, the costliest first; empty where no language model is loaded.
    """

    header: RecordingHeader
    prompts: Sequence[ScoredPrompt]
    num_failed: int
    errors: Sequence[str]
    qualities: Mapping[Variant, Array]
    measure_names: Mapping[str, str]
    binary_tasks: frozenset[str]
    models: Mapping[str, str]
    origin: Origin
    speed: Mapping[str, float]
    costs: Sequence[Cost] = ()
    foreign: Sequence[str] = ()

    @property
    def variants(self) -> list[Variant]:
        """In the order in which they were asked, the first one's parts for all tables."""
        return [answer.variant for answer in self.prompts[0].answers]

    @property
    def num_prompts(self) -> int:
        """Examples with and without a generation."""
        return len(self.prompts) + self.num_failed

    def rows_of(self, task: str) -> list[int]:
        """Indices of the task's prompts."""
        rows = []
        for i, prompt in enumerate(self.prompts):
            if prompt.example.task == task:
                rows.append(i)
        return rows
