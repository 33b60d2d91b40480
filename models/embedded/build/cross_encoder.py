"""The small BERT that judges whether two answers mean the same.

Its shape, its training and its quality.
"""

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from models.embedded.build.pairs import Pair, make_pairs, sources
from models.embedded.build.tokenizer import CONTEXT_TOKENS
from models.embedded.build.training import Schedule, train


class _TwoTexts(Protocol):
    @property
    def first(self) -> str: ...

    @property
    def second(self) -> str: ...


TwoTexts = TypeVar("TwoTexts", bound=_TwoTexts)

# Weight of (s(a, b) - s(b, a))² beside the cross-entropy.
SYMMETRY_WEIGHT = 2.0


@dataclass(frozen=True, slots=True)
class CrossEncoderShape:
    hidden: int = 128
    layers: int = 4
    heads: int = 4
    feed_forward: int = 384


def new_cross_encoder(
    tokenizer: PreTrainedTokenizerFast, shape: CrossEncoderShape, seed: int
) -> BertForSequenceClassification:
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        max_position_embeddings=CONTEXT_TOKENS,
        # There is more training data than can be repeated: nothing to regularise.
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.04,
        num_labels=1,  # type: ignore[call-arg]
        pad_token_id=tokenizer.pad_token_id,
        sentence_transformers={"activation_fn": "torch.nn.modules.activation.Sigmoid"},
    )
    model = BertForSequenceClassification(config)
    _compare_contents(model)
    return model


@torch.no_grad()
def _compare_contents(model: BertForSequenceClassification) -> None:
    """Starts two heads of the first two layers with queries equal to keys.

    With them a token looks for its like.

    From a random start the same loss stands at ln 2 for some 200 steps before such heads form by
    themselves; with this it is at 0.32 after 250 steps, and at 0.61 without (at a learning rate a
    quarter lower).
    """
    model.bert.embeddings.position_embeddings.weight.mul_(0.3)
    layers: Any = model.bert.encoder.layer
    for layer in layers[:2]:
        attention = layer.attention.self
        width = attention.attention_head_size
        for head in range(2):
            rows = slice(head * width, (head + 1) * width)
            projection = 1.2 * nn.init.orthogonal_(torch.empty(width, model.config.hidden_size))
            attention.query.weight[rows] = projection
            attention.key.weight[rows] = projection


def _logits(
    model: BertForSequenceClassification,
    tokenizer: PreTrainedTokenizerFast,
    texts: Sequence[tuple[str, str]],
) -> Tensor:
    firsts, seconds = [a for a, _ in texts], [b for _, b in texts]
    encoded = tokenizer(
        firsts,
        seconds,
        padding=True,
        truncation=True,
        max_length=CONTEXT_TOKENS,
        return_tensors="pt",
    )
    logits: Tensor = model(**encoded).logits[:, 0]  # (B,)
    return logits


def pair_loss(
    model: BertForSequenceClassification, tokenizer: PreTrainedTokenizerFast, pairs: Sequence[Pair]
) -> Tensor:
    """Summed binary cross-entropy of both orders, plus the penalty for scoring them differently."""
    logits = _logits(
        model,
        tokenizer,
        [(p.first, p.second) for p in pairs] + [(p.second, p.first) for p in pairs],
    )
    labels = torch.tensor([float(pair.same) for pair in pairs])
    there, back = logits.chunk(2)
    loss = (
        binary_cross_entropy_with_logits(logits, torch.cat([labels, labels]), reduction="sum") / 2
    )
    return loss + SYMMETRY_WEIGHT * (there.sigmoid() - back.sigmoid()).square().sum()


def of_like_length(pairs: Sequence[TwoTexts]) -> Iterator[Sequence[TwoTexts]]:
    """Pairs sorted by length, in groups.

    A group is cut where its longest pair is a third longer than its shortest.
    """
    lengths = [len(pair.first) + len(pair.second) for pair in pairs]
    start = 0
    for end in range(1, len(pairs) + 1):
        wide = end < len(pairs) and lengths[end] > 1.35 * lengths[start] + 8
        if wide or end == len(pairs):
            yield pairs[start:end]
            start = end


def train_cross_encoder(
    tokenizer: PreTrainedTokenizerFast,
    schedule: Schedule,
    *,
    batch_size: int = 64,
    shape: CrossEncoderShape | None = None,
    seed: int = 0,
    checkpoint: Path | None = None,
) -> tuple[BertForSequenceClassification, list[float], float]:
    """The trained model, the loss of every step (nats per pair), and the seconds that it took."""
    model = new_cross_encoder(tokenizer, shape or CrossEncoderShape(), seed)
    source = sources("train")

    def losses_of(step: int) -> Iterator[Tensor]:
        # Seeded by the step, so that a resumed training sees what an unbroken one would have seen.
        pairs = make_pairs(source, batch_size, random.Random(f"{seed}:{step}"))  # noqa: S311, a corpus is no secret
        pairs.sort(key=lambda pair: len(pair.first) + len(pair.second))
        for part in of_like_length(pairs):
            yield pair_loss(model, tokenizer, part) / batch_size

    started = time.monotonic()
    losses = train(model, losses_of, schedule, checkpoint)
    return model, losses, time.monotonic() - started


@torch.inference_mode()
def scores(
    model: BertForSequenceClassification,
    tokenizer: PreTrainedTokenizerFast,
    texts: Sequence[tuple[str, str]],
) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Probability that each pair means the same, (N,) in [0, 1]."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i][0]) + len(texts[i][1]))
    found = np.zeros(len(texts), dtype=np.float32)
    for start in range(0, len(order), 64):
        part = order[start : start + 64]
        found[part] = _logits(model, tokenizer, [texts[i] for i in part]).sigmoid().numpy()
    return found


def pair_quality(
    model: BertForSequenceClassification, tokenizer: PreTrainedTokenizerFast, pairs: Sequence[Pair]
) -> dict[str, Any]:
    """ROC-AUC over all pairs and by family, and how far the two orders of a pair lie apart."""
    there = scores(model, tokenizer, [(p.first, p.second) for p in pairs])
    back = scores(model, tokenizer, [(p.second, p.first) for p in pairs])
    same = np.array([pair.same for pair in pairs])
    family = np.array([pair.family for pair in pairs])
    gap = np.abs(there - back)
    return {
        "pairs": len(pairs),
        "auc": round(float(roc_auc_score(same, there)), 4),
        "auc_by_family": {
            f: round(float(roc_auc_score(same[family == f], there[family == f])), 4)
            for f in sorted(set(family.tolist()))
            if 0 < same[family == f].sum() < (family == f).sum()
        },
        "accuracy_at_half": round(float(((there > 0.5) == same).mean()), 4),
        "symmetry_gap_mean": round(float(gap.mean()), 4),
        "symmetry_gap_p95": round(float(np.quantile(gap, 0.95)), 4),
    }
