"""Samples drawn in waves, as engines draw them, for engines that tests make."""

from collections.abc import Callable

from models import records
from models.records import GenerationRequest
from models.waves import num_further


def draw_samples(
    request: GenerationRequest,
    answer: records.Sequence | None,
    draw: Callable[[int], records.Sequence],
) -> tuple[records.Sequence, ...]:
    """All samples of a request.

    Args:
        request: says how many there may be.
        answer: as in `num_further`.
        draw: the i-th sample.
    """
    samples: list[records.Sequence] = []
    while num_next := num_further(request, answer, samples):
        first = request.num_drawn + len(samples)
        samples += map(draw, range(first, first + num_next))
    return tuple(samples)
