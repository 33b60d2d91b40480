"""What operators ask: liveness, readiness, version, metrics, estimators."""

from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from app.pipeline import Pipeline
from app.planning import missing_statistics
from app.schemas import (
    DEFAULT_ESTIMATORS,
    ERROR_RESPONSES,
    LIGHT_ESTIMATORS,
    EstimatorInfo,
    EstimatorList,
    LoadedProbe,
    ModelInfo,
    Status,
    Version,
)
from app.settings import Settings
from models.errors import NotReady
from models.estimators import ESTIMATORS, formula, needs

router = APIRouter(tags=["operation"])
_NOT_READY: dict[int | str, dict[str, Any]] = {503: ERROR_RESPONSES[503]}


@router.get("/livez", responses=_NOT_READY)
async def livez(request: Request) -> Status:
    """200 while the process can still become or be ready."""
    state = request.app.state.pipeline.supervisor.state
    if state == "dead":
        raise NotReady("a model loop has died")
    return Status(status="alive")


@router.get("/readyz", responses=_NOT_READY)
async def readyz(request: Request) -> Status:
    """200 while requests are accepted."""
    request.app.state.pipeline.ready_workers()
    return Status(status="ready")


@router.get("/version")
async def get_version(request: Request) -> Version:
    """Version, models and limits; the models are null until they are loaded."""
    pipeline: Pipeline = request.app.state.pipeline
    settings: Settings = request.app.state.settings
    workers = pipeline.workers
    engine = workers.generation.engine if workers else None
    nli = workers.nli.model if workers and workers.nli else None
    return Version(
        version=version("cocoa-serve"),
        model=ModelInfo(id=engine.model_id, revision=engine.revision) if engine else None,
        similarity_models={
            name: ModelInfo(id=worker.model.model_id, revision=worker.model.revision)
            for name, worker in (workers.similarity if workers else {}).items()
        },
        default_similarity=workers.default_similarity if workers else None,
        probes={
            name: LoadedProbe(id=probe.id, training_set=probe.card.training_set, layer=probe.layer)
            for name, probe in (workers.generation.probes if workers else {}).items()
        },
        nli_model=ModelInfo(id=nli.model_id, revision=nli.revision) if nli else None,
        limits={
            "max_body_bytes": settings.limits.max_body_bytes,
            "admission_limit": settings.generation.admission_limit,
            "max_rows": settings.generation.max_rows,
            "max_cache_tokens": settings.generation.max_cache_tokens,
            "max_context_tokens": engine.max_context_tokens if engine else None,
            "max_pair_tokens": workers.similarity[workers.default_similarity].model.max_length
            if workers
            else None,
        },
    )


@router.get("/estimators", responses=_NOT_READY)
async def estimators(request: Request) -> EstimatorList:
    """Every estimator with its formula, its needs, and whether this deployment can supply them."""
    available = request.app.state.pipeline.available_statistics()
    return EstimatorList(
        default=DEFAULT_ESTIMATORS,
        light=LIGHT_ESTIMATORS,
        estimators=[_describe(name, missing_statistics(name, available)) for name in ESTIMATORS],
    )


@router.get("/metrics", response_class=Response)
async def metrics(request: Request) -> Response:
    """Prometheus text exposition."""
    return Response(request.app.state.telemetry.exposition(), media_type=CONTENT_TYPE_LATEST)


def _describe(name: str, missing: list[str]) -> EstimatorInfo:
    reason = f"{', '.join(missing)} cannot be supplied here" if missing else None
    return EstimatorInfo(
        name=name,
        formula=formula(name),
        needs=sorted(needs([name])),
        available=not missing,
        reason=reason,
    )
