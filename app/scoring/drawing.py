"""Further waves of samples behind a reasoning, until all mean the same as the answer."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from models.errors import EngineError
from models.records import Generation, GenerationRequest, GivenAnswer
from models.statistics import SAMPLE_STATISTICS
from models.waves import ends_by_agreement

# Whether all samples of a generation mean the same as its answer.
Agree = Callable[[Generation], Awaitable[bool]]
# The next wave of a generation.
Draw = Callable[[Generation], Awaitable[Generation]]


async def drawn_on(
    request: GenerationRequest, generation: Generation, agree: Agree, draw: Draw
) -> Generation:
    """The generation with as many waves of samples as the request wants.

    Raises:
        EngineError: samples of two models are not mixed.
        CocoaError: whatever else `agree` and `draw` raise.
    """
    answer = generation.answer
    while 0 < len(generation.samples) < request.num_samples:
        if not ends_by_agreement(request, answer, generation.samples) or await agree(generation):
            break
        wave = await draw(generation)
        if wave.identity != generation.identity:
            raise EngineError("the language model was replaced; repeat the request")
        generation = replace(
            generation,
            samples=generation.samples + wave.samples,
            generate_s=generation.generate_s + wave.queue_s + wave.generate_s,
            warnings=tuple(dict.fromkeys(generation.warnings + wave.warnings)),
            absent={**wave.absent, **generation.absent},
        )
    return generation


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
