"""Records of a finished run: each prompt with its answers' scores, and the answers' quality."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.lab.examples import Example
from app.lab.recordings import Recording, RecordingHeader
from models.records import Array
from models.selection import Strategy


@dataclass(frozen=True, slots=True)
class AnswerScores:
    """One answer of one prompt, with its uncertainties.

    Attributes:
        similarity: name of the similarity function.
        text: y* as it is compared.
        sample: index of y* among the samples; None for the greedy answer.
        scores: None where an estimator has no value, for which `reasons` says why.
    """

    id: str
    strategy: Strategy
    similarity: str
    text: str
    sample: int | None
    scores: Mapping[str, float | None]
    reasons: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ScoredPrompt:
    """One example with its recording and the scores of its answers, one for each plan.

    There are no scores where the example has no generation.
    """

    example: Example
    recording: Recording
    answers: Sequence[AnswerScores]


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run.

    Attributes:
        prompts: those that have a generation, one at least.
        num_failed: examples that have none, for `errors`.
        qualities: quality (n,) of the prompts' answers, by strategy and similarity function.
        measure_names: name of the quality measure, by task.
        binary_tasks: those whose quality is 0 or 1.
        similarities: function of each plan; the first serves all tables.
        models: role to model and revision.
        speed: prompts a second and how it was measured; empty where something was there before.
    """

    header: RecordingHeader
    prompts: Sequence[ScoredPrompt]
    num_failed: int
    errors: Sequence[str]
    qualities: Mapping[tuple[str, str], Array]
    measure_names: Mapping[str, str]
    binary_tasks: frozenset[str]
    similarities: Sequence[str]
    models: Mapping[str, str]
    speed: Mapping[str, float]

    @property
    def num_prompts(self) -> int:
        """Examples with and without a generation."""
        return len(self.prompts) + self.num_failed

    def rows_of(self, task: str) -> list[int]:
        """Indices of the task's prompts."""
        return [i for i, prompt in enumerate(self.prompts) if prompt.example.task == task]
