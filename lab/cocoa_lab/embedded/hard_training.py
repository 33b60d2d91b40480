"""A further training of both pair models on `hard_pairs`, among the pairs that they learnt from."""

import random
from functools import partial
from pathlib import Path

from transformers import BertForSequenceClassification, PreTrainedTokenizerFast

from cocoa_lab.embedded import nli_pairs, pairs
from cocoa_lab.embedded.cross_encoder import pair_loss, train_on_pairs
from cocoa_lab.embedded.hard_pairs import HardSource, hard_pairs, hard_source
from cocoa_lab.embedded.nli import NUM_WORLDS, mixed_loss
from cocoa_lab.embedded.nli_pairs import NliPair
from cocoa_lab.embedded.pairs import Pair
from cocoa_lab.embedded.training import Schedule
from cocoa_lab.embedded.world import pairs as world_pairs
from cocoa_lab.embedded.world.building import world_of

# Rare among the pairs known, and lost without more of them: over 1,200 steps, the ROC-AUC of long
# prose fell from .918 to .831, that of invented names from .996 to .991.
_KEPT_SHARES = {"long_prose": 0.4, "made_up": 0.4, "prose": 0.2}


def teach_judge(
    model: BertForSequenceClassification,
    tokenizer: PreTrainedTokenizerFast,
    schedule: Schedule,
    *,
    num_known: int = 64,
    num_kept: int = 10,
    num_hard: int = 36,
    seed: int = 0,
    checkpoint: Path | None = None,
) -> tuple[list[float], float]:
    """Trains a trained cross-encoder on, in place.

    num_known, num_kept, num_hard: pairs in a step as it was trained on, of those of them that are
    easily forgotten, and of `hard_pairs`.

    Returns the loss of every step (nats per pair), and the seconds that it took.
    """
    known, hard = pairs.sources("train"), hard_source("train")

    def pairs_of(step: int) -> list[Pair]:
        # Seeded by the step, so that a resumed training sees the pairs of an uninterrupted one.
        rng = random.Random(f"hard:{seed}:{step}")  # noqa: S311, a corpus is no secret
        learnt = pairs.make_pairs(known, num_known, rng)
        learnt += pairs.make_pairs(known, num_kept, rng, _KEPT_SHARES)
        return learnt + hard_pairs(hard, num_hard, rng)

    loss_of = partial(pair_loss, model, tokenizer)
    return train_on_pairs(model, pairs_of, loss_of, schedule, checkpoint)


def teach_nli(
    model: BertForSequenceClassification,
    tokenizer: PreTrainedTokenizerFast,
    schedule: Schedule,
    *,
    num_answers: int = 64,
    num_texts: int = 64,
    num_hard: int = 36,
    seed: int = 0,
    checkpoint: Path | None = None,
) -> tuple[list[float], float]:
    """Trains a trained NLI model on, in place.

    num_answers, num_texts, num_hard: pairs of each sort in a step.

    Returns the loss of every step (nats per pair), and the seconds that it took.
    """
    known, hard = nli_pairs.nli_sources("train"), hard_source("train")
    pool = world_pairs.pool_of([world_of(number) for number in range(NUM_WORLDS)], "train")

    def pairs_of(step: int) -> list[NliPair]:
        rng = random.Random(f"hard:{seed}:{step}")  # noqa: S311, a corpus is no secret
        answers = nli_pairs.make_nli_pairs(known, num_answers, rng)
        texts = world_pairs.make_pairs(pool, num_texts, f"hard:{seed}:{step}")
        return answers + texts + hard_nli_pairs(hard, num_hard, rng)

    loss_of = partial(mixed_loss, model, tokenizer)
    return train_on_pairs(model, pairs_of, loss_of, schedule, checkpoint)


def hard_nli_pairs(source: HardSource, count: int, rng: random.Random) -> list[NliPair]:
    """As `hard_pairs`: those that mean the same entail each other, the others contradict."""
    labelled: list[NliPair] = []
    for pair in hard_pairs(source, count, rng):
        label: nli_pairs.Label = "entailment" if pair.same else "contradiction"
        labelled.append(NliPair(pair.first, pair.second, label, pair.family))
    return labelled
