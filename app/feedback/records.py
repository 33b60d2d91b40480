"""What is kept of an answer and of its label, and both as JSON that nobody vouches for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import orjson
from annotated_types import Ge, Le
from pydantic import FiniteFloat, TypeAdapter

from models.calibration import Binding

Quality = Annotated[FiniteFloat, Ge(0), Le(1)]
Record = TypeVar("Record", "Answer", "Label")


@dataclass(frozen=True, slots=True)
class Answer:
    """One served answer, as far as a label needs it.

    Attributes:
        id: of its response.
        served_at: Unix seconds.
        estimator: the one whose value was the uncertainty.
        scores: estimator to its value; None where it had none.
        binding: what the scores came from, `share_cut` among this answer and its samples; None
            where the client brought samples or log-probs, which nobody knows the origin of.
        calibrator: id of the one that was served.
        text: the answer; None unless texts are kept.
        namespace: whose answer it is; nobody else's label finds it.
    """

    id: str
    served_at: FiniteFloat
    estimator: str
    scores: Mapping[str, FiniteFloat | None]
    binding: Binding | None
    calibrator: str | None = None
    text: str | None = None
    namespace: str = ""
    format: Literal[1] = 1

    @property
    def name(self) -> str:
        """By which a store keeps it."""
        return name_of(self.id, self.namespace)


@dataclass(frozen=True, slots=True)
class Label:
    """What an application says of an answer.

    Attributes:
        quality: in [0, 1]; 1 is right, 0 is wrong.
        task: what kind of question it was, in the application's words.
        labelled_at: Unix seconds.
    """

    answer: Answer
    quality: Quality
    task: str | None
    labelled_at: FiniteFloat


_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {
    Answer: TypeAdapter(Answer),
    Label: TypeAdapter(Label),
}


def name_of(answer_id: str, namespace: str) -> str:
    """The name of an answer: its id, after whose it is. An id has no blank."""
    return f"{namespace} {answer_id}" if namespace else answer_id


def to_json(record: Answer | Label) -> bytes:
    """One line without its end."""
    return orjson.dumps(record)


def from_json(kind: type[Record], content: bytes) -> Record:
    """The record that `to_json` was given.

    Raises:
        ValueError: it was given none such.
    """
    record: Record = _ADAPTERS[kind].validate_json(content)
    return record
