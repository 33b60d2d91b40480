"""Pair models by name; values are import paths, which a gateway without torch can read."""

from collections.abc import Iterable

from models.others import instead_of

# Similarity functions of their own, with weights or without; `load` takes a `SimilarityConfig`.
PAIR_MODELS: dict[str, str] = {
    "cross_encoder": "models.similarity.cross_encoder:CrossEncoderModel",
    "embedding": "models.similarity.embedding:EmbeddingModel",
    "added": "models.similarity.lexical:ADDED",
}

# Models of natural language inference; `load` takes an `NliConfig`.
NLI_MODELS: dict[str, str] = {"nli": "models.similarity.nli:NliModel"}

# The similarity function over the NLI model that is loaded: its entailment.
OVER_NLI = "nli"

# Functions whose checkpoint `SimilarityConfig.model` names.
LEARNED = ("cross_encoder", "embedding")


def not_known(name: str, known: Iterable[str]) -> str:
    """What to say of a name that is none of those that are known."""
    return instead_of(name) or f"must be one of {', '.join(known)}"
