"""The small NLI model: the cross-encoder's trained encoder under a head of three labels."""

import copy
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import BertForSequenceClassification, PreTrainedTokenizerFast

from cocoa_lab.embedded.cross_encoder import Group, groups_of, in_batches, train_on_pairs
from cocoa_lab.embedded.nli_pairs import LABELS, NliPair, make_nli_pairs, nli_sources
from cocoa_lab.embedded.training import Schedule
from cocoa_lab.embedded.world.building import world_of
from cocoa_lab.embedded.world.pairs import make_pairs, pool_of

# Weight of the squared distance between the probabilities of the two orders, beside the
# cross-entropy.
SYMMETRY_WEIGHT = 1.0
# Worlds whose names the pairs of texts use; they differ in their invented places.
NUM_WORLDS = 4


def new_nli(judge: BertForSequenceClassification, seed: int) -> BertForSequenceClassification:
    """A fresh head of three labels over a copy of the cross-encoder's encoder."""
    torch.manual_seed(seed)
    config = copy.deepcopy(judge.config)
    labels: dict[int, str] = dict(enumerate(LABELS))
    config.id2label, config.label2id = labels, {label: i for i, label in labels.items()}
    # It names the cross-encoder's sigmoid, which does not fit three labels.
    del config.sentence_transformers
    model = BertForSequenceClassification(config)
    model.bert.load_state_dict(judge.bert.state_dict())
    return model


def nli_loss(logits: Tensor, group: Group) -> Tensor:
    """Summed cross-entropy; of both orders with the penalty for judging them differently.

    logits: (2B, 3), the swapped pairs last; (B, 3) of a text and a sentence, only in that order.
    """
    labels = torch.from_numpy(group.labels).to(logits.device)
    if not group.in_both_orders:
        return cross_entropy(logits, labels, reduction="sum")
    there, back = logits.softmax(-1).chunk(2)
    loss = cross_entropy(logits, labels.repeat(2), reduction="sum") / 2
    return loss + SYMMETRY_WEIGHT * (there - back).square().sum()


def label_of(pair: NliPair) -> int:
    """The index of the pair's label."""
    return LABELS.index(pair.label)


def train_nli(
    judge: BertForSequenceClassification,
    tokenizer: PreTrainedTokenizerFast,
    schedule: Schedule,
    *,
    batch_size: int = 64,
    seed: int = 0,
    checkpoint: Path | None = None,
) -> tuple[BertForSequenceClassification, list[float], float]:
    """The trained model, the loss of every step (nats per pair), and the seconds that it took."""
    model = new_nli(judge, seed)
    source = nli_sources("train")

    def groups_of_step(step: int) -> list[Group]:
        # Seeded by the step, so that a resumed training sees the pairs of an uninterrupted one.
        pairs = make_nli_pairs(source, batch_size, random.Random(f"nli:{seed}:{step}"))  # noqa: S311, a corpus is no secret
        return groups_of(tokenizer, pairs, label_of)

    return model, *train_on_pairs(model, groups_of_step, nli_loss, schedule, checkpoint)


def teach_texts(
    model: BertForSequenceClassification,
    tokenizer: PreTrainedTokenizerFast,
    schedule: Schedule,
    *,
    num_answers: int = 32,
    num_texts: int = 64,
    seed: int = 0,
    checkpoint: Path | None = None,
) -> tuple[list[float], float]:
    """Trains a model that judges answers to judge sentences by texts, too, in place.

    num_answers, num_texts: pairs of either sort in a step.

    Returns the loss of every step (nats per pair), and the seconds that it took.
    """
    source = nli_sources("train")
    pool = pool_of([world_of(number) for number in range(NUM_WORLDS)], "train")

    def groups_of_step(step: int) -> list[Group]:
        rng = random.Random(f"texts:{seed}:{step}")  # noqa: S311, a corpus is no secret
        answers = make_nli_pairs(source, num_answers, rng)
        texts = make_pairs(pool, num_texts, f"{seed}:{step}")
        groups = groups_of(tokenizer, answers, label_of)
        return groups + groups_of(tokenizer, texts, label_of, in_both_orders=False)

    return train_on_pairs(model, groups_of_step, nli_loss, schedule, checkpoint)


def probabilities(
    model: BertForSequenceClassification,
    tokenizer: PreTrainedTokenizerFast,
    texts: Sequence[tuple[str, str]],
) -> NDArray[np.float32]:
    """Probabilities of `LABELS` for (premise, hypothesis), (N, 3); rows sum to 1."""
    return in_batches(model, tokenizer, texts, partial(torch.softmax, dim=-1))
