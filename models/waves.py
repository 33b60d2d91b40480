"""Pure: how many samples a request draws, all at once or in waves until enough is found.

Where a request names `stop_mass`, samples come in waves of 2, 3 and then 5, and no further wave
starts once the answer and the distinct samples hold that share of the model's probability
(`models.estimators.found_mass`). Samples that agree are no reason to stop: they agree on confident
mistakes, too.
"""

from collections.abc import Callable, Sequence

import numpy as np

from models import records
from models.estimators import Undefined, found_mass
from models.records import Array, Generation, GenerationRequest

# What "auto" means where nothing else is said.
DEFAULT_MAX_SAMPLES = 10
DEFAULT_STOP_MASS = 0.7

# After how many samples the first waves end; the later ones have `_LATER` samples each.
_FIRST_ENDS = (2, 5)
_LATER = 5


def wave_end(num_drawn: int, most: int) -> int:
    """How many samples there are after the wave that follows `num_drawn` of them.

    >>> [wave_end(num_drawn, most=12) for num_drawn in (0, 2, 5, 10)]
    [2, 5, 10, 12]
    """
    for end in _FIRST_ENDS:
        if end > num_drawn:
            return min(most, end)
    return min(most, num_drawn + _LATER)


def num_further(
    request: GenerationRequest,
    answer: records.Sequence | None,
    samples: Sequence[records.Sequence],
) -> int:
    """How many samples to draw next; 0 once there are enough.

    Args:
        request: says how many samples there may be, and which mass is enough.
        answer: counts where its log-probs are wanted, which they are not where one of the samples
            becomes the answer.
        samples: that were drawn, in their order.
    """
    most, stop_mass = request.num_samples, request.sampling.stop_mass
    if stop_mass is None:
        return most - len(samples)
    counts = "answer_token_logprobs" in request.statistics
    if samples and _mass(answer if counts else None, samples) >= stop_mass:
        return 0
    return wave_end(len(samples), most) - len(samples)


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
        samples += map(draw, range(len(samples), len(samples) + num_next))
    return tuple(samples)


def num_taken(request: GenerationRequest, generation: Generation) -> int | None:
    """How many of a generation's first samples the request would have drawn.

    None where it would have drawn more than there are. Sample i is the same however many are
    drawn, so a longer draw can serve a shorter one.
    """
    samples, end = generation.samples, 0
    while num_next := num_further(request, generation.answer, samples[:end]):
        end += num_next
        if end > len(samples):
            return None
    return end


def _mass(answer: records.Sequence | None, samples: Sequence[records.Sequence]) -> float:
    """`found_mass` of what was drawn; 0 where log-probs are missing, so that all are drawn."""
    if answer is None or answer.token_logprobs is None:
        answer = samples[0]  # no text adds to the mass that the samples hold themselves
    logprobs: list[Array] = []
    texts: list[str] = []
    for one in (answer, *samples):
        if one.token_logprobs is None:
            return 0.0
        if one.reasoning is not None:
            return 0.0  # p(answer | its reasoning) is no part of one distribution
        logprobs.append(one.token_logprobs)
        texts.append(one.compared_text)
    of_answer, text_of_answer = logprobs.pop(0), texts.pop(0)
    matches = np.array([float(text == text_of_answer) for text in texts])
    try:
        return found_mass(of_answer, logprobs, texts, matches)
    except Undefined:  # an empty answer that was given has no tokens, and no probability
        return 0.0
