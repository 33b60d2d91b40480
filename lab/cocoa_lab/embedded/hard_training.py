"""A further training of both pair models on `hard_pairs`, among the pairs that they learnt from.

Large steps and many: on 1,000 small ones the models learn the hard pairs and lose others.
"""

import random
from pathlib import Path

from transformers import BertForSequenceClassification, PreTrainedTokenizerFast

from cocoa_lab.embedded import nli_pairs, pairs
from cocoa_lab.embedded.cross_encoder import (
    Group,
    groups_of,
    is_same,
    judge_loss,
    train_on_pairs,
)
from cocoa_lab.embedded.hard_pairs import HardSource, hard_pairs, hard_source
from cocoa_lab.embedded.nli import NUM_WORLDS, label_of, nli_loss
from cocoa_lab.embedded.nli_pairs import NliPair
from cocoa_lab.embedded.training import Schedule
from cocoa_lab.embedded.world import pairs as world_pairs
from cocoa_lab.embedded.world.building import world_of

# Rare among the pairs known, and easily lost.
_KEPT_SHARES = {"long_prose": 0.4, "made_up": 0.4, "prose": 0.2}
_KEPT_NLI_SHARES = {"long_prose": 0.4, "made_up": 0.3, "two_places": 0.3}
# Few groups a step: a GPU takes as long for a short group as for a long one.
_SPREAD = 3.0


def teach_judge(
    model: BertForSequenceClassification,
    tokenizer: PreTrainedTokenizerFast,
    schedule: Schedule,
    *,
    num_known: int = 960,
    num_kept: int = 160,
    num_hard: int = 560,
    seed: int = 0,
    checkpoint: Path | None = None,
    workers: int = 0,
) -> tuple[list[float], float]:
    """Trains a trained cross-encoder on, in place.

    num_known, num_kept, num_hard: pairs in a step as it was trained on, of those of them that are
    easily forgotten, and of `hard_pairs`.
    workers: as `train_on_pairs` takes it.

    Returns the loss of every step (nats per pair), and the seconds that it took.
    """
    known, hard = pairs.sources("train"), hard_source("train")

    def groups_of_step(step: int) -> list[Group]:
        # Seeded by the step, so that a resumed training sees the pairs of an uninterrupted one.
        rng = random.Random(f"hard:{seed}:{step}")  # noqa: S311, a corpus is no secret
        learnt = pairs.make_pairs(known, num_known, rng)
        learnt += pairs.make_pairs(known, num_kept, rng, _KEPT_SHARES)
        learnt += hard_pairs(hard, num_hard, rng)
        return groups_of(tokenizer, learnt, is_same, spread=_SPREAD)

    return train_on_pairs(model, groups_of_step, judge_loss, schedule, checkpoint, workers=workers)


def teach_nli(
    model: BertForSequenceClassification,
    tokenizer: PreTrainedTokenizerFast,
    schedule: Schedule,
    *,
    num_known: int = 640,
    num_kept: int = 160,
    num_texts: int = 512,
    num_hard: int = 448,
    seed: int = 0,
    checkpoint: Path | None = None,
    workers: int = 0,
) -> tuple[list[float], float]:
    """Trains a trained NLI model on, in place.

    num_known, num_kept, num_texts, num_hard: pairs in a step of answers, of those of them that are
    easily forgotten, of a text and a sentence, and of `hard_pairs`.
    workers: as `train_on_pairs` takes it.

    Returns the loss of every step (nats per pair), and the seconds that it took.
    """
    known, hard = nli_pairs.nli_sources("train"), hard_source("train")
    pool = world_pairs.pool_of([world_of(number) for number in range(NUM_WORLDS)], "train")

    def groups_of_step(step: int) -> list[Group]:
        rng = random.Random(f"hard:{seed}:{step}")  # noqa: S311, a corpus is no secret
        answers = nli_pairs.make_nli_pairs(known, num_known, rng)
        answers += nli_pairs.make_nli_pairs(known, num_kept, rng, _KEPT_NLI_SHARES)
        answers += hard_nli_pairs(hard, num_hard, rng)
        texts = world_pairs.make_pairs(pool, num_texts, f"hard:{seed}:{step}")
        groups = groups_of(tokenizer, answers, label_of, spread=_SPREAD)
        return groups + groups_of(tokenizer, texts, label_of, in_both_orders=False, spread=_SPREAD)

    return train_on_pairs(model, groups_of_step, nli_loss, schedule, checkpoint, workers=workers)


def hard_nli_pairs(source: HardSource, count: int, rng: random.Random) -> list[NliPair]:
    """As `hard_pairs`: those that mean the same entail each other, the others contradict."""
    labelled: list[NliPair] = []
    for pair in hard_pairs(source, count, rng):
        label: nli_pairs.Label = "entailment" if pair.same else "contradiction"
        labelled.append(NliPair(pair.first, pair.second, label, pair.family))
    return labelled
