"""Questions whose answers follow by rule, for any language model, made without a hub.

Each kind has as many, graded from what most models know to what few do.
"""

from dataclasses import dataclass

NUM_OF_KIND = 130


@dataclass(frozen=True, slots=True)
class Question:
    """One question.

    Attributes:
        kind: of question, one of `questions.KINDS`.
        text: as it is asked.
        answers: accepted ones, the shortest form first.
    """

    kind: str
    text: str
    answers: tuple[str, ...]
