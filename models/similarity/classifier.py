"""A sequence-classification transformer over text pairs.

It is what the cross-encoder and the NLI model share.
"""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.errors import ModelLost
from models.locations import public_name
from models.records import Pair
from models.similarity.contexts import fit_contexts, token_offsets
from models.similarity.encoder import LeanEncoder, is_bert_like

logger = logging.getLogger(__name__)

# Pairs of one forward pass: sorted by length, so little of a batch is padding.
_FORWARD_PAIRS = 64
# Tokens of padding that cost as much as another forward pass on a CPU, where it is computed. On an
# accelerator short rows cost little beside the pass itself.
_CPU_PADDING = 128
# Tokens of a pass on a CPU: the states of more do not stay near the core.
_CPU_TOKENS = 2048


class PairClassifier:
    """Logits of ordered pairs, in order, with a flag for pairs that were cut.

    A text is tokenised once, however many pairs it is in, and cut before it is joined with another:
    tokenizers that cut a pair keep every piece of the rest, whose number grows with the product of
    the two lengths.
    """

    def __init__(self, model: Any, tokenizer: Any, max_length: int) -> None:
        self._model = model.eval()
        self._tokenizer = tokenizer
        self._budget = max_length - tokenizer.num_special_tokens_to_add(pair=True)
        self._frame = _frame_of(tokenizer)
        if self._frame.types is None and getattr(model.config, "type_vocab_size", 0) > 1:
            logger.warning(
                "the pair model %s tells two texts apart by token types, which its tokenizer does "
                "not give: it reads both as one; name token_type_ids among the model_input_names "
                "of its tokenizer_config.json, or its own tokenizer_class",
                public_name(str(getattr(model.config, "_name_or_path", ""))),
            )
        self._fillers = {
            "input_ids": tokenizer.pad_token_id or 0,
            "token_type_ids": tokenizer.pad_token_type_id,
            "attention_mask": 0,
        }
        # Logits (rows, K) of a padded pass.
        self._forward: Callable[..., Tensor] = lambda **inputs: self._model(**inputs).logits
        self._most_padding = self._most_tokens = math.inf
        is_on_cpu = torch.device(model.device).type == "cpu"
        if is_on_cpu:
            self._most_tokens = _CPU_TOKENS
        if is_bert_like(model):
            self._forward = LeanEncoder(model, by_length=is_on_cpu)
        elif is_on_cpu:
            self._most_padding = _CPU_PADDING

    @torch.inference_mode()
    def logits(self, pairs: Sequence[Pair]) -> tuple[Tensor, NDArray[np.bool_]]:
        """Logits (N, K) float32 on the CPU and truncated (N,)."""
        logits = torch.zeros(len(pairs), self._model.config.num_labels)
        truncated = np.zeros(len(pairs), dtype=bool)
        if not pairs:
            return logits, truncated
        texts = dict.fromkeys(chain.from_iterable(pairs))
        read = dict(zip(texts, self._read(list(texts)), strict=True))
        rows = []
        for i, (a, b) in enumerate(pairs):
            (ids_a, num_a), (ids_b, num_b) = read[a], read[b]
            truncated[i] = num_a + num_b > self._budget
            kept_a, kept_b = cut_longest_first(num_a, num_b, self._budget)
            rows.append(self._frame.joined(self._cut(ids_a, kept_a), self._cut(ids_b, kept_b)))
        num_tokens = [len(row["input_ids"]) for row in rows]
        for chosen in forward_passes(num_tokens, self._most_padding, self._most_tokens):
            inputs = self._padded([rows[row] for row in chosen])
            try:
                logits[chosen] = self._forward(**inputs).float().cpu()
            except torch.AcceleratorError as error:
                raise ModelLost(type(error).__name__) from error
        return logits, truncated

    def fit_contexts(self, texts: Sequence[Pair]) -> list[str]:
        """See `PairModel`."""
        return fit_contexts(self._tokenizer, texts, self._budget // 2)

    def token_ends(self, texts: Sequence[str]) -> list[list[int]]:
        """For each text the character behind each of its tokens."""
        return [[end for _, end in offsets] for offsets in token_offsets(self._tokenizer, texts)]

    def _padded(self, rows: Sequence[dict[str, list[int]]]) -> dict[str, Tensor]:
        """The model's inputs (rows, width) on its device, shorter rows filled up."""
        width = max(len(row["input_ids"]) for row in rows)
        inputs = {}
        for name in rows[0]:
            filled = []
            for row in rows:
                padding = [self._fillers[name]] * (width - len(row[name]))
                if self._tokenizer.padding_side == "left":
                    filled.append(padding + row[name])
                else:
                    filled.append(row[name] + padding)
            inputs[name] = torch.tensor(filled, device=self._model.device)
        return inputs

    def _read(self, texts: list[str]) -> list[tuple[list[int], int]]:
        """The tokens of each text, as many as the model can read, and their full number."""
        encoded = self._tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
        return [(self._cut(ids, self._budget), len(ids)) for ids in encoded]

    def _cut(self, ids: list[int], num_kept: int) -> list[int]:
        """The part of a text that is kept, on the side that the tokenizer keeps."""
        if self._tokenizer.truncation_side == "left":
            return ids[max(0, len(ids) - num_kept) :]
        return ids[:num_kept]


def forward_passes(
    num_tokens: Sequence[int], max_padding: float, max_tokens: float = math.inf
) -> Iterator[list[int]]:
    """The rows of each forward pass: such of like length, the shortest first.

    Args:
        num_tokens: of each row.
        max_padding: tokens that fill the rows of a pass up to its longest.
        max_tokens: of a pass, padding included; a longer row is a pass of its own.

    >>> list(forward_passes([9, 3, 4, 9], max_padding=4))
    [[1, 2], [0, 3]]
    """
    chosen: list[int] = []
    padding = longest = 0
    for row in sorted(range(len(num_tokens)), key=num_tokens.__getitem__):
        padding += len(chosen) * (num_tokens[row] - longest)
        is_large = (len(chosen) + 1) * num_tokens[row] > max_tokens
        if chosen and (len(chosen) == _FORWARD_PAIRS or padding > max_padding or is_large):
            yield chosen
            chosen, padding = [], 0
        chosen.append(row)
        longest = num_tokens[row]
    if chosen:
        yield chosen


def cut_longest_first(num_a: int, num_b: int, budget: int) -> tuple[int, int]:
    """Tokens that are left of two texts where both together may have `budget`.

    The longer one loses its tokens first, as with the tokenizers' "longest_first".

    >>> cut_longest_first(10, 3, 8), cut_longest_first(10, 7, 9), cut_longest_first(2, 3, 9)
    ((5, 3), (5, 4), (2, 3))
    """
    if num_a + num_b <= budget:
        return num_a, num_b
    shorter = min(num_a, num_b, budget // 2)
    return (shorter, budget - shorter) if num_a <= num_b else (budget - shorter, shorter)


@dataclass(frozen=True, slots=True)
class _Frame:
    """The special tokens around the two texts of a pair."""

    # Ids before the first text, between the two, and behind the second.
    special: tuple[list[int], list[int], list[int]]
    # Of the tokens of `special`, alike; None for a model that reads no types.
    types: tuple[list[int], list[int], list[int]] | None
    text_types: tuple[int, int]  # of the first and the second text's own tokens

    def joined(self, a: list[int], b: list[int]) -> dict[str, list[int]]:
        """The model's inputs for the ids of two texts."""
        before, between, after = self.special
        ids = before + a + between + b + after
        row = {"input_ids": ids, "attention_mask": [1] * len(ids)}
        if self.types is not None:
            before, between, after = self.types
            of_a, of_b = [self.text_types[0]] * len(a), [self.text_types[1]] * len(b)
            row["token_type_ids"] = before + of_a + between + of_b + after
        return row


def _frame_of(tokenizer: Any) -> _Frame:
    """The frame around one pair; `ValueError` where a tokenizer changes the two texts, too."""
    a, b = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("a", "b"))
    encoded = tokenizer("a", "b", return_special_tokens_mask=True)
    mask = encoded["special_tokens_mask"]
    is_of_text = np.equal(mask, 0)
    if list(compress(encoded["input_ids"], is_of_text)) != a + b:
        raise ValueError("the tokenizer changes texts when it joins them in a pair")
    text_columns = np.flatnonzero(is_of_text).tolist()
    starts = text_columns[0], text_columns[len(a)]

    def around(column: list[int]) -> tuple[list[int], list[int], list[int]]:
        first, second = starts
        return column[:first], column[first + len(a) : second], column[second + len(b) :]

    types = encoded.get("token_type_ids")
    return _Frame(
        special=around(encoded["input_ids"]),
        types=None if types is None else around(types),
        text_types=(0, 0) if types is None else (types[starts[0]], types[starts[1]]),
    )
