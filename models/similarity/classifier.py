"""A sequence-classification transformer over text pairs.

It is what the cross-encoder and the NLI model share.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.checkpoints import device_watched
from models.records import Pair

# Pairs of one forward pass: sorted by length, so little of a batch is padding.
_FORWARD_PAIRS = 64
# Tokens of usual tokenizers span fewer characters; longer contexts are cut to this before they are
# tokenised.
_MAX_CHARACTERS_PER_TOKEN = 16


class PairClassifier:
    """Logits of ordered pairs, in order, with a flag for pairs that were cut."""

    def __init__(self, model: Any, tokenizer: Any, max_length: int) -> None:
        self._model = model.eval()
        self._tokenizer = tokenizer
        self._max_length = max_length

    @torch.inference_mode()
    def logits(self, pairs: Sequence[Pair]) -> tuple[Tensor, NDArray[np.bool_]]:
        """Logits (N, K) float32 on the CPU and truncated (N,)."""
        logits = torch.zeros(len(pairs), self._model.config.num_labels)
        if not pairs:
            return logits, np.zeros(0, dtype=bool)
        encoded = self._tokenizer(
            [a for a, _ in pairs],
            [b for _, b in pairs],
            truncation="longest_first",
            max_length=self._max_length,
        )
        lengths = [len(ids) for ids in encoded["input_ids"]]
        order = sorted(range(len(pairs)), key=lengths.__getitem__)
        for start in range(0, len(order), _FORWARD_PAIRS):
            rows = order[start : start + _FORWARD_PAIRS]
            batch = {name: [column[row] for row in rows] for name, column in encoded.items()}
            inputs = self._tokenizer.pad(batch, return_tensors="pt").to(self._model.device)
            with device_watched():
                logits[rows] = self._model(**inputs).logits.float().cpu()
        return logits, np.array(
            [self._is_cut(pair, n) for pair, n in zip(pairs, lengths, strict=True)]
        )

    def fit_context(self, context: str, text: str) -> str:
        """See `PairModel.fit_context`."""
        num_special = self._tokenizer.num_special_tokens_to_add(pair=True)
        num_text = len(self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])
        # Two more tokens stay free: where texts are joined, a blank may cost one and a merge undone
        # another.
        budget = (self._max_length - num_special) // 2 - num_text - 2
        if budget <= 0:
            return ""
        context = context[-_MAX_CHARACTERS_PER_TOKEN * self._max_length :]
        encoded = self._tokenizer(
            context, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        offsets: list[tuple[int, int]] = encoded["offset_mapping"]
        return context if len(offsets) <= budget else context[offsets[-budget][0] :]

    def _is_cut(self, pair: Pair, length: int) -> bool:
        """Whether the pair was cut.

        Only a pair that fills the input can have been cut; those few are encoded once more to see.
        """
        if length < self._max_length:
            return False
        return (
            len(self._tokenizer(*pair, truncation=False, verbose=False)["input_ids"])
            > self._max_length
        )
