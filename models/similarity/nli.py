"""Natural language inference of the DeBERTa-MNLI family, and similarity by it."""

from collections.abc import Sequence
from typing import Any, Literal, Self

import torch

from models.checkpoints import load_named, pick_device, tokenizer_fingerprint
from models.embedded import NLI_DIR
from models.pretrained import AutoTokenizer
from models.records import Pair
from models.similarity.classifier import PairClassifier
from models.similarity.protocol import NLI_LABELS, NliConfig, NliPairModel, PairModel, PairScores


class NliModel:
    """Probabilities of entailment, neutral and contradiction, in this order.

    They are judgements of the second text given the first.
    """

    labels: tuple[str, ...] = NLI_LABELS

    def __init__(self, model: Any, tokenizer: Any, *, model_id: str, revision: str) -> None:
        self.model_id = model_id
        self.revision: str | None = revision
        names = str(sorted(model.config.id2label.items()))
        self.flags: tuple[str, ...] = (str(model.dtype), tokenizer_fingerprint(tokenizer), names)
        longest = min(tokenizer.model_max_length, model.config.max_position_embeddings)
        self.max_length: int | None = int(longest)
        self._columns = label_columns(model.config.id2label)
        self._classifier = PairClassifier(model, tokenizer, self.max_length)

    @classmethod
    def load(cls, config: NliConfig) -> Self:
        """Load the checkpoint; blocks. Never remote code."""
        embedded = {"embedded": NLI_DIR}
        model, path, options, names = load_named(
            config.model, config.revision, embedded, "classifier", config.dtype
        )
        tokenizer = AutoTokenizer.from_pretrained(path, **options)
        return cls(model.to(pick_device(config.device)), tokenizer, **names)

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        logits, truncated = self._classifier.logits(pairs)
        values = torch.softmax(logits.double(), dim=-1)[:, self._columns]
        return PairScores(values.numpy(), truncated)

    def fit_contexts(self, texts: Sequence[Pair]) -> list[str]:
        return self._classifier.fit_contexts(texts)

    def token_ends(self, texts: Sequence[str]) -> list[list[int]]:
        return self._classifier.token_ends(texts)


class EntailmentModel:
    """p(entailment), or 1 - p(contradiction), of an NLI model.

    The NLI model is shared and not loaded again.
    """

    labels: tuple[str, ...] = ("similarity",)

    def __init__(
        self, nli: PairModel, kind: Literal["entailment", "contradiction"] = "entailment"
    ) -> None:
        self.model_id = nli.model_id
        self.revision = nli.revision
        self.max_length = nli.max_length
        self.flags = (kind, *nli.flags)
        self._nli = nli
        self._kind = kind

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        scores = self._nli.score(pairs)
        column = scores.values[:, [self._nli.labels.index(self._kind)]]
        if self._kind == "contradiction":
            column = 1.0 - column
        return PairScores(column, scores.truncated)

    def fit_contexts(self, texts: Sequence[Pair]) -> list[str]:
        return self._nli.fit_contexts(texts)


def label_columns(id2label: dict[int, str]) -> list[int]:
    """Columns of the logits in the order of NLI_LABELS, by the config's own names.

    Checkpoints disagree on the order.

    Raises:
        ValueError: the names do not show which is which.

    >>> label_columns({0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"})
    [2, 1, 0]
    """
    columns = []
    for label in NLI_LABELS:
        for i, name in id2label.items():
            if name.lower().startswith(label[:6]):
                columns.append(int(i))
    if sorted(columns) != list(range(len(NLI_LABELS))) or len(id2label) != len(NLI_LABELS):
        names = sorted(id2label.values())
        raise ValueError(f"labels {names} are not entailment, neutral and contradiction")
    return columns


# mypy holds them to their protocols
_nli: type[NliPairModel] = NliModel
_: type[PairModel] = EntailmentModel
