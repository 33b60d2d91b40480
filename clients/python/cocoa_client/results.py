"""Many results as one: how far they are, a table of them, and those in a file of `cocoa-batch`."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from cocoa_client.models import ErrorBody, ErrorResponse, GenerateResponse, ScoreOutcome

if TYPE_CHECKING:
    import pandas

Outcome = TypeVar("Outcome", bound=BaseModel)


@dataclass(frozen=True)
class Progress:
    """How far a batch is.

    Attributes:
        name: of the batch, or of its file.
        deed: what is done with its items: "scored".
        num_done: items that have a result or an error.
        total: all items.
    """

    name: str
    deed: str
    num_done: int
    total: int

    def __str__(self) -> str:
        """For people: `answers: scored 12 of 40`."""
        return f"{self.name}: {self.deed} {self.num_done} of {self.total}"


OnProgress = Callable[[Progress], object]


class BatchOutcome(ScoreOutcome):
    """What became of one line of a batch."""

    custom_id: str | None
    """that of the line"""


class Results(list[Outcome]):
    """A list of results that is also a table."""

    def to_df(self) -> "pandas.DataFrame":
        """The same as `to_df(results)`."""
        return to_df(self)


def to_df(results: Iterable[BaseModel]) -> "pandas.DataFrame":
    """A row a result, in their order, and a column a field.

    Fields in fields are columns of their own (`scores.sp`, `decision.accept`); lists stay lists. A
    field that a result does not have is missing in its row: one with an error has `error.…` alone.

    Args:
        results: responses (`GenerateResponse`), outcomes of `score_all`, or those of a batch.

    Raises:
        ImportError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise ImportError("to_df needs pandas, which is missing: pip install pandas") from None
    rows = []
    for one in results:
        row = one.model_dump(exclude_unset=True)
        result = row.pop("result", None) or {}
        if not row.get("error"):
            row.pop("error", None)
        rows.append(row | result)
    return pandas.json_normalize(rows)


def read_results(path: str | Path) -> Results[BatchOutcome]:
    """The outcomes in a file that `cocoa-batch` wrote, in its order.

    Raises:
        ValueError: a line is no outcome of `/generate-with-uncertainty`, or of `/score` for one
            answer; the message names it.
        OSError: the file cannot be read.
    """
    results: Results[BatchOutcome] = Results()
    with Path(path).open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                results.append(_outcome(json.loads(line)))
            except (ValueError, LookupError, TypeError):
                raise ValueError(
                    f"line {number} of {Path(path).name} is no answer of /generate-with-uncertainty"
                    " or /score"
                ) from None
    return results


def _outcome(answer: Mapping[str, Any]) -> BatchOutcome:
    custom_id, response = answer["custom_id"], answer["response"]
    result, error = None, None
    if response is None:
        error = ErrorBody(field=None, request_id="", **answer["error"])
    elif 200 <= response["status_code"] < 300:
        result = GenerateResponse.model_validate(response["body"])
    else:
        error = ErrorResponse.model_validate(response["body"]).error
    return BatchOutcome(custom_id=custom_id, result=result, error=error)
