"""A sentence-transformers cross-encoder with one label: do two answers mean the same?"""

import logging
from collections.abc import Sequence
from typing import Any, Self

import torch

from models.checkpoints import load_named, pick_device, tokenizer_fingerprint
from models.embedded import CROSS_ENCODER_DIR
from models.errors import ModelNotLoaded
from models.pretrained import AutoTokenizer
from models.records import Pair
from models.similarity.classifier import PairClassifier
from models.similarity.protocol import PairModel, PairScores, SimilarityConfig

logger = logging.getLogger(__name__)

# Logits that no checkpoint exceeds.
_LOGITS = torch.linspace(-100.0, 100.0, 2001)[:, None]


class CrossEncoderModel:
    """Scores in [0, 1] by the checkpoint's own activation, a sigmoid where it names none.

    Raises:
        ModelNotLoaded: the activation gives other numbers, too.
    """

    labels: tuple[str, ...] = ("similarity",)

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        activation: Any,
        max_length: int,
        *,
        model_id: str,
        revision: str,
    ) -> None:
        if model.config.num_labels != 1:
            raise ValueError(
                f"{model_id} has {model.config.num_labels} labels; "
                "a cross-encoder for similarity has one"
            )
        self.model_id = model_id
        self.revision: str | None = revision
        if isinstance(activation, torch.nn.Identity):  # so most rerankers: whoever reads them ranks
            logger.info("%s gives logits: a sigmoid makes similarities of them", model_id)
            activation = torch.nn.Sigmoid()
        _check_bounded(activation)
        name = getattr(activation, "__qualname__", repr(activation))
        self.flags: tuple[str, ...] = (str(model.dtype), name, tokenizer_fingerprint(tokenizer))
        self.max_length: int | None = max_length
        self._classifier = PairClassifier(model, tokenizer, max_length)
        self._activation = activation

    @classmethod
    def load(cls, config: SimilarityConfig) -> Self:
        """Load the checkpoint; blocks. Only safetensors, never remote code."""
        embedded = {"embedded": CROSS_ENCODER_DIR}
        model, path, options, names = load_named(
            config.model, config.revision, embedded, "classifier", config.dtype
        )
        device = pick_device(config.device)
        if config.model == "embedded":
            tokenizer = AutoTokenizer.from_pretrained(path, **options)
            longest = model.config.max_position_embeddings
            return cls(model.to(device), tokenizer, torch.nn.Sigmoid(), longest, **names)
        # Knows activation and length of each kind of checkpoint, does not tell of missing weights,
        # and its import is a tenth of the start, which the embedded model need not pay.
        from sentence_transformers import CrossEncoder

        loading = {"dtype": model.dtype, "use_safetensors": True}
        del model  # was only to see that no weight is missing
        encoder = CrossEncoder(path, device=device, model_kwargs=loading, **options)
        tokenizer = encoder.tokenizer
        longest = int(encoder.max_seq_length or tokenizer.model_max_length)
        return cls(encoder.model, tokenizer, encoder.activation_fn, longest, **names)

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        logits, truncated = self._classifier.logits(pairs)
        return PairScores(self._activation(logits).double().numpy(), truncated)

    def fit_contexts(self, texts: Sequence[Pair]) -> list[str]:
        return self._classifier.fit_contexts(texts)


def _check_bounded(activation: Any) -> None:
    values = activation(_LOGITS)
    is_bounded = values.shape == _LOGITS.shape and ((values >= 0.0) & (values <= 1.0)).all()
    if not is_bounded or values[0] >= values[-1]:
        raise ModelNotLoaded(
            "has an activation that makes no similarities in [0, 1] of logits: name a sigmoid in "
            "its config.json, as sentence_transformers.activation_fn"
        )


_: type[PairModel] = CrossEncoderModel  # mypy holds the class to its protocol
