"""The features that a probe reads, and its description: `card.json` beside its weights."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from models.codec import reader
from models.errors import ModelNotLoaded
from models.ranges import Exact
from models.records import Array
from models.statistics import SENTENCES_READ

TokenFeature = Literal["sp", "mte", "log_length"]
TOKEN_FEATURES: tuple[TokenFeature, ...] = get_args(TokenFeature)

# The statistics that the numbers are computed from.
_STATISTICS_READ = frozenset({"answer_token_logprobs", "answer_token_entropies"})
FORMAT: Literal[2] = 2
CONVENTION = "hidden_states[k] of Hugging Face, 0 = embeddings"
POOLING = "mean over the steps whose input is y_1 ... y_{T-1}; the prefill's last state where T = 1"
SENTENCE_POOLING = "mean over the steps whose input is a token of the sentence"

Target = Literal["inconsistency", "semantic_entropy", "sentence_inconsistency"]
Architecture = Literal["small", "paper"]

STATISTIC: Mapping[Target, str] = {
    "inconsistency": "predicted_dissimilarity",
    "semantic_entropy": "predicted_high_semantic_entropy",
    "sentence_inconsistency": SENTENCES_READ,
}


def pooling_of(target: Target) -> str:
    """The name of the states that a probe reads the mean of."""
    return SENTENCE_POOLING if target == "sentence_inconsistency" else POOLING


def joined(mean: Array, names: Sequence[str], *, sp: float, mte: float, num_tokens: int) -> Array:
    """One row (d + k,) of what a network reads: the hidden state, then the named numbers.

    Args:
        mean: (d,) mean hidden state.
        names: k of `TOKEN_FEATURES`.
        sp: the answer's summed negative log-likelihood, nats.
        mte: its mean token entropy, nats.
        num_tokens: T, at least 1.
    """
    values = {"sp": sp, "mte": mte, "log_length": math.log(num_tokens)}
    numbers = np.array([values[name] for name in names], dtype=np.float32)
    return np.concatenate([np.asarray(mean, dtype=np.float32), numbers])


class ProbeMismatch(ModelNotLoaded):
    """The folder holds no probe for this model; the message names the first difference."""


@dataclass(frozen=True, slots=True)
class Card(Exact):
    """The facts by which a probe may be trusted, and how far."""

    # Its prediction: the inconsistency itself, of an answer or of one of its sentences, or
    # whether semantic entropy is above `split`.
    target: Target
    # Of the language model whose states it reads.
    model_id: str
    revision: str | None
    dtype: str
    layer: int  # k, under `convention`
    dimension: int  # d of the hidden states
    # Features of the answer's tokens beside them, of `TOKEN_FEATURES`.
    token_features: tuple[str, ...]
    architecture: Architecture
    training_set: str  # name of the prompts
    # Answers in training, validation, and the third split that nothing chose by.
    sizes: Mapping[str, int]
    tasks: tuple[str, ...]  # of the prompts
    sampling: Mapping[str, Any]  # M, temperature, top_k, top_p and max_new_tokens behind the target
    compared_by: Mapping[str, Any]  # the model behind the target: role, id, revision and flags
    split: float | None  # nats; None for the inconsistency
    # Of the training.
    hyperparameters: Mapping[str, Any]
    seed: int
    metrics: Mapping[str, Mapping[str, float | None]]  # of validation and of the third split
    sha256: str = ""  # of probe.safetensors
    convention: str = CONVENTION
    pooling: str = POOLING
    format: Literal[2] = FORMAT

    @property
    def statistics_read(self) -> frozenset[str]:
        """Statistics of the answer's tokens that it reads."""
        if self.token_features:
            return _STATISTICS_READ
        return frozenset()


_card = reader(Card)


def read_card(path: Path) -> Card:
    """The card of a probe.

    Raises:
        ProbeMismatch: the file is missing, or no card of this format.
    """
    if not path.is_file():
        raise ProbeMismatch(f"no such file: {path.absolute()}")
    try:
        card = _card(path.read_bytes())
    except (OSError, ValueError) as error:
        message = f"{path.parent.name}/{path.name} is no card of format {FORMAT}"
        raise ProbeMismatch(message) from error
    if unknown := set(card.token_features) - set(TOKEN_FEATURES):
        raise ProbeMismatch(
            f"the probe reads {min(unknown)!r} of an answer, which is none of "
            f"{', '.join(TOKEN_FEATURES)}"
        )
    return card


def check_card(
    card: Card,
    *,
    target: str,
    model_id: str,
    revision: str | None,
    dimension: int,
    num_layers: int,
    statistics: frozenset[str],
) -> None:
    """Refuse a probe that was made for something else.

    Raises:
        ProbeMismatch: names the first difference.
    """
    check_model(card, model_id, revision)
    expected = {
        "target": target,
        "dimension": dimension,
        "convention": CONVENTION,
        "pooling": pooling_of(card.target),
    }
    for name, value in expected.items():
        _check(card, name, value)
    if not 0 < card.layer < num_layers:
        raise ProbeMismatch(
            f"the probe reads layer {card.layer}, the model has layers 1 to {num_layers - 1}"
        )
    if lacking := sorted(card.statistics_read - statistics):
        raise ProbeMismatch(
            f"the probe reads {', '.join(card.token_features)} of an answer, for which the model "
            f"lacks {', '.join(lacking)}"
        )


def check_model(card: Card, model_id: str, revision: str | None) -> None:
    """Refuse another model's probe.

    A revision names the weights wherever they lie; without one their name has to do.

    Raises:
        ProbeMismatch: it is another's.
    """
    if revision or card.revision:
        _check(card, "revision", revision)
    else:
        _check(card, "model_id", model_id)


def _check(card: Card, name: str, value: object) -> None:
    if (actual := getattr(card, name)) != value:
        raise ProbeMismatch(
            f"the probe's {name} is {actual!r}, this model's {value!r}: train a probe for it"
        )
