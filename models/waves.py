"""Pure: how many samples a request draws, all at once or in waves until enough is known.

Where a request names `stop_mass`, samples come in waves of 2, 3 and then 5, and no further wave
starts once the answer and the distinct samples hold that share of the model's probability
(`models.estimators.found_mass`). Samples that agree are no reason to stop: they agree on confident
mistakes, too.

Behind a reasoning nobody knows the probability of an answer. There waves end once all samples mean
the same as the answer, which a generator cannot know: it draws one wave, and whoever compares texts
asks it for the next one (`GenerationRequest.num_drawn`).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from models import records
from models.errors import EngineError
from models.estimators.cocoa import found_mass
from models.estimators.information import Undefined
from models.records import Array, Generation, GenerationRequest, GivenAnswer
from models.rows import evened
from models.statistics import SAMPLE_STATISTICS

# True where the first samples, so many, all mean the same as the answer.
Agree = Callable[[int], bool]

# The meaning of "auto" where nothing else is set.
DEFAULT_MAX_SAMPLES = 10
DEFAULT_STOP_MASS = 0.7

# After how many samples the first waves end; the later ones have `_LATER` samples each.
_FIRST_ENDS = (2, 5)
_LATER = 5


def wave_end(num_drawn: int, most: int) -> int:
    """The number of samples after the wave that follows `num_drawn` of them.

    >>> [wave_end(num_drawn, most=12) for num_drawn in (0, 2, 5, 10)]
    [2, 5, 10, 12]
    """
    for end in _FIRST_ENDS:
        if end > num_drawn:
            return min(most, end)
    return min(most, num_drawn + _LATER)


def num_further(
    request: GenerationRequest, answer: records.Sequence | None, samples: Sequence[records.Sequence]
) -> int:
    """The number of samples that a generator draws next; 0 once there are enough.

    Args:
        request: says how many samples there may be, and which mass is enough.
        answer: counts where its log-probs are wanted, which they are not where one of the samples
            becomes the answer.
        samples: that were drawn for this request, in their order.
    """
    most, stop_mass = request.num_samples, request.sampling.stop_mass
    num_drawn = request.num_drawn + len(samples)
    if stop_mass is None:
        return most - num_drawn
    if samples and (request.num_drawn or ends_by_agreement(request, answer, samples)):
        return 0
    if samples and _mass(_counted(request, answer), samples) >= stop_mass:
        return 0
    return wave_end(num_drawn, most) - num_drawn


def ends_by_agreement(
    request: GenerationRequest, answer: records.Sequence | None, samples: Sequence[records.Sequence]
) -> bool:
    """True where the waves end once all samples mean the same, as no mass can be known.

    So it is where the answer, if it counts as in `num_further`, or a sample has a reasoning.
    """
    if request.sampling.stop_mass is None:
        return False
    counted = [*samples, _counted(request, answer)]
    return any(sequence is not None and sequence.reasoning is not None for sequence in counted)


def num_taken(
    request: GenerationRequest, generation: Generation, agree: Agree | None = None
) -> int | None:
    """The number of a generation's first samples that the request would have drawn.

    None where it would have drawn more than there are. Sample i is the same however many are
    drawn, so a longer draw can serve a shorter one.

    agree: whether its first samples, so many, all mean the same as the answer; None stops where
        a generator leaves that to others.
    """
    answer, samples, end = generation.answer, generation.samples, 0
    while True:
        num_next = num_further(request, answer, samples[:end])
        if agree is not None and end and ends_by_agreement(request, answer, samples[:end]):
            num_next = 0
            if end < request.num_samples and not agree(end):
                num_next = wave_end(end, request.num_samples) - end
        if not num_next:
            return end
        end += num_next
        if end > len(samples):
            return None


def _counted(
    request: GenerationRequest, answer: records.Sequence | None
) -> records.Sequence | None:
    """The answer, unless one of the samples becomes it."""
    if "answer_token_logprobs" in request.statistics:
        return answer
    return None


def _mass(answer: records.Sequence | None, samples: Sequence[records.Sequence]) -> float:
    """`found_mass` of what was drawn; 0 where log-probs are missing, so that all are drawn."""
    if answer is None or answer.token_logprobs is None:
        answer = samples[0]  # no text adds to the mass that the samples hold themselves
    logprobs: list[Array] = []
    texts: list[str] = []
    for sequence in (answer, *evened(samples)):
        if sequence.token_logprobs is None:
            return 0.0
        logprobs.append(sequence.token_logprobs)
        texts.append(sequence.compared_text)
    of_answer, text_of_answer = logprobs.pop(0), texts.pop(0)
    matches = np.array([float(text == text_of_answer) for text in texts])
    try:
        return found_mass(of_answer, logprobs, texts, matches)
    except Undefined:  # an empty answer that was given has no tokens, and no probability
        return 0.0


def next_wave(
    request: GenerationRequest, generation: Generation, timeout_s: float | None
) -> GenerationRequest:
    """The request for the wave after those of a generation, by the same seed."""
    return replace(
        request,
        sampling=replace(request.sampling, seed=generation.seed),
        statistics=request.statistics & SAMPLE_STATISTICS,
        answer=GivenAnswer("", append_eos=False),
        num_drawn=len(generation.samples),
        streamed=0,
        num_tops=0,
        timeout_s=timeout_s,
    )


def with_wave(generation: Generation, wave: Generation) -> Generation:
    """The generation with one more wave of samples.

    Raises:
        EngineError: samples of two models are not mixed.
    """
    if wave.identity != generation.identity:
        raise EngineError("the language model was replaced; repeat the request")
    return replace(
        generation,
        samples=generation.samples + wave.samples,
        generate_s=generation.generate_s + wave.queue_s + wave.generate_s,
        warnings=tuple(dict.fromkeys(generation.warnings + wave.warnings)),
        absent={**wave.absent, **generation.absent},
    )
