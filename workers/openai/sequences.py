"""From choices to sequences, whole or token by token, with the reasoning before an answer apart.

A server returns a reasoning in its text, apart from it in a message, or not at all.
"""

import math
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np

from models import records
from models.engines.tags import KNOWN_TAGS, Tags
from models.engines.texts import cut_at_stop, num_stable
from models.records import DEFAULT_NEW_TOKENS, GenerationRequest, Token
from models.statistics import fields_of
from workers.calling import Listener
from workers.openai.choices import Choice
from workers.openai.logprobs import ENTROPY, MISSING, column, num_up_to, spelt_out
from workers.openai.replies import told_by
from workers.remote.client import Unreachable

TOO_MANY = "it answers more tokens than were asked for"
_ENDS = tuple(tags.end for tags in KNOWN_TAGS)
_LAST_SIGNS = frozenset(map(itemgetter(-1), _ENDS))  # without which no reasoning ends
_MOST_OF_TAG = 64  # characters, or tokens
_APART = 1e-6, 1e-3  # nats between log-probs of one token under two names; of one without text
_BEGUN_TAG = re.compile(r"<[^<>\s]{,32}")


def to_sequence(
    choice: Choice, wanted: frozenset[str] = frozenset(), num_tops: int = 0
) -> records.Sequence:
    """The record of a choice, with the `wanted` fields that hold statistics of its tokens.

    It has at most `num_tops` likeliest ones of each, where the server returns sound ones.
    """
    logprobs = entropies = tops = None
    if not choice.unsound:
        tops = _likeliest(choice, num_tops)
        if "token_logprobs" in wanted:
            logprobs = choice.logprobs
    if "token_entropies" in wanted and (values := column(choice.tops, ENTROPY)) is not None:
        entropies = np.maximum(values, 0.0)
    num_tokens = choice.num_written if choice.num_tokens is None else choice.num_tokens
    return records.Sequence(
        text=choice.text,
        compared_text=choice.text.strip(),
        num_tokens=num_tokens,
        finish_reason=choice.finish_reason,
        token_ids=choice.token_ids,
        token_logprobs=logprobs,
        token_entropies=entropies,
        token_tops=tops,
        refusal=choice.refusal,
        extra=choice.extra,
    )


def token_texts(choice: Choice) -> tuple[str, ...] | None:
    """(T,) what each token adds to the text; None where the server has no texts that join to it.

    The token that ended it adds nothing, whatever the server calls it.
    """
    texts, whole = choice.tokens, "".join(choice.tokens or ())
    if texts is None or ("token_id:" in whole and any(t.startswith("token_id:") for t in texts)):
        return None
    if choice.finish_reason == "stop" and "".join(texts[:-1]) == choice.text != whole:
        return (*texts[:-1], "")
    if not whole.startswith(choice.text):
        return None
    return texts


def _likeliest(choice: Choice, num: int) -> tuple[records.TokenTops, ...] | None:
    """(T,) at most `num` of each token's likeliest ones; None for 0, or where there are none.

    Of several with one text the chosen one counts, which a server may call otherwise among them;
    those without a probability are left out.
    """
    if not num or choice.tops is None or choice.tokens is None or choice.logprobs is None:
        return None
    likeliest_of_each = []
    together = zip(choice.tops, choice.tokens, choice.logprobs.tolist(), strict=True)
    for tops, token, logprob in together:
        possible = {name: one for name, one in tops.items() if one > MISSING}
        chosen = token
        if token not in possible:
            for name, one in possible.items():
                if math.isclose(one, logprob, abs_tol=_APART[token == ""]):
                    chosen = name
                    break
        possible.pop(chosen, None)
        ranked = sorted(({token: logprob} | possible).items(), key=itemgetter(1), reverse=True)
        likeliest_of_each.append(tuple(ranked[:num]))
    return tuple(likeliest_of_each)


def behind_reasoning(
    sequence: records.Sequence, choice: Choice, texts: tuple[str, ...] | None, *, opened: bool
) -> records.Sequence:
    """The answer of a choice, with the reasoning before it apart.

    Args:
        sequence: record of the choice, with the statistics of all its tokens.
        choice: of the server; one that parts the two itself has log-probs of both.
        texts: (T,) of its tokens; None where they are not known.
        opened: the prompt ended in the tag that begins a reasoning.
    """
    found, said = Tags.known_parts([choice.text], opened=opened)
    thoughts, answer = choice.reasoning, choice.text
    if thoughts is None and found is None and not choice.num_hidden:
        return sequence
    num_tokens, first = choice.num_tokens, choice.num_tokens
    is_finished = bool(without_tags(choice.text)) or choice.finish_reason == "stop"
    if thoughts is not None:
        texts, opened, answer = choice.tokens, True, without_tags(answer)
    elif found is not None:
        thoughts, answer, is_finished = found.text, said, found.is_finished
    else:  # log-probs are the answer's own where their tokens are its text
        first = None
        if texts:
            first = 0
    if is_finished and thoughts is not None:
        first = first_of_answer(texts or (), opened=opened)
    if first is not None and num_tokens is not None:
        is_finished = first < num_tokens
    num_thoughts = first or choice.num_hidden
    reasoning = records.Reasoning((thoughts or "").strip(), num_thoughts, is_finished)
    if num_tokens is None:
        sequence = replace(sequence, num_tokens=max(0, sequence.num_tokens - choice.num_hidden))
    sequence = replace(sequence, token_texts=texts).behind(reasoning, answer, first)
    texts, text = sequence.token_texts, sequence.text
    if texts and not text.endswith("".join(texts)) and text.endswith("".join(texts[:-1])):
        return replace(sequence, token_texts=(*texts[:-1], ""))  # what ended it adds nothing
    return sequence


def first_of_answer(texts: Sequence[str], *, opened: bool) -> int | None:
    """Index of the first token behind a reasoning; None where it has none, or it is not known.

    `opened` is as in `behind_reasoning`.
    """
    found, _ = Tags.known_parts(texts, opened=opened)
    if found is None or not found.is_finished:
        return None
    return found.num_tokens


def without_tags(text: str) -> str:
    r"""A text behind the tags that it begins with, and behind what stands between them.

    Some servers leave them there, though they return the reasoning apart.

    >>> without_tags("</think>\n\nIt is."), without_tags("<think>Hm.</think>It is.")
    ('\n\nIt is.', 'It is.')
    """
    while tags := Tags.at_start(text):
        text = text.partition(tags.end)[2]
    return text


def _may_begin_in_tags(text: str) -> bool:
    """True where what follows a text may have `without_tags` leave more of it out."""
    lead = without_tags(text).lstrip()
    if _BEGUN_TAG.fullmatch(lead):
        return True
    return any(tags.start.startswith(lead) or tags.end.startswith(lead) for tags in KNOWN_TAGS)


class TokenStream:
    """Hears the events of a stream, and tells a listener the tokens of its only choice.

    `opened` is as in `behind_reasoning`.
    """

    def __init__(self, request: GenerationRequest, listener: Listener, *, opened: bool) -> None:
        self._listener = listener
        self._opened = opened
        self._stop = request.sampling.stop
        # Tokens before the answer has begun, and the texts that the server lists of all.
        self._held: list[Token] = []
        self._held_text = ""  # theirs, joined once: it is looked through at each event
        self._texts: list[str] = []
        self._has_begun = False
        self._tags: Tags | None = None  # of a reasoning that goes on
        # True where the server returns a reasoning apart from its answer.
        self._is_apart = False
        # True where all is told at the end, as the answer's tokens are not known before.
        self._is_silent = False
        # The beginning of the answer's text, where tokens of the reasoning held it.
        self._lead = ""
        # Tokens of the answer that a stop string may cut.
        self._uncertain: deque[Token] = deque()
        self._num_left = (request.sampling.max_new_tokens or DEFAULT_NEW_TOKENS) + 1
        self._num_tops = request.num_tops_of(0)
        self._wanted = fields_of(request.statistics, "answer")

    def hear(self, event: Mapping[str, Any]) -> None:
        """Tell the tokens of an event.

        Raises:
            Unreachable: it makes no sense, or brings more tokens than were requested.
        """
        num_texts, num_held = len(self._texts), len(self._held_text)
        for choice in told_by(event):
            self._hear_choice(choice)
        if self._has_begun or self._is_silent:
            return
        added = "".join(self._texts[num_texts:]) + self._held_text[num_held:]
        has_just_begun = num_texts + num_held < _MOST_OF_TAG
        if self._tags is None or has_just_begun or not _LAST_SIGNS.isdisjoint(added):
            self._look_for_answer()
        if self._tags is not None and not (self._is_apart or any(self._tags.inner)):
            thoughts = self._tags.thoughts(self._held_text)
            # Their end may begin an end tag.
            num_certain = num_stable(thoughts, (*_ENDS, self._tags.end))
            self._listener.tell_thoughts(thoughts[:num_certain].rstrip())

    def _hear_choice(self, choice: Choice) -> None:
        if choice.reasoning:
            self._is_apart = True
            self._listener.tell(Token("", reasoning=choice.reasoning))
        sequence = to_sequence(choice, self._wanted, self._num_tops)
        # What becomes certain with several tokens at once comes with the first of them.
        tokens = sequence.remaining_tokens(0, 0)
        self._texts += spelt_out(choice.tokens or (), choice.text)
        if self._stop and (num := num_up_to(self._stop, self._texts)) is not None:
            tokens = tokens[: max(0, len(tokens) + num - len(self._texts))]
        self._num_left -= len(tokens)
        if self._num_left < 0:
            raise Unreachable(TOO_MANY)
        if self._is_silent:
            return
        if self._has_begun:
            self._tell(tokens)
        else:
            self._held += tokens
            self._held_text += "".join(token.text for token in tokens)

    def _look_for_answer(self) -> None:
        """Tell the held tokens once it is certain whether they are the answer's."""
        text, self._tags = self._held_text, None
        found, answer = Tags.known_parts([text], opened=self._opened)
        if self._is_apart:
            first = first_of_answer(self._texts, opened=True)
            if first is None and not self._texts:
                first = 0  # of tokens without texts, such a chat has held the answer's alone
            if first is None:
                self._tags = KNOWN_TAGS[0]
            elif not _may_begin_in_tags(text):
                self._begin(first, without_tags(text))
        elif found is None:
            if not _may_begin_in_tags(text):
                self._begin(0, text)
        elif not found.is_finished:
            self._tags = Tags.known_in(text, opened=self._opened)
        else:
            first = first_of_answer(self._texts, opened=True)
            self._is_silent = first is None and bool(self._stop)
            if not self._is_silent:
                self._listener.tell_thoughts(found.text)
                if first is None:
                    first = len(self._held)
                self._begin(first, answer)

    def _begin(self, first: int, text: str) -> None:
        """Tell the tokens held from the answer's first one on, which have its text."""
        self._has_begun = True
        answer = self._held[first:]
        if "".join(token.text for token in answer) != text:
            self._lead, answer = text, [replace(token, text="") for token in answer]
        self._tell(answer)

    def _tell(self, tokens: Sequence[Token]) -> None:
        """Tell the tokens that no stop string cuts; the others are told at the end."""
        for token in tokens:
            self._uncertain.append(replace(token, text=self._lead + token.text))
            self._lead = ""
        text = "".join(token.text for token in self._uncertain)
        num_certain = len(text)
        if self._stop:
            num_certain = num_stable(text, self._stop)
        if (cut := cut_at_stop(text, self._stop)) is not None:  # the server goes on behind it
            num_certain, self._is_silent = len(cut), True
        while self._uncertain and len(self._uncertain[0].text) <= num_certain:
            token = self._uncertain.popleft()
            num_certain -= len(token.text)
            self._listener.tell(token)
