"""Between texts and token ids: prompts, given answers, and rows as they grow."""

import functools
import re
from collections.abc import Sequence as SequenceOf
from typing import Any

import numpy as np

from models.engines.chats import encode_chat, ids_behind, ids_of
from models.engines.jobs import Row
from models.engines.protocol import NO_REASONING
from models.engines.tags import Tags
from models.engines.texts import cut_at_stop, unshared
from models.errors import InvalidRequest
from models.pretrained import PreTrainedTokenizerBase
from models.records import BYTES, AnswerForm, GenerationRequest, Reasoning, Sequence, TokenTops

# Tokens at a prompt's end that show how it ends.
_TAIL = 4
# Tokens after which any code point is complete.
_CODE_POINT = 4
# The name of a byte in vocabularies with a fallback to bytes.
_BYTE = re.compile("<0x([0-9A-F]{2})>")


@functools.cache
def _signs() -> dict[str, int]:
    """The bytes that byte-level vocabularies write as signs."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    table: dict[int, str] = bytes_to_unicode()  # type: ignore[no-untyped-call]
    return {sign: byte for byte, sign in table.items()}


class Detokenizer:
    """Texts of tokens: the end of a row, and the certain part of a streamed answer."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, eos_ids: frozenset[int], tags: Tags | None = None
    ) -> None:
        self._tokenizer = tokenizer
        self._eos_ids = eos_ids
        self.tags = tags
        self._end_ids: list[int] = []
        # The reason why writing its end tag ends no reasoning; "" where it can.
        self.no_reasoning_limit = NO_REASONING
        if tags is not None:
            self._end_ids, self.no_reasoning_limit = self._closing(tags)

    def text(self, token_ids: list[int], *, with_tags: bool = False) -> str:
        """Decoded text; with special tokens where a tag may be one."""
        options = {"skip_special_tokens": not with_tags, "clean_up_tokenization_spaces": False}
        return str(self._tokenizer.decode(token_ids, **options))

    def find_answer(self, row: Row, tags: Tags) -> None:
        """Follow the row's last token: into a reasoning, or out of it."""
        if row.stage == "undecided":
            text = self.text(row.token_ids, with_tags=True).lstrip()
            if text.startswith((tags.start, tags.end)):
                row.stage = "thoughts"
                if row.most_thoughts is not None:
                    row.most_thoughts += len(row.token_ids)
            elif not (tags.start.startswith(text) or tags.end.startswith(text)):
                row.stage = "answer"
        if row.stage == "thoughts":
            row.first_of_answer = len(row.token_ids)
            # Every token that shows carries at least one byte.
            tail = self.text(row.token_ids[-len(tags.end.encode()) :], with_tags=True)
            _, closing, row.lead = tail.partition(tags.end)
            is_full = row.most_thoughts is not None and len(row.token_ids) >= row.most_thoughts
            if closing:
                row.stage = "answer"
            elif is_full and not row.forced:
                row.forced = list(self._end_ids)

    def finish(self, row: Row) -> None:
        """Set `finish_reason` and `text` where a row ends; stop strings act on answers alone."""
        sampling, limit = row.job.request.sampling, row.job.limits.get(row.index)
        if limit is not None:
            for known in (row.token_ids, row.logprobs, row.entropies, row.tops):
                del known[row.first_of_answer + limit :]
        answer = row.token_ids[row.first_of_answer :]
        if row.token_ids[-1] in self._eos_ids:
            row.finish_reason, row.text = "stop", row.lead + self.text(answer[:-1])
        elif answer and sampling.stop and self._has_stop(row.lead, answer, sampling.stop):
            row.finish_reason = "stop"
            row.text = cut_at_stop(row.lead + self.text(answer), sampling.stop) or ""
        elif len(row.token_ids) == sampling.max_new_tokens:
            row.finish_reason, row.text = "length", row.lead + self.text(answer)
        elif len(answer) == limit:
            row.finish_reason, row.text = "sample_limit", row.lead + self.text(answer)

    def sequence(self, row: Row) -> Sequence:
        """The record of a finished row, with the statistics that its request wants."""
        first, reasoning = row.first_of_answer, None
        if first > 0 and self.tags is not None:
            text = self.text(self.without_end(row.token_ids[:first]), with_tags=True)
            reasoning = Reasoning(self.tags.thoughts(text), first, first < len(row.token_ids))
        token_ids = row.token_ids[first:]
        statistics: dict[str, Any] = {}
        for name, known in ("token_logprobs", row.logprobs), ("token_entropies", row.entropies):
            if name in row.fields:
                statistics[name] = np.array(known[first:])
        if "token_texts" in row.fields:
            statistics["token_texts"] = self.token_texts(token_ids, with_tags=row.index < 0)
        if row.tops or row.job.request.num_tops_of(row.index):
            places = range(first, len(row.tops))
            statistics["token_tops"] = tuple(self.tops(row, place) for place in places)
        return Sequence(
            text=row.text,
            compared_text=row.text.strip(),
            num_tokens=len(token_ids),
            token_ids=tuple(token_ids),
            finish_reason=row.finish_reason or "length",
            reasoning=reasoning,
            **statistics,
        )

    def tops(self, row: Row, place: int) -> TokenTops:
        """The likeliest tokens in the place of one of a row's, special ones among them."""
        # A tokenizer may write a first token without its blank.
        for size in range(1, 1 + _CODE_POINT):
            before = row.token_ids[max(0, place - size) : place]
            lead = self.text(before, with_tags=True)
            if not lead.endswith("\ufffd"):
                break
        else:  # within a code point
            before, lead = [], ""
        pairs = []
        for token, logprob in row.tops[place]:
            text = self.text([*before, token], with_tags=True)[len(lead) :]
            if "\ufffd" in text and (own := self._own_bytes(token)) != text.encode():
                text = BYTES + "".join(f"\\x{byte:02x}" for byte in own)
            pairs.append((text, logprob))
        return tuple(pairs)

    def _own_bytes(self, token_id: int) -> bytes:
        """The bytes of a token that byte-level vocabularies name; U+FFFD of other vocabularies."""
        name = str(self._tokenizer.convert_ids_to_tokens(token_id))
        if match := _BYTE.fullmatch(name):
            return bytes.fromhex(match[1])
        signs = _signs()
        if signs.keys() >= set(name):
            return bytes(map(signs.__getitem__, name))
        return "\ufffd".encode()

    def give(self, row: Row, text: str) -> None:
        """Set the text of a given answer, parted from the reasoning that it may begin with."""
        row.text, opened = text, row.job.reasoning_opened
        row.first_of_answer = len(self.ending(text, opened=opened))
        if self.tags is None or row.first_of_answer:
            return
        token_ids = self.without_end(row.token_ids)
        texts = self.token_texts(token_ids, with_tags=True)
        ended = len(token_ids) < len(row.token_ids)
        reasoning, answer = self.tags.part(texts, opened=opened, ended=ended)
        if reasoning is not None:
            row.text, row.first_of_answer = answer, reasoning.num_tokens

    def ending(self, text: str, *, opened: bool) -> list[int]:
        """Tokens that end an opened reasoning before a given answer, if it has no thoughts."""
        tags = self.tags
        if not (tags and opened and text) or tags.end in text:
            return []
        if text.lstrip().startswith(tags.start):
            return []
        return ids_of(self._tokenizer, tags.empty(opened=True))

    def token_texts(self, token_ids: list[int], *, with_tags: bool = False) -> tuple[str, ...]:
        """The text that each token adds; the texts join to the whole.

        The bytes of a code point count with the last of its tokens. Special tokens have their text
        only with `with_tags`.
        """
        decode = functools.partial(self.text, with_tags=with_tags)
        texts: list[str] = []
        # A tokenizer may need the last complete piece to decode the next one, and may write a
        # first one without its blank: a token without text is no such piece.
        start, read = 0, 0
        for end in range(1, len(token_ids) + 1):
            before, text = decode(token_ids[start:read]), decode(token_ids[start:end])
            if text.endswith("\ufffd") and not self._is_whole(token_ids, start, end):
                texts.append("")
            else:
                texts.append(text[len(before) :])
                if text != before:
                    start = read
                read = end
        return tuple(texts)

    def without_end(self, token_ids: list[int]) -> list[int]:
        """The same without a last token that ends a sequence."""
        if self._eos_ids.isdisjoint(token_ids[-1:]):
            return token_ids
        return token_ids[:-1]

    def _closing(self, tags: Tags) -> tuple[list[int], str]:
        """Tokens that end a reasoning wherever it stands, or why there are none."""
        closing = tags.inner[1] + tags.end
        ids = ids_behind(self._tokenizer, closing)
        if not self.text(ids, with_tags=True).endswith(closing):
            return [], "the tokenizer cannot write the tag that ends a reasoning"
        if self._eos_ids.intersection(ids):
            return [], "the tag that ends a reasoning has a token that ends the answer"
        return ids, ""

    def _has_stop(self, lead: str, token_ids: list[int], stop: tuple[str, ...]) -> bool:
        # Every token that shows carries at least one byte, so this tail covers the longest stop
        # string; special tokens and a first code point that is cut in half take the few more.
        tail = max(len(string.encode()) for string in stop) + 8
        text = self.text(token_ids[-tail:])
        if len(token_ids) <= tail:
            text = lead + text
        return cut_at_stop(text, stop) is not None

    def _is_whole(self, token_ids: list[int], start: int, end: int) -> bool:
        """True where a code point ends here: the next tokens change half a one, and U+FFFD not.

        How many of them it takes is not known, and some tokenizers show no code point of a run of
        bytes that ends within one.
        """
        text = self.text(token_ids[start:end])
        for ahead in range(end + 1, end + 1 + _CODE_POINT):
            if self.text(token_ids[start:ahead]) != text + self.text(token_ids[end:ahead]):
                return False
        return True


def encode_prompt(tokenizer: PreTrainedTokenizerBase, request: GenerationRequest) -> list[int]:
    """Prompt token ids.

    A raw prompt gets the tokenizer's special tokens once, messages get the model's template.

    Raises:
        ChatTemplateError: no template, or it refused the messages, or leaves one out.
        InvalidRequest: the prompt has no tokens.
    """
    if request.prompt is None:
        field, ids = "messages", encode_chat(tokenizer, request)
    else:
        field, ids = "prompt", list(request.prompt_ids) or encode_text(tokenizer, request.prompt)
    if not ids:
        raise InvalidRequest("the prompt has no tokens", field=field)
    return ids


def encode_text(
    tokenizer: PreTrainedTokenizerBase, text: str, *, special: bool = True
) -> list[int]:
    """Token ids of a raw text, with the tokenizer's special tokens once, or without them."""
    ids: list[int] = tokenizer.encode(text, add_special_tokens=special, verbose=False)
    # A text that spells out the BOS token would otherwise start with two.
    if special and len(ids) > 1 and ids[0] == ids[1] == tokenizer.bos_token_id:
        ids = ids[1:]
    return ids


def encode_answer_forms(
    tokenizer: PreTrainedTokenizerBase,
    prompt_ids: SequenceOf[int],
    text: str,
    eos_id: int | None,
    tags: Tags | None = None,
    begun: SequenceOf[int] = (),
) -> dict[AnswerForm, tuple[int, ...]]:
    """Ways in which a given answer may continue its prompt, each followed by `eos_id` unless None.

    Each begins with the tokens `begun`.

    A model continues "… of France?" with " Paris", and whoever brings the answer has stripped it.
    A special token that it spells out is text, but for those of the model's `tags`.
    """
    end = () if eos_id is None else (eos_id,)
    forms: dict[AnswerForm, tuple[int, ...]] = {
        "literal": (*begun, *_answer_ids(tokenizer, text, tags), *end)
    }
    behind = [*prompt_ids, *begun][-_TAIL:]
    tail = str(tokenizer.decode(behind, skip_special_tokens=False))
    if text[:1].strip() and tail[-1:].strip():
        blank_led = (*begun, *_answer_ids(tokenizer, f" {text}", tags), *end)
        if blank_led != forms["literal"]:
            forms["blank_led"] = blank_led
    return forms


def first_token_ids(
    tokenizer: PreTrainedTokenizerBase, groups: SequenceOf[SequenceOf[str]]
) -> list[tuple[int, ...]]:
    """First token ids of each group's spellings; an id that two groups share counts in neither."""
    return unshared([[ids_behind(tokenizer, text)[0] for text in group] for group in groups])


def _answer_ids(tokenizer: PreTrainedTokenizerBase, text: str, tags: Tags | None) -> list[int]:
    kept, pieces = [], [text]
    if tags is not None:
        written = tags.start + tags.end + "".join(tags.inner)
        added = tokenizer.added_tokens_decoder.values()
        special = (token.content for token in added if token.special)
        kept = [re.escape(tag) for tag in special if tag in written]
    if kept:
        pieces = re.split(f"({'|'.join(kept)})", text)
    ids = []
    for place, piece in enumerate(pieces):
        ids += ids_behind(tokenizer, piece, as_text=place % 2 == 0)
    return ids
