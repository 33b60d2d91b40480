"""From token ids to text: where a row ends, and how much of a streamed answer is certain."""

from dataclasses import replace

import numpy as np
from transformers import PreTrainedTokenizerBase

from models.engines.jobs import Row, Told
from models.engines.texts import cut_at_stop, num_stable, without_reasoning
from models.records import Sequence

# Tokens after which any code point is complete.
_CODE_POINT = 8


class Detokenizer:
    """Decodes rows as they grow; `eos_ids` are all ids that end a sequence."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, eos_ids: frozenset[int]) -> None:
        self._tokenizer = tokenizer
        self._eos_ids = eos_ids

    def text(self, token_ids: list[int]) -> str:
        """Decoded text without special tokens, exactly as generated."""
        return str(
            self._tokenizer.decode(
                token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        )

    def finish(self, row: Row) -> None:
        """Set `finish_reason` and `text` where the row's last token ends it."""
        sampling = row.job.request.sampling
        if row.token_ids[-1] in self._eos_ids:
            row.finish_reason, row.text = "stop", self.text(row.token_ids[:-1])
        elif sampling.stop and self._has_stop(row.token_ids, sampling.stop):
            row.finish_reason, row.text = (
                "stop",
                cut_at_stop(self.text(row.token_ids), sampling.stop) or "",
            )
        elif len(row.token_ids) == row.job.max_new_tokens:
            row.finish_reason, row.text = "length", self.text(row.token_ids)

    def new_piece(self, row: Row) -> str:
        """Text of a streamed row that has become certain since the last call."""
        told = row.job.told
        if row.finish_reason:
            piece = row.text[told.num_characters :]
        else:
            self._decode_further(told, row.token_ids)
            end = num_stable(told.pending, row.job.request.sampling.stop)
            piece, told.pending = told.pending[:end], told.pending[end:]
        told.num_characters += len(piece)
        return piece

    def _decode_further(self, told: Told, token_ids: list[int]) -> None:
        """Add what the latest tokens show; decoding all of them each time would cost T²."""
        text = self.text(token_ids[told.start :])
        if not text.endswith("\ufffd"):  # it may be half a code point
            told.pending += text[len(self.text(token_ids[told.start : told.read])) :]
            told.start, told.read = told.read, len(token_ids)

    def sequence(self, row: Row) -> Sequence:
        """The record of a finished row, with the statistics that its request wants."""
        texts = self._token_texts(row.token_ids) if row.reads("texts") else None
        return replace(self.without_token_texts(row), token_texts=texts)

    def without_token_texts(self, row: Row) -> Sequence:
        """The record of a finished row without what takes long to make."""
        # Where the prompt ends in `<think>`, a given answer is what came after the reasoning.
        opened = row.job.reasoning_opened and row.finish_reason != "given"
        return Sequence(
            text=row.text,
            compared_text=without_reasoning(row.text, opened=opened).strip(),
            num_tokens=len(row.token_ids),
            token_ids=tuple(row.token_ids),
            finish_reason=row.finish_reason or "length",
            token_logprobs=np.array(row.logprobs) if row.reads("logprobs") else None,
            token_entropies=np.array(row.entropies) if row.reads("entropies") else None,
        )

    def _has_stop(self, token_ids: list[int], stop: tuple[str, ...]) -> bool:
        # Every token that shows carries at least one byte, so this tail covers the longest stop
        # string; special tokens and a first code point that is cut in half take the few more.
        tail = max(len(string.encode()) for string in stop) + 8
        return cut_at_stop(self.text(token_ids[-tail:]), stop) is not None

    def _is_whole(self, token_ids: list[int], start: int, end: int) -> bool:
        """Whether a code point ends here: half a one is changed by the next tokens, U+FFFD not."""
        ahead = end + _CODE_POINT
        parts = self.text(token_ids[start:end]) + self.text(token_ids[end:ahead])
        return self.text(token_ids[start:ahead]) == parts

    def _token_texts(self, token_ids: list[int]) -> tuple[str, ...]:
        """The text that each token adds; the texts join to the whole.

        The bytes of a code point count with the last of its tokens.
        """
        texts: list[str] = []
        start, read = (
            0,
            0,
        )  # a tokenizer may need the tokens of the last complete piece to decode the next one
        for end in range(1, len(token_ids) + 1):
            before, text = self.text(token_ids[start:read]), self.text(token_ids[start:end])
            incomplete = text.endswith("\ufffd") and not self._is_whole(token_ids, start, end)
            texts.append("" if incomplete else text[len(before) :])
            if not incomplete:
                start, read = read, end
        return tuple(texts)
