"""A bound on loops over texts, values and schemas that strangers send."""

from dataclasses import dataclass

from models.errors import InvalidRequest

# About half a second of one thread. 1,000 fields in an answer and 32 distinct samples take 68,000,
# to compare 65 short texts with each other 8,000.
MAX_STEPS = 1_000_000


@dataclass(eq=False)
class WorkBudget:
    """The steps of all loops over one answer and its samples, counted together."""

    most: int = MAX_STEPS
    num_taken: int = 0
    field: str = "units"  # of an ask, that makes them many

    def take(self, num_steps: int = 1) -> None:
        """Count further steps.

        Raises:
            InvalidRequest: there are too many, or `end` was called.
        """
        self.num_taken += num_steps
        if self.num_taken > self.most:
            message = (
                f"comparing them takes more than {self.most} steps, about the values of the schema"
                " times the fields of answer and samples, or four times its sentences times theirs"
            )
            raise InvalidRequest(message, field=self.field)

    def end(self) -> None:
        """End the loops at their next step, from another thread, since nobody awaits them."""
        self.most = -1
