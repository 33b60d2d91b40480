"""Pure: distances from a set of features, fitted to them, and as they are written."""

from dataclasses import fields, replace
from io import BytesIO

import numpy as np

from models.probes.domain import FORMAT, Distance, PromptDomain
from models.records import Array

MAX_COMPONENTS = 64


def fit_distance(training: Array, held_out: Array) -> Distance:
    """From rows (N, d) of the training set, and percentiles from rows (K, d) of none of it."""
    mean = training.mean(axis=0, dtype=np.float64)
    _, singular, rows = np.linalg.svd(training - mean, full_matrices=False)
    variances = singular**2 / max(1, len(training) - 1)
    rank = min(MAX_COMPONENTS, int((variances > 1e-10 * max(variances[0], 1e-300)).sum()) or 1)
    others = training.shape[1] - rank
    floor = max(1e-6 * variances[0], 1e-12)  # a direction that never varied must not decide alone
    residual = np.inf
    if others:
        residual = max(variances[rank:].sum() / others, floor)
    along = np.maximum(variances[:rank], floor)
    fitted = Distance(mean, rows[:rank], along, np.array(residual), np.zeros(101))
    return replace(fitted, percentiles=np.percentile(fitted.of(held_out), np.arange(101)))


def arrays_of(distance: Distance) -> dict[str, Array]:
    """Named arrays, as `Distance.from_arrays` takes them."""
    arrays = {}
    for one in fields(distance):
        arrays[one.name] = np.asarray(getattr(distance, one.name), dtype=np.float32)
    return arrays


def domain_to_bytes(domain: PromptDomain) -> bytes:
    """A file as `PromptDomain.load` reads it: arrays of numpy."""
    arrays: dict[str, Array] = {}
    for number, kind in enumerate(domain.kinds):
        for name, array in arrays_of(kind).items():
            arrays[f"{number}.{name}"] = array
    content = BytesIO()
    about = {"format": FORMAT, "generator": domain.generator, "layer": domain.layer}
    np.savez(content, **about, **arrays)  # type: ignore[arg-type]  # its stub has one keyword
    return content.getvalue()
