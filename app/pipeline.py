"""The one path of a request: plan, generate, gather evidence, score, respond."""

import asyncio
import time
from dataclasses import replace

import numpy as np

from app.evidence import gather_evidence
from app.planning import Plan, derivable, generation_request, make_plan
from app.respond import Scored, respond
from app.schemas import GenerateRequest, GenerateResponse, ScoreRequest
from app.telemetry import Telemetry
from models.engines.texts import without_reasoning
from models.errors import DeadlineExceeded, InvalidRequest, NotReady
from models.estimators import score
from models.records import PROBE_STATISTICS, SAMPLE_STATISTICS, Generation, GenerationRequest, Sequence
from workers.admission import Admission
from workers.build import Workers
from workers.supervision import Supervisor


class Pipeline:
    """Carries requests through the workers under one admission limit and each under its own deadline."""

    def __init__(self, supervisor: Supervisor, admission: Admission, telemetry: Telemetry) -> None:
        self.supervisor = supervisor
        self.admission = admission
        self.workers: Workers | None = None
        self._telemetry = telemetry

    def ready_workers(self) -> Workers:
        """The workers, once they are warm.

        Raises:
            NotReady: models are loading, have died, or are stopping.
        """
        if self.supervisor.state != "ready" or self.workers is None:
            raise NotReady(f"the service is {self.supervisor.state}")
        return self.workers

    def available_statistics(self, request: GenerateRequest | ScoreRequest | None = None) -> frozenset[str]:
        """What this deployment can supply to estimators, and what a request leaves of that or brings along."""
        workers = self.ready_workers()
        sources = workers.generation.statistics
        if isinstance(request, ScoreRequest):
            sources = _sources(request, sources)
        return derivable(sources, has_nli=workers.nli is not None)

    async def run(self, request: GenerateRequest | ScoreRequest, request_id: str) -> GenerateResponse:
        """Answer, or score a given answer.

        Raises:
            CocoaError: see `models.errors`; every way in which a request can end without a result.
        """
        started_at = time.monotonic()
        workers = self.ready_workers()
        _check_similarity(request, workers)
        plan = make_plan(request, self.available_statistics(request))
        with self.admission.admit():
            try:
                async with asyncio.timeout(request.timeout_s):
                    scored = await self._score(plan, request, workers, started_at)
            except TimeoutError:
                raise DeadlineExceeded(f"no result within timeout_s = {request.timeout_s:g} s") from None
        response = respond(scored, request, workers, request_id)
        self._telemetry.observe_generation(scored.generation, response.timing_ms)
        return response

    async def _score(
        self, plan: Plan, request: GenerateRequest | ScoreRequest, workers: Workers, started_at: float
    ) -> Scored:
        asked, generation = await _generate(plan, request, workers)
        generated_at = time.monotonic()
        evidence = await gather_evidence(plan, generation, asked, workers)
        compared_at = time.monotonic()
        # Word overlap of long samples takes a while; on a thread it does not hold up the event loop.
        scores, reasons = await asyncio.to_thread(score, plan.estimators, evidence.statistics, evidence.absent)
        return Scored(
            plan=plan,
            generation=generation,
            evidence=evidence,
            scores=scores,
            reasons=reasons,
            asked_model=asked is not None,
            started_at=started_at,
            generated_at=generated_at,
            compared_at=compared_at,
            ended_at=time.monotonic(),
        )


async def _generate(
    plan: Plan, request: GenerateRequest | ScoreRequest, workers: Workers
) -> tuple[GenerationRequest | None, Generation]:
    """What the engine was asked, None where it was not, and the generation with what the client brought in place."""
    if not isinstance(request, ScoreRequest):
        asked = generation_request(request, plan.engine_statistics)
        return asked, await workers.generation.generate(asked)
    compared_text = without_reasoning(request.answer).strip()
    if request.prompt is None and request.messages is None:
        answer = Sequence(request.answer, compared_text, (), "given")
        return None, Generation(answer, _given_samples(request), prompt_tokens=0, seed=0, model_id="")
    statistics = plan.engine_statistics - (SAMPLE_STATISTICS if request.samples is not None else frozenset())
    answer_ids = await workers.generation.engine.encode_answer(request.answer, append_eos=request.append_eos)
    asked = generation_request(request, statistics, answer_ids)
    generation = await workers.generation.generate(asked)
    answer = replace(generation.answer, text=request.answer, compared_text=compared_text)
    return asked, replace(generation, answer=answer, samples=_given_samples(request) or generation.samples)


def _given_samples(request: ScoreRequest) -> tuple[Sequence, ...]:
    return tuple(
        Sequence(
            text=sample.text,
            compared_text=without_reasoning(sample.text).strip(),
            token_ids=(),
            finish_reason="given",
            token_logprobs=None if sample.token_logprobs is None else np.array(sample.token_logprobs),
        )
        for sample in request.samples or ()
    )


def _check_similarity(request: GenerateRequest | ScoreRequest, workers: Workers) -> None:
    if request.similarity is not None and request.similarity not in workers.similarity:
        raise InvalidRequest(f"must be one of {', '.join(sorted(workers.similarity))}", field="similarity")


def _sources(request: ScoreRequest, supplied: frozenset[str]) -> frozenset[str]:
    """Without a prompt no model is asked; samples that a client brings have texts, and maybe log-probs."""
    sources = supplied - PROBE_STATISTICS if request.prompt is not None or request.messages is not None else frozenset()
    if request.samples is None:
        return sources
    brought = {"sample_texts"}
    if all(sample.token_logprobs is not None for sample in request.samples):
        brought.add("sample_token_logprobs")
    return (sources - SAMPLE_STATISTICS) | brought
