"""Choices of a server's reply: what it wrote, as far as it tells, and how much of it. Pure."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.records import Array, FinishReason
from workers.openai.logprobs import UNCOVERED, without_columns
from workers.remote.client import Unreachable

_PIECE = re.compile(r"\w+|\s+|[^\w\s]")  # what has mostly one token


@dataclass(slots=True)
class Choice:
    """One generated sequence of a reply."""

    text: str  # without the stop string that ended it
    finish_reason: FinishReason
    tokens: tuple[str, ...] | None = None  # (T,) texts or "token_id:N"; None without log-probs
    logprobs: Array | None = None  # (T,) nats, NaN where one is missing; None without
    # T times the likeliest tokens, by text or "token_id:N", the plugin's columns among them.
    tops: tuple[Mapping[str, float], ...] | None = None
    token_ids: tuple[int, ...] | None = None  # (T,); None where the server does not return them
    ended_by_eos: bool = False  # no stop string ended it, and the server says so
    reasoning: str | None = None  # that the server returns apart; None where it returns none
    refusal: str | None = None  # that it returns in place of an answer; None where it returns none
    extra: tuple[Mapping[str, Any], ...] = ()  # as in `models.records.Sequence`
    unsound: str = ""  # why its log-probs are none; "" where they may be read
    # Each token of the prompt with its log-prob, by id; empty without.
    prompt_tokens: Sequence[Mapping[str, Any] | None] = ()
    num_listed: int = 0  # tokens that the server lists by ids or log-probs, behind its end as well
    num_written: int = 0  # tokens of it, by `usage` where the server does not list them
    num_hidden: int = 0  # tokens of a reasoning that the text may not show, by `usage`

    @property
    def num_tokens(self) -> int | None:
        """T; None where the server does not list tokens."""
        for listed in (self.token_ids, self.logprobs):
            if listed is not None:
                return len(listed)
        return None

    @property
    def shows_its_end(self) -> bool:
        """True where the token that ended it is among those with a log-prob."""
        if self.finish_reason != "stop" or self.token_ids is not None:
            return True
        tokens = self.tokens or ()
        shown = "".join(tokens).rstrip()
        return bool(tokens) and (tokens[-1] == "" or not shown.endswith(self.text.rstrip()))

    def num_unlisted(self, stop: tuple[str, ...]) -> int:
        """The most tokens of its end that a server may write and not list."""
        lists_end = self.token_ids is None and self.finish_reason == "stop" and self.shows_its_end
        if self.finish_reason == "length" or lists_end:
            return 0
        pieces = map(list, stop)
        if not self.text.isascii():  # of whose characters it may list one token of several
            pieces = map(_PIECE.findall, stop)
        return 1 + max(map(len, pieces), default=0)

    @property
    def may_hide_tokens(self) -> bool:
        """True where an entry beyond ASCII, none of the likeliest, may be of several tokens."""
        for token, likeliest in zip(self.tokens or (), self.tops or (), strict=False):
            if not token.isascii() and token not in likeliest:
                return True
        return self.tops is None and not self.text.isascii()

    def of_prompt(self, ids: tuple[int, ...]) -> tuple[Array, tuple[str, ...]]:
        """Log-probs (T,) and texts of the last T tokens of its prompt, which are `ids`."""
        logprobs, texts = [], []
        entries = self.prompt_tokens[-len(ids) :]
        try:
            for token, entry in zip(ids, entries, strict=True):
                of_token = (entry or {})[str(token)]
                logprobs.append(of_token["logprob"])
                texts.append(of_token["decoded_token"] or "")
        except (LookupError, ValueError):
            raise Unreachable("its log-probs of a prompt make no sense") from None
        return np.array(logprobs, dtype=np.float64), tuple(texts)


def repetition(draws: Sequence[Choice], temperature: float) -> float | None:
    """The log-probability (nats), at most, that draws are all as the first; None where they differ.

    NaN where the server tells no log-probs. At a temperature t, a token of probability p has at
    most p^(1/t) / sum_i p_i^(1/t) over the likeliest that are told. From t = 1 on, it is the surest
    where all the rest is one other token's: 1 / (1 + ((1 - p) / p)^(1/t)).
    """
    if len(draws) < 2 or len({(one.text, one.reasoning) for one in draws}) > 1:
        return None
    for one in reversed(draws):  # the first may be the answer, of which less is told
        if one.logprobs is None or one.unsound:
            continue
        with np.errstate(over="ignore"):
            odds = np.expm1(np.maximum(-one.logprobs, 0.0)) ** (1.0 / temperature)
        surest = np.where(temperature < 1.0, 0.0, -np.log1p(odds))
        for place, likeliest in enumerate(without_columns(one.tops)):
            told = np.logaddexp.reduce(np.fromiter(likeliest.values(), float) / temperature)
            surest[place] = min(surest[place], one.logprobs[place] / temperature - told)
        return (len(draws) - 1) * float(surest.sum())
    return math.nan


def count_in(
    usage: Any, choices: Sequence[Choice], most: int, stop: tuple[str, ...], *, of_one: bool = False
) -> bool:
    """Give each choice of a call, of at most `most` tokens, its share of what `usage` counts.

    Where that is more than is listed, log-probs are none: some servers list one entry for all
    tokens of a character, with the log-prob of the last. True where `usage` is `of_one` choice of
    several, as that of llama-server, or was before: the likeliest tokens tell such an entry then.
    """
    total, size = count(usage, "completion_tokens"), len(choices)
    all_hidden = count(usage, "completion_tokens_details", "reasoning_tokens")
    num_missing, num_unlisted, lists_all = total, 0, True
    for choice in choices:
        num_missing -= choice.num_listed
        num_unlisted += choice.num_unlisted(stop)
        lists_all = lists_all and choice.num_tokens is not None
    of_one = of_one or (size > 1 and total > 0 > num_missing + size)
    if of_one:
        total = max(total, total - num_missing)  # at least what is listed
    if num_missing > all_hidden / 2:  # a reasoning is listed as a whole or not at all
        num_missing -= all_hidden
    for place, choice in enumerate(choices):
        choice.num_written = min(most, total // size + (place < total % size))
        choice.num_hidden = -(-all_hidden // size)
        is_in_doubt = of_one and size > 1 and choice.may_hide_tokens
        if is_in_doubt or (lists_all and num_missing > num_unlisted):
            choice.tokens = choice.logprobs = choice.tops = None
            choice.unsound = UNCOVERED
    return of_one


def count(usage: Any, *path: str) -> int:
    """A count in `usage`, by the names that lead to it; 0 where there is none."""
    for name in path:
        if not isinstance(usage, Mapping):
            return 0
        usage = usage.get(name)
    if type(usage) is int and usage >= 0:
        return usage
    return 0
