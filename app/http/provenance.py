"""Where the scores of a result come from."""

from typing import Any

from app.http.provenance_schemas import EntropySplit, ModelInfo, ProbeInfo, Provenance
from app.scoring.result import Result
from models.estimators import consistency_std_error
from models.records import Generation
from workers import protocol
from workers.protocol import ComparerInfo, GeneratorInfo


def provenance_of(result: Result) -> Provenance:
    """All that is known of what stands behind the scores."""
    plan, judgement = result.plan, result.judgement
    known: dict[str, Any] = {
        "mode": result.ask.mode,
        "strategy": plan.strategy,
        "answer_sample": result.evidence.subject.answer_sample,
        "degraded": plan.degraded,
        "percentile": judgement.percentile,
        "calibrator": judgement.calibrator,
        "found_mass": result.found_mass,
        "entropy_method": result.entropy_method,
        "mte_bounds": result.mte_bounds and list(result.mte_bounds),
        "probe": _probe(result),
        "entropy_split": split_of(result.entropy_probe),
    }
    known |= _models(result) | _samples(result)
    if plan.strategy == "given":
        known["retokenized"] = result.is_read
    return Provenance(**{name: value for name, value in known.items() if value is not None})


def model_info(info: Generation | GeneratorInfo | ComparerInfo) -> ModelInfo:
    """Which weights spoke."""
    return ModelInfo(id=info.model_id, revision=info.revision)


def split_of(probe: protocol.ProbeInfo | None) -> EntropySplit | None:
    """Above which entropy the probe counts it as high; None for other probes, or none."""
    if probe is None or probe.split is None:
        return None
    return EntropySplit(nats=probe.split, base_rate=probe.base_rate)


def _models(result: Result) -> dict[str, Any]:
    """Which were asked."""
    known: dict[str, Any] = {}
    if result.generation is not None:
        known["model"] = model_info(result.generation)
        if result.is_read:
            known["answer_form"] = result.generation.answer_form
    if result.plan.asks_similarity:
        known["similarity"] = result.plan.similarity
        known["similarity_model"] = model_info(result.comparer)
    if result.plan.reads("nli") and result.nli is not None:
        known["nli_model"] = model_info(result.nli)
    return known


def _samples(result: Result) -> dict[str, Any]:
    """What is known of the samples, where there are any."""
    if not result.evidence.subject.samples:
        return {}
    known: dict[str, Any] = {
        "samples_source": result.samples_source,
        "num_samples": len(result.evidence.subject.samples),
        "num_distinct_samples": result.num_distinct_samples,
        "stopped_by": result.stopped_by,
    }
    if result.generation is not None and result.samples_source == "model":
        known["seed"] = result.generation.seed
    if "similarity" in result.evidence.statistics:
        known["consistency_std_error"] = consistency_std_error(
            result.evidence.statistics["similarity"]
        )
    return known


def _probe(result: Result) -> ProbeInfo | None:
    if result.probe is None:
        return None
    probe, reading = result.probe
    return ProbeInfo(
        id=probe.id,
        training_set=probe.training_set,
        distance_percentile=reading.distance_percentile,
        out_of_domain=reading.out_of_domain,
    )
