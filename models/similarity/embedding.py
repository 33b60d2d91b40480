"""A sentence-transformers encoder of single texts, whose vectors are compared."""

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from transformers.utils.hub import cached_file

from models.checkpoints import load_named, pick_device, tokenizer_fingerprint
from models.errors import ModelLost, ModelNotLoaded
from models.records import Array, Pair
from models.similarity.contexts import fit_contexts, token_offsets
from models.similarity.protocol import PairModel, PairScores, SimilarityConfig
from models.similarity.vectors import Cosines

# Texts of one forward pass.
_FORWARD_TEXTS = 64


class EmbeddingModel:
    """`Cosines` of the embeddings of two texts, by a floor of the encoder's own.

    Each distinct text of a call is read once, however many pairs it is in.

    Raises:
        ModelNotLoaded: its vectors distinguish no texts.
    """

    labels: tuple[str, ...] = ("similarity",)

    def __init__(self, encoder: Any, *, model_id: str, revision: str) -> None:
        self.model_id = model_id
        self.revision: str | None = revision
        self._encoder = encoder
        self._tokenizer = encoder.tokenizer
        longest = int(encoder.max_seq_length or self._tokenizer.model_max_length)
        self._budget = longest - self._tokenizer.num_special_tokens_to_add(pair=False)
        self.max_length: int | None = 2 * longest  # of two texts that are read apart
        try:
            self._cosines = Cosines.of(self._vectors(Cosines.UNLIKE))
        except KeyError as error:
            raise ModelNotLoaded(f"makes no {error} of a text: it has no pooling") from None
        except ValueError as error:
            raise ModelNotLoaded(str(error)) from None
        modules = [type(module).__name__ for module in encoder]
        tokens = tokenizer_fingerprint(self._tokenizer)
        floor = str(self._cosines.floor)
        self.flags: tuple[str, ...] = (str(encoder.dtype), *modules, floor, tokens)

    @classmethod
    def load(cls, config: SimilarityConfig) -> Self:
        """Load the checkpoint; blocks. Only safetensors, never remote code."""
        _check_kind(config.model, config.revision)
        model, path, options, names = load_named(
            config.model, config.revision, {}, "embedding", config.dtype
        )
        loading = {"dtype": model.dtype, "use_safetensors": True}
        del model  # was only to see that no weight is missing
        from sentence_transformers import SentenceTransformer

        device = pick_device(config.device)
        encoder = SentenceTransformer(path, device=device, model_kwargs=loading, **options)
        return cls(encoder, **names)

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        if not pairs:
            return PairScores(np.zeros((0, 1)), np.zeros(0, dtype=bool))
        texts = list(dict.fromkeys(chain.from_iterable(pairs)))
        rows = {text: row for row, text in enumerate(texts)}
        vectors = self._vectors(texts)
        sizes = np.array([len(tokens) for tokens in token_offsets(self._tokenizer, texts)])
        first, second = np.array([(rows[a], rows[b]) for a, b in pairs]).T
        values = self._cosines.between(vectors[first], vectors[second])
        is_cut = sizes > self._budget
        return PairScores(values[:, None], is_cut[first] | is_cut[second])

    def fit_contexts(self, texts: Sequence[Pair]) -> list[str]:
        return fit_contexts(self._tokenizer, texts, self._budget)

    def _vectors(self, texts: Sequence[str]) -> Array:
        """The vector of each text, (N, d)."""
        try:
            vectors = self._encoder.encode(
                list(texts), batch_size=_FORWARD_TEXTS, show_progress_bar=False
            )
        except torch.AcceleratorError as error:
            raise ModelLost(type(error).__name__) from error
        return np.asarray(vectors, dtype=np.float64)


def _check_kind(model: str, revision: str | None) -> None:
    """Refuse a checkpoint that makes other vectors than a transformer's, one dense one of a text.

    Raises:
        ModelNotLoaded: its files name another class of sentence-transformers, or another module.
    """
    read = {}
    for name in ("config_sentence_transformers.json", "modules.json"):
        file = cached_file(
            model, name, revision=revision, _raise_exceptions_for_missing_entries=False
        )
        read[name] = json.loads(Path(file).read_text(encoding="utf-8")) if file else {}
    saved, modules = read.values()
    kind = saved.get("model_type", "SentenceTransformer")
    if kind == "SentenceTransformer" and modules:
        kind = modules[0]["type"].rpartition(".")[-1]
    if kind not in ("SentenceTransformer", "Transformer"):
        raise ModelNotLoaded(
            f"is a {kind} of sentence-transformers, which is not served here: name an encoder that "
            "is a SentenceTransformer and begins with a Transformer"
        )


_: type[PairModel] = EmbeddingModel  # mypy holds the class to its protocol
