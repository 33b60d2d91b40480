"""Reports of a streamed row: its tokens, with the text that became certain."""

from collections.abc import Callable
from functools import partial

from models.engines.jobs import Row, Told
from models.engines.texts import num_stable
from models.engines.tokenization import Detokenizer
from models.records import Token, TokenTops
from models.units.reasoning import Tags


def new_tokens(row: Row, detokenizer: Detokenizer) -> list[Token]:
    """The row's tokens that were not told yet, with the text that became certain.

    None while the row may turn out to begin with a reasoning.
    """
    told, tags = row.job.told, detokenizer.tags
    if row.stage == "undecided" and row.finish_reason is None:
        return []
    num_told, told.num_tokens = told.num_tokens, len(row.token_ids)
    if tags is not None and told.num_tokens <= row.first_of_answer:
        return [Token("", reasoning=_new_thoughts(row, detokenizer, tags))]
    tokens: list[Token] = []
    for i in range(num_told, told.num_tokens):
        logprob = entropy = None
        if "token_logprobs" in row.fields:
            logprob = row.logprobs[i]
        if "token_entropies" in row.fields:
            entropy = row.entropies[i]
        tops: TokenTops = ()
        if row.job.request.num_tops_of(row.index):
            tops = detokenizer.tops(row, i)
        piece = ""
        if i == told.num_tokens - 1:
            piece = _new_piece(row, detokenizer)
        tokens.append(Token(piece, logprob, entropy, tops=tops))
    return tokens


def _new_piece(row: Row, detokenizer: Detokenizer) -> str:
    told = row.job.told
    if row.finish_reason:
        piece = row.text[told.num_characters :]
    else:
        if told.stage != "answer":
            told.stage, told.pending = "answer", row.lead
            told.start = told.read = row.first_of_answer
        _decode_further(told, row.token_ids, detokenizer.text)
        end = num_stable(told.pending, row.job.request.sampling.stop)
        piece, told.pending = told.pending[:end], told.pending[end:]
    told.num_characters += len(piece)
    return piece


def _new_thoughts(row: Row, detokenizer: Detokenizer, tags: Tags) -> str:
    told, (opening, closing) = row.job.told, tags.inner
    decode = partial(detokenizer.text, with_tags=True)
    _decode_further(told, detokenizer.without_end(row.token_ids), decode)
    if told.stage == "undecided":
        text = told.pending.lstrip().removeprefix(tags.start).lstrip()
        if not text or opening.startswith(text):
            return ""
        told.stage, told.pending = "thoughts", text.removeprefix(opening)
    end = closing + tags.end
    thoughts, found, _ = told.pending.partition(end)
    if found:
        return thoughts.rstrip()
    num_certain = num_stable(thoughts, (end,))
    told.pending = thoughts[num_certain:]
    return thoughts[:num_certain]


def _decode_further(told: Told, token_ids: list[int], decode: Callable[[list[int]], str]) -> None:
    """Add what the latest tokens show; decoding all of them each time would cost T²."""
    text, before = decode(token_ids[told.start :]), decode(token_ids[told.start : told.read])
    if not text.endswith("\ufffd"):  # it may be half a code point
        told.pending += text[len(before) :]
        if text != before:  # else it is no piece that the next one could follow
            told.start = told.read
        told.read = len(token_ids)
