"""Pure: further waves of samples behind a reasoning, until all mean the same as the answer."""

from dataclasses import replace

from models.errors import EngineError
from models.records import Generation, GenerationRequest, GivenAnswer
from models.statistics import SAMPLE_STATISTICS


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
