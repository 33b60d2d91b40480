"""The small BERT that judges whether two answers mean the same: shape, training and quality."""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import DataLoader, Dataset
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from cocoa_lab.embedded.pairs import Pair, make_pairs, sources
from cocoa_lab.embedded.tokenizer import CONTEXT_TOKENS
from cocoa_lab.embedded.training import Schedule, train


class _TwoTexts(Protocol):
    @property
    def first(self) -> str: ...

    @property
    def second(self) -> str: ...


Texts = tuple[str, str]
Encoded = dict[str, NDArray[np.int64]]
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
        # No dropout: training pairs are generated and hardly ever repeat.
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
    """Starts two heads in each of the first two layers with queries equal to keys.

    In such a head a token attends to tokens equal to itself. From a random start the loss stays at
    ln 2 for some 200 steps until such heads form. After 250 steps it is 0.32 with this start and
    0.61 without it (at a learning rate a quarter lower).
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


def both_orders(pairs: Sequence[_TwoTexts]) -> tuple[list[Texts], list[Texts]]:
    """The texts of pairs as they stand, and swapped."""
    in_order = [(pair.first, pair.second) for pair in pairs]
    return in_order, [(second, first) for first, second in in_order]


def encode(tokenizer: PreTrainedTokenizerFast, texts: Sequence[Texts]) -> Encoded:
    """Pairs of texts as a model reads them: token ids, types and mask, (B, T) each."""
    firsts, seconds = map(list, zip(*texts, strict=True))
    encoded = tokenizer(
        firsts,
        seconds,
        padding=True,
        truncation=True,
        max_length=CONTEXT_TOKENS,
        return_tensors="np",
    )
    return dict(encoded)


def encoded_logits(model: BertForSequenceClassification, encoded: Encoded) -> Tensor:
    """Logits (B, K) of pairs of texts, on the model's device."""
    inputs = {name: torch.from_numpy(ids).to(model.device) for name, ids in encoded.items()}
    logits: Tensor = model(**inputs).logits
    return logits


def pair_logits(
    model: BertForSequenceClassification,
    tokenizer: PreTrainedTokenizerFast,
    texts: Sequence[Texts],
) -> Tensor:
    """Logits (B, K) of pairs of texts."""
    return encoded_logits(model, encode(tokenizer, texts))


@torch.inference_mode()
def in_batches(
    model: BertForSequenceClassification,
    tokenizer: PreTrainedTokenizerFast,
    texts: Sequence[Texts],
    activation: Callable[[Tensor], Tensor],
) -> NDArray[np.float32]:
    """Activations (N, K) of the logits of pairs; those of like length share a batch."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i][0]) + len(texts[i][1]))
    rows = np.zeros((len(texts), model.classifier.out_features), dtype=np.float32)
    for start in range(0, len(order), 64):
        batch = order[start : start + 64]
        logits = pair_logits(model, tokenizer, [texts[i] for i in batch])
        rows[batch] = activation(logits).cpu().numpy()
    return rows


@dataclass(frozen=True, slots=True)
class Group:
    """Pairs of like length, as a model reads them in training.

    encoded: (B, T), or where they are read `in_both_orders` (2B, T), the swapped ones last.
    labels: (B,).
    """

    encoded: Encoded
    labels: NDArray[Any]
    in_both_orders: bool


def groups_of(
    tokenizer: PreTrainedTokenizerFast,
    pairs: Iterable[TwoTexts],
    label_of: Callable[[TwoTexts], float],
    *,
    in_both_orders: bool = True,
    spread: float = 1.35,
) -> list[Group]:
    """Groups of pairs whose lengths differ by a factor of `spread` at most, and 8 characters."""
    groups: list[Group] = []
    for part in of_like_length(sorted(pairs, key=_length), spread):
        texts, swapped = both_orders(part)
        if in_both_orders:
            texts = texts + swapped
        labels = np.array([label_of(pair) for pair in part])
        groups.append(Group(encode(tokenizer, texts), labels, in_both_orders))
    return groups


def _length(pair: _TwoTexts) -> int:
    return len(pair.first) + len(pair.second)


def of_like_length(pairs: Sequence[TwoTexts], spread: float) -> Iterator[Sequence[TwoTexts]]:
    """Groups of pairs of like length; `pairs` is sorted by length.

    A group ends before a pair longer than `spread` times its shortest and 8 characters.
    """
    start = 0
    for end in range(1, len(pairs) + 1):
        is_last = end == len(pairs)
        if is_last or _length(pairs[end]) > spread * _length(pairs[start]) + 8:
            yield pairs[start:end]
            start = end


def judge_loss(logits: Tensor, group: Group) -> Tensor:
    """Summed binary cross-entropy of both orders, plus the penalty for scoring them differently.

    logits: (2B, 1), the swapped pairs last.
    """
    both = torch.from_numpy(group.labels).to(logits).repeat(2)
    cross_entropy = binary_cross_entropy_with_logits(logits[:, 0], both, reduction="sum") / 2
    there, back = logits.sigmoid().chunk(2)
    return cross_entropy + SYMMETRY_WEIGHT * (there - back).square().sum()


class _Steps(Dataset[list[Group]]):
    """The groups of every step; a process beside the training's may make them."""

    def __init__(self, groups_of_step: Callable[[int], list[Group]]) -> None:
        self._groups_of_step = groups_of_step

    def __getitem__(self, step: int) -> list[Group]:
        return self._groups_of_step(step)


def train_on_pairs(
    model: BertForSequenceClassification,
    groups_of_step: Callable[[int], list[Group]],
    loss_of: Callable[[Tensor, Group], Tensor],
    schedule: Schedule,
    checkpoint: Path | None = None,
    *,
    workers: int = 0,
) -> tuple[list[float], float]:
    """Trains in place, on the model's device.

    loss_of: summed loss of a group, by its logits.
    workers: processes that make the groups; 0 makes them between the steps.

    Returns the loss of every step (nats per pair), and the seconds that they took.
    """
    steps: Iterator[list[Group]] | None = None

    def losses_of(step: int) -> Iterator[Tensor]:
        nonlocal steps
        if steps is None:
            rest = range(step, schedule.steps)
            loader = DataLoader(
                _Steps(groups_of_step),
                batch_size=None,
                sampler=rest,
                num_workers=workers,
                collate_fn=_as_they_are,
            )
            steps = iter(loader)
        groups = next(steps)
        num_pairs = sum(len(group.labels) for group in groups)
        for group in groups:
            yield loss_of(encoded_logits(model, group.encoded), group) / num_pairs

    started = time.monotonic()
    losses = train(model, losses_of, schedule, checkpoint)
    return losses, time.monotonic() - started


def _as_they_are(groups: list[Group]) -> list[Group]:
    return groups


def is_same(pair: Pair) -> float:
    return float(pair.same)


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

    def groups_of_step(step: int) -> list[Group]:
        # Seeded by the step, so that a resumed training sees the pairs of an uninterrupted one.
        pairs = make_pairs(source, batch_size, random.Random(f"{seed}:{step}"))  # noqa: S311, a corpus is no secret
        return groups_of(tokenizer, pairs, is_same)

    return model, *train_on_pairs(model, groups_of_step, judge_loss, schedule, checkpoint)


def scores(
    model: BertForSequenceClassification,
    tokenizer: PreTrainedTokenizerFast,
    texts: Sequence[Texts],
) -> NDArray[np.float32]:
    """Probability that each pair means the same, (N,) in [0, 1]."""
    return in_batches(model, tokenizer, texts, torch.sigmoid)[:, 0]


def auc_by_family(pairs: Sequence[Pair], scores: NDArray[np.float32]) -> dict[str, float]:
    """ROC-AUC of `scores` for `same` in every family that has pairs of both labels."""
    same = np.array([pair.same for pair in pairs])
    families = np.array([pair.family for pair in pairs])
    aucs: dict[str, float] = {}
    for family in np.unique(families).tolist():
        members = families == family
        if 0 < same[members].sum() < members.sum():
            aucs[family] = round(float(roc_auc_score(same[members], scores[members])), 4)
    return aucs


def pair_quality(
    model: BertForSequenceClassification, tokenizer: PreTrainedTokenizerFast, pairs: Sequence[Pair]
) -> dict[str, Any]:
    """ROC-AUC over all pairs and by family, and how much the two orders of a pair differ."""
    in_order, swapped = both_orders(pairs)
    there, back = scores(model, tokenizer, in_order), scores(model, tokenizer, swapped)
    same = np.array([pair.same for pair in pairs])
    gap = np.abs(there - back)
    return {
        "pairs": len(pairs),
        "auc": round(float(roc_auc_score(same, there)), 4),
        "auc_by_family": auc_by_family(pairs, there),
        "accuracy_at_half": round(float(((there > 0.5) == same).mean()), 4),
        "symmetry_gap_mean": round(float(gap.mean()), 4),
        "symmetry_gap_p95": round(float(np.quantile(gap, 0.95)), 4),
    }
