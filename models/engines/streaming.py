"""Reports of a streamed row: its tokens, with the text that became certain."""

from collections.abc import Callable
from functools import partial

from models.engines.jobs import Progress, Row
from models.engines.tags import Tags
from models.engines.texts import num_stable
from models.engines.tokenization import Detokenizer
from models.records import Token, TokenTops


def new_tokens(row: Row, detokenizer: Detokenizer) -> list[Token]:
    """The row's tokens that were not reported yet; none while it may begin with a reasoning."""
    progress, tags = row.job.progress, detokenizer.tags
    if row.stage == "undecided" and row.finish_reason is None:
        return []
    num_reported, progress.num_tokens = progress.num_tokens, len(row.token_ids)
    if tags is not None and progress.num_tokens <= row.first_of_answer:
        return [Token("", reasoning=_new_thoughts(row, detokenizer, tags))]
    tokens: list[Token] = []
    for i in range(num_reported, progress.num_tokens):
        logprob = entropy = None
        if "token_logprobs" in row.fields:
            logprob = row.logprobs[i]
        if "token_entropies" in row.fields:
            entropy = row.entropies[i]
        tops: TokenTops = ()
        if row.job.request.num_tops_of(row.index):
            tops = detokenizer.tops(row, i)
        piece = ""
        if i == progress.num_tokens - 1:
            piece = _new_piece(row, detokenizer)
        tokens.append(Token(piece, logprob, entropy, tops=tops))
    return tokens


def _new_piece(row: Row, detokenizer: Detokenizer) -> str:
    progress = row.job.progress
    if row.finish_reason:
        piece = row.text[progress.num_characters :]
    else:
        if progress.stage != "answer":
            progress.stage, progress.pending = "answer", row.lead
            progress.start = progress.read = row.first_of_answer
        _decode_further(progress, row.token_ids, detokenizer.text)
        end = num_stable(progress.pending, row.job.request.sampling.stop)
        piece, progress.pending = progress.pending[:end], progress.pending[end:]
    progress.num_characters += len(piece)
    return piece


def _new_thoughts(row: Row, detokenizer: Detokenizer, tags: Tags) -> str:
    progress, (opening, closing) = row.job.progress, tags.inner
    decode = partial(detokenizer.text, with_tags=True)
    _decode_further(progress, detokenizer.without_end(row.token_ids), decode)
    if progress.stage == "undecided":
        text = progress.pending.lstrip().removeprefix(tags.start).lstrip()
        if not text or opening.startswith(text):
            return ""
        progress.stage, progress.pending = "thoughts", text.removeprefix(opening)
    end = closing + tags.end
    thoughts, ending, _ = progress.pending.partition(end)
    if ending:
        return thoughts.rstrip()
    num_certain = num_stable(thoughts, (end,))
    progress.pending = thoughts[num_certain:]
    return thoughts[:num_certain]


def _decode_further(
    progress: Progress, token_ids: list[int], decode: Callable[[list[int]], str]
) -> None:
    """Add what the latest tokens show; decoding all of them each time would cost T²."""
    text = decode(token_ids[progress.start :])
    before = decode(token_ids[progress.start : progress.read])
    if not text.endswith("\ufffd"):  # it may be half a code point
        progress.pending += text[len(before) :]
        if text != before:  # else it is no piece that the next one could follow
            progress.start = progress.read
        progress.read = len(token_ids)
