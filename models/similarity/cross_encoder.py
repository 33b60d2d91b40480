"""A sentence-transformers cross-encoder with one label: do two answers mean the same?"""

from collections.abc import Sequence
from itertools import starmap
from typing import Any, Self

import torch
from sentence_transformers import CrossEncoder
from transformers import AutoModelForSequenceClassification

from models.checkpoints import (
    load_whole,
    pick_device,
    ready_to_load,
    revision_of,
    tokenizer_fingerprint,
)
from models.embedded import CROSS_ENCODER_DIR
from models.locations import public_name
from models.records import Pair, PairScores
from models.similarity.classifier import PairClassifier
from models.similarity.protocol import ContextAndText, PairModel, SimilarityConfig


class CrossEncoderModel:
    """Scores in [0, 1] by the checkpoint's own activation, a sigmoid where it names none."""

    labels: tuple[str, ...] = ("similarity",)

    def __init__(self, encoder: CrossEncoder, *, model_id: str, revision: str) -> None:
        if encoder.num_labels != 1:
            raise ValueError(
                f"{model_id} has {encoder.num_labels} labels; "
                "a cross-encoder for similarity has one"
            )
        self.model_id = model_id
        self.revision: str | None = revision
        function = encoder.activation_fn
        activation = getattr(function, "__qualname__", repr(function))
        tokenizer = tokenizer_fingerprint(encoder.tokenizer)
        self.flags: tuple[str, ...] = (str(encoder.dtype), activation, tokenizer)
        self.max_length: int | None = int(
            encoder.max_seq_length or encoder.tokenizer.model_max_length
        )
        self._classifier = PairClassifier(encoder.model, encoder.tokenizer, self.max_length)
        self._activation: Any = encoder.activation_fn

    @classmethod
    def load(cls, config: SimilarityConfig) -> Self:
        """Load the checkpoint; blocks. Only safetensors, never remote code."""
        path, options = ready_to_load(
            config.model, config.revision, {"embedded": CROSS_ENCODER_DIR}, "classifier"
        )
        # Only to see that no weight is missing, which the encoder's own loading does not tell.
        load_whole(AutoModelForSequenceClassification, path, **options)
        encoder = CrossEncoder(
            path,
            device=pick_device(config.device),
            model_kwargs={"dtype": getattr(torch, config.dtype), "use_safetensors": True},
            **options,
        )
        return cls(
            encoder, model_id=public_name(config.model), revision=revision_of(encoder.model, path)
        )

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        logits, truncated = self._classifier.logits(pairs)
        return PairScores(self._activation(logits).double().numpy(), truncated)

    def fit_contexts(self, texts: Sequence[ContextAndText]) -> list[str]:
        return list(starmap(self._classifier.fit_context, texts))


_: type[PairModel] = CrossEncoderModel  # mypy holds the class to its protocol
