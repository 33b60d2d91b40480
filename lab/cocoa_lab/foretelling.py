"""What a run of `cocoa evaluate` will cost, before any model is loaded."""

from cocoa_lab.evaluation import EvaluationSpec
from cocoa_lab.recordings import read
from models.estimators import known_estimators
from models.records import SamplingParams
from models.statistics import supplied_by

_DEAR = supplied_by("question") | {"token_relevance", "sample_token_relevance"}


def num_recorded(spec: EvaluationSpec) -> int:
    """How many of the run's prompts are in its file already."""
    if not spec.generations.exists():
        return 0
    _, recordings = read(spec.generations)
    return sum(example.id in recordings for example in spec.examples)


def foretold(spec: EvaluationSpec) -> str:
    """What a run will cost: texts that are written, and estimators that take more than they do."""
    recorded = num_recorded(spec)
    left = len(spec.examples) - recorded
    if spec.rescore or not left:
        told = f"scores what is there of {recorded} prompts; no model writes"
    else:
        samples = max(spec.draws or [SamplingParams().num_samples])
        texts = left * (1 + samples)
        told = (
            f"{left} prompts, an answer and {samples} samples each: the model writes {texts} texts"
        )
    for name in spec.estimators or ():
        estimator = known_estimators()[name]
        if estimator.needs & _DEAR:
            told += f"\n{name} costs for each of them: {estimator.cost}"
    return told
