"""Routes of operation: liveness, readiness, version, metrics, estimators."""

from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from app.http.middleware import OPS_PORT
from app.http.responses import weights_of
from app.http.routes.ops_schemas import EstimatorList, Status, Version
from app.http.service import Service
from app.scoring.ask import Ask
from app.scoring.defaults import DEFAULT_ESTIMATORS, LIGHT_ESTIMATORS
from app.settings import Settings
from models.errors import NotReady
from models.estimators import known_estimators, needs
from workers.protocol import GeneratorInfo

router = APIRouter(tags=["operation"])


@router.get("/livez")
async def livez(request: Request) -> Status:
    """200 while the process can still become or be ready."""
    service: Service = request.app.state.service
    if service.supervisor.state == "dead":
        raise NotReady("a model loop has died")
    return Status(status="alive")


@router.get("/health", include_in_schema=False)  # the path of servers of models
@router.get("/readyz")
async def readyz(request: Request) -> Status:
    """200 while requests are accepted."""
    service: Service = request.app.state.service
    service.check_ready()
    if request.app.state.is_draining:
        raise NotReady("the service is stopping")
    if details := service.ready_scorer().passing_nothing():
        return Status(status="ready", details=details)
    return Status(status="ready")


@router.get("/version", name="version", response_model=Version)
async def get_version(request: Request) -> dict[str, Any]:
    """Version, models and limits; the models are null until they are loaded."""
    service: Service = request.app.state.service
    settings: Settings = request.app.state.settings
    of_models = ("max_rows", "max_cache_tokens", "max_context_tokens", "max_pair_tokens")
    limits: dict[str, int | float | None] = {**asdict(settings.limits), **dict.fromkeys(of_models)}
    limits["admission_limit"] = settings.generation.admission_limit
    if not settings.generation.url:  # a worker elsewhere has bounds of its own
        limits["max_rows"] = settings.generation.max_rows
        limits["max_cache_tokens"] = settings.generation.max_cache_tokens
    ours = {"version": version("cocoa-serve"), "git_revision": service.git_revision}
    if service.scorer is None:
        return {**ours, "limits": limits}
    models = service.scorer.deployment().models
    generator = models.generator
    default, similarity_scorers = models.default_similarity, models.similarity_scorers
    limits["max_context_tokens"] = generator.max_context_tokens
    limits["max_pair_tokens"] = similarity_scorers[default].max_pair_tokens
    return {
        **ours,
        "model": weights_of(generator),
        "model_capabilities": dict(generator.capabilities),
        "model_takes_turns": generator.takes_turns,
        "model_self_test_tokens": generator.self_test_tokens,
        "similarity_models": {name: weights_of(info) for name, info in similarity_scorers.items()},
        "default_similarity": default,
        "nli_model": None if models.nli is None else weights_of(models.nli),
        "probes": {name: asdict(probe) for name, probe in generator.probes.items()},
        "calibrator": service.scorer.calibrator.info(models),
        "unmet": service.unmet(),
        "limits": limits,
    }


@router.get("/estimators", response_model=EstimatorList)
async def estimators(request: Request) -> dict[str, Any]:
    """Every estimator: what it is, its needs, and whether this deployment supplies them."""
    service: Service = request.app.state.service
    scorer = service.ready_scorer()
    available = scorer.available_statistics(Ask(prompt=""))
    info = scorer.workers.generator.info
    return {
        "default": DEFAULT_ESTIMATORS,
        "light": LIGHT_ESTIMATORS,
        "estimators": [_describe(name, available, info) for name in known_estimators()],
    }


@router.get("/metrics", response_class=Response)
async def metrics(request: Request) -> Response:
    """Prometheus text exposition; where keys are needed, their names at the ops port alone."""
    service: Service = request.app.state.service
    shows_keys = service.access is None or OPS_PORT in request.scope
    service.tell_served()
    text = service.telemetry.exposition(shows_keys=shows_keys)
    return Response(text, media_type=CONTENT_TYPE_LATEST)


def _describe(name: str, available: frozenset[str], info: GeneratorInfo) -> dict[str, Any]:
    """An `EstimatorInfo`."""
    estimator = known_estimators()[name]
    read = sorted(needs([name]))
    missing = sorted(needs([name]) - available)
    reason = None
    if missing:
        causes = dict.fromkeys(info.absent[need] for need in missing if need in info.absent)
        reason = "; ".join((f"{', '.join(missing)} cannot be supplied here", *causes))
    split: dict[str, float | None] | None = None
    for probed in filter(info.probes.__contains__, read):
        split = split or info.probes[probed].entropy_split
    return {
        "name": name,
        "title": estimator.title,
        "formula": estimator.formula,
        "range": estimator.range,
        "unit": estimator.unit,
        "cost": estimator.cost,
        "source": estimator.source,
        "needs": read,
        "available": not missing,
        "reason": reason,
        "split": split,
    }
