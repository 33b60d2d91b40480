"""The one path of a request: plan, look up, generate, gather evidence, remember, score, respond."""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

import numpy as np

from app.cache.entries import Computed, decode, encode
from app.cache.flight import SingleFlight
from app.cache.keys import model_identities, statistics_key
from app.cache.pairs import RememberingWorker
from app.cache.protocol import Cache
from app.evidence import gather_evidence
from app.planning import Plan, derivable, generation_request, make_plan
from app.respond import Scored, respond
from app.schemas import GenerateRequest, GenerateResponse, ScoreRequest
from app.settings import Settings
from app.telemetry import Telemetry
from models.engines.texts import without_reasoning
from models.errors import DeadlineExceeded, InvalidRequest, NotReady
from models.estimators import score
from models.records import (
    PROBE_STATISTICS,
    SAMPLE_STATISTICS,
    Generation,
    GenerationRequest,
    Sequence,
)
from models.similarity import LEXICAL
from workers.admission import Admission
from workers.build import Workers
from workers.similarity import SimilarityWorker
from workers.supervision import Supervisor

Source = Literal["cache", "joined", "computed"]

# Word overlap of long samples takes a while; the others take less than handing them to a thread.
_SLOW = frozenset({"lexical_similarity"})


class Pipeline:
    """Carries requests through the workers under one admission limit, each with its own deadline.

    Attributes:
        workers: None until they are loaded.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        admission: Admission,
        telemetry: Telemetry,
        cache: Cache | None = None,
    ) -> None:
        self.supervisor = supervisor
        self.admission = admission
        self.workers: Workers | None = None
        self._telemetry = telemetry
        self._cache = cache
        self._identities: dict[str, str] = {}
        self._flights: SingleFlight[Computed] = SingleFlight()

    def use(self, workers: Workers, settings: Settings) -> None:
        """Take the workers, once they are loaded."""
        self.workers = workers
        self._identities = model_identities(settings, workers)

    def ready_workers(self) -> Workers:
        """The workers, once they are warm.

        Raises:
            NotReady: models are loading, have died, or are stopping.
        """
        if self.supervisor.state != "ready" or self.workers is None:
            raise NotReady(f"the service is {self.supervisor.state}")
        return self.workers

    def available_statistics(
        self, request: GenerateRequest | ScoreRequest | None = None
    ) -> frozenset[str]:
        """What this deployment can supply to estimators, as the request limits or extends it."""
        workers = self.ready_workers()
        sources = workers.generation.statistics
        if isinstance(request, ScoreRequest):
            sources = _sources(request, sources)
        return derivable(sources, has_nli=workers.nli is not None)

    async def run(
        self, request: GenerateRequest | ScoreRequest, request_id: str
    ) -> GenerateResponse:
        """Answer, or score a given answer.

        Raises:
            CocoaError: see `models.errors`; every way in which a request can end without a result.
        """
        started_at = time.monotonic()
        workers = self.ready_workers()
        _check_similarity(request, workers)
        plan = make_plan(request, self.available_statistics(request))
        try:
            async with asyncio.timeout(request.timeout_s):
                computed, source = await self._obtain(plan, request, workers)
                scored_at = time.monotonic()
                scores, reasons = await _score(plan.estimators, computed)
        except TimeoutError:
            raise DeadlineExceeded(
                f"no result within timeout_s = {request.timeout_s:g} s"
            ) from None
        scored = Scored(
            plan=plan,
            computed=computed,
            scores=scores,
            reasons=reasons,
            cached=source == "cache",
            score_s=time.monotonic() - scored_at,
            started_at=started_at,
        )
        response = respond(scored, request, workers, request_id)
        self._observe(scored, response, source)
        return response

    async def _obtain(
        self, plan: Plan, request: GenerateRequest | ScoreRequest, workers: Workers
    ) -> tuple[Computed, Source]:
        """What the cache holds for a request, or what is computed for it, and which of the two.

        It is computed by this request or by an identical one under way.

        Only what is complete is ever put into the cache.
        """
        if self._cache is None or not request.cache:
            return await self._compute(plan, request, workers), "computed"
        cache, key = self._cache, statistics_key(plan, request, workers, self._identities)
        entry = (await cache.get_many([key]))[0]
        computed = None if entry is None else decode(entry, plan)
        self._telemetry.observe_lookup(computed is not None)
        if computed is not None:
            return computed, "cache"

        async def compute() -> Computed:
            computed = await self._compute(plan, request, self._remembering(workers, cache))
            cache.put({key: encode(computed, plan)})
            return computed

        # One that returns more needs more computed.
        flight = key, plan.statistics
        source: Source = "joined" if flight in self._flights else "computed"
        if source == "joined":
            self._telemetry.observe_joined()
        return await self._flights.run(flight, compute), source

    async def _compute(
        self, plan: Plan, request: GenerateRequest | ScoreRequest, workers: Workers
    ) -> Computed:
        with self.admission.admit():
            asked, generation = await _generate(plan, request, workers)
            generated_at = time.monotonic()
            evidence = await gather_evidence(plan, generation, asked, workers)
            return Computed(
                asked is not None, generation, evidence, time.monotonic() - generated_at
            )

    def _remembering(self, workers: Workers, cache: Cache) -> Workers:
        """The workers, with a memory for pairs in front of each model that has weights."""

        def remembering(worker: SimilarityWorker, name: str) -> SimilarityWorker:
            return RememberingWorker(
                worker, cache, self._identities[name], self._telemetry.observe_pairs
            )

        return replace(
            workers,
            similarity={
                name: worker if name in LEXICAL else remembering(worker, f"similarity-{name}")
                for name, worker in workers.similarity.items()
            },
            nli=None if workers.nli is None else remembering(workers.nli, "nli"),
        )

    def _observe(self, scored: Scored, response: GenerateResponse, source: Source) -> None:
        telemetry = self._telemetry
        if source == "computed":  # whoever joined cost nothing
            telemetry.observe_generation(scored.computed.generation, response.timing_ms)
        telemetry.observe_samples(response.num_samples, response.num_distinct_samples)
        telemetry.observe_scores(scored.scores)
        if response.probe is not None:
            telemetry.observe_probe(response.probe.out_of_domain)


async def _score(
    names: Iterable[str], computed: Computed
) -> tuple[dict[str, float | None], dict[str, str]]:
    evidence = computed.evidence
    if _SLOW.isdisjoint(names):
        return score(names, evidence.statistics, evidence.absent)
    return await asyncio.to_thread(score, names, evidence.statistics, evidence.absent)


async def _generate(
    plan: Plan, request: GenerateRequest | ScoreRequest, workers: Workers
) -> tuple[GenerationRequest | None, Generation]:
    """What the engine was asked, None where it was not, and the generation.

    What the client brought is in its place in the generation.
    """
    if not isinstance(request, ScoreRequest):
        asked = generation_request(request, plan.engine_statistics)
        return asked, await workers.generation.generate(asked)
    compared_text = without_reasoning(request.answer).strip()
    if request.prompt is None and request.messages is None:
        answer = Sequence(request.answer, compared_text, (), "given")
        return None, Generation(
            answer, _given_samples(request), prompt_tokens=0, seed=0, model_id=""
        )
    statistics = plan.engine_statistics - (
        SAMPLE_STATISTICS if request.samples is not None else frozenset()
    )
    answer_ids = await workers.generation.engine.encode_answer(
        request.answer, append_eos=request.append_eos
    )
    asked = generation_request(request, statistics, answer_ids)
    generation = await workers.generation.generate(asked)
    answer = replace(generation.answer, text=request.answer, compared_text=compared_text)
    return asked, replace(
        generation, answer=answer, samples=_given_samples(request) or generation.samples
    )


def _given_samples(request: ScoreRequest) -> tuple[Sequence, ...]:
    return tuple(
        Sequence(
            text=sample.text,
            compared_text=without_reasoning(sample.text).strip(),
            token_ids=(),
            finish_reason="given",
            token_logprobs=None
            if sample.token_logprobs is None
            else np.array(sample.token_logprobs),
        )
        for sample in request.samples or ()
    )


def _check_similarity(request: GenerateRequest | ScoreRequest, workers: Workers) -> None:
    if request.similarity is not None and request.similarity not in workers.similarity:
        raise InvalidRequest(
            f"must be one of {', '.join(sorted(workers.similarity))}", field="similarity"
        )


def _sources(request: ScoreRequest, supplied: frozenset[str]) -> frozenset[str]:
    """What can be read: without a prompt no model is asked.

    Samples that a client brings have texts, and maybe log-probs.
    """
    sources = (
        supplied - PROBE_STATISTICS
        if request.prompt is not None or request.messages is not None
        else frozenset()
    )
    if request.samples is None:
        return sources
    brought = {"sample_texts"}
    if all(sample.token_logprobs is not None for sample in request.samples):
        brought.add("sample_token_logprobs")
    return (sources - SAMPLE_STATISTICS) | brought
