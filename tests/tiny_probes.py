"""Probes with random weights for the fake engine, and for whatever else a test names."""

import numpy as np
import torch

from cocoa_lab.distances import fit_distance
from cocoa_lab.probes.from_collection import save
from cocoa_lab.probes.layer_training import standardise
from models.probes.card import TOKEN_FEATURES, Card, pooling_of
from models.probes.probe import ProbeNetwork, TrainedProbe

FAKE = {"model_id": "fake", "revision": "1", "dimension": 8}


def random_probe(
    target="inconsistency", *, layer=2, shift=0.0, seed=0, token_features=TOKEN_FEATURES, **model
):
    """A probe of a model; its training set lies `shift` away from standard normal features."""
    model = FAKE | model
    rng = np.random.default_rng(seed)
    width = model["dimension"] + len(token_features)
    rows = rng.standard_normal((300, width)) + shift
    card = Card(
        target=target,
        dtype="float32",
        layer=layer,
        token_features=token_features,
        architecture="small",
        training_set="prompts.jsonl",
        sizes={"training": 240, "validation": 30, "test": 30},
        tasks=("facts",),
        sampling={
            "num_samples": 10,
            "temperature": 1.0,
            "top_k": 50,
            "top_p": 1.0,
            "max_new_tokens": 64,
        },
        compared_by={"similarity": "fake"},
        split=0.5 if target == "semantic_entropy" else None,
        hyperparameters={},
        seed=seed,
        metrics={},
        pooling=pooling_of(target),
        **model,
    )
    torch.manual_seed(seed)
    network = ProbeNetwork("small", target, width)
    standardise(network, torch.from_numpy(rows).float())
    return TrainedProbe(card, network, fit_distance(rows[:200], rows[200:]))


def saved(folder, target="inconsistency", **kwargs):
    """Path of a folder with such a probe, as a setting names it."""
    save(random_probe(target, **kwargs), folder / target)
    return str(folder / target)
