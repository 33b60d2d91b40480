"""Scoring an answer that exists already: the server reads it behind the prompt."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from models import records
from models.engines.texts import parted
from models.records import AnswerForm, Array, GivenAnswer
from models.statistics import ANSWER_STATISTICS
from workers.calling import together
from workers.calls import Calls
from workers.openai.columns import check_entropies
from workers.openai.found import NOT_READ, OpenAIServer
from workers.openai.prompts import answer_forms
from workers.openai.replies import (
    ENTROPY_COLUMN,
    Choice,
    read_choices,
    read_echo,
    read_prompt_logprobs,
    token_texts,
)
from workers.openai.requests import COMPLETIONS, Prompt, completion
from workers.openai.soundness import UNCOVERED, are_of, unsound

_BEHIND_IMAGES = "the server of the model reads no answer that is given behind images"
_NO_ENTROPIES = "the server of the model tells no entropies of an answer that is given"
# Prompts of one call by which the entropies at each token of an answer are asked, in tokens.
_MOST_PREFIX_TOKENS = 200_000


Forms = Mapping[AnswerForm, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Given:
    """A given answer as the server reads it.

    Attributes:
        sequence: with the statistics that are wanted and known.
        form: the likelier one of two; see `Generation.answer_form`.
        shows_its_end: whether its end counts where it should.
        absent: what is wanted and not known, and why.
    """

    sequence: records.Sequence
    form: AnswerForm = "literal"
    shows_its_end: bool = True
    absent: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Read:
    """One form of it, token by token."""

    logprobs: Array
    texts: tuple[str, ...]
    ids: tuple[int, ...] | None = None

    def why_unsound(self, text: str) -> str:
        """Why these are no log-probs of the tokens of this text; "" where they may be."""
        if are_of(self.texts, text, is_cut=False) is False:
            return UNCOVERED
        return unsound(self.logprobs)


async def forms_of(
    calls: Calls, can: OpenAIServer, prompt: Prompt, answer: GivenAnswer | None
) -> Forms:
    """Token ids of a given answer in each of its forms; empty where nobody can tokenize it."""
    if answer is None or prompt.ids is None or can.scoring != "prompt_logprobs":
        return {}
    return await answer_forms(calls, can, prompt, answer.text, append_eos=answer.append_eos)


async def score_given(
    calls: Calls,
    can: OpenAIServer,
    prompt: Prompt,
    answer: GivenAnswer,
    forms: Forms,
    statistics: frozenset[str],
) -> Given:
    """The answer with what the server says of its tokens.

    Args:
        calls: of the server.
        can: what it can do.
        prompt: that the answer continues.
        answer: that is given.
        forms: of `forms_of`.
        statistics: that are wanted.
    """
    read: dict[AnswerForm, _Read] = {}
    if forms:
        found = await together(*(_by_ids(calls, can, prompt, ids) for ids in forms.values()))
        read = dict(zip(forms, found, strict=True))
    elif can.scoring == "echo" and prompt.text is not None:
        read = await _by_echo(calls, can, prompt.text, answer.text)
    if not read:
        reason = NOT_READ
        if can.scoring == "prompt_logprobs":  # all else is asked by token ids there
            reason = _BEHIND_IMAGES
        absent = dict.fromkeys(statistics & ANSWER_STATISTICS, reason)
        return Given(parted(_sequence(answer)), absent=absent)
    # The first of equally likely ones, which is the literal one.
    form = max(read, key=lambda one: float(np.nan_to_num(read[one].logprobs, nan=-np.inf).sum()))
    best, absent = read[form], {}
    if why_unsound := best.why_unsound(answer.text):
        absent = dict.fromkeys(statistics & ANSWER_STATISTICS, why_unsound)
        return Given(parted(_sequence(answer)), form, absent=absent)
    sequence = replace(_sequence(answer), num_tokens=len(best.logprobs), token_ids=best.ids)
    if "answer_token_logprobs" in statistics:
        sequence = replace(sequence, token_logprobs=best.logprobs)
    if "answer_token_texts" in statistics:
        sequence = replace(sequence, token_texts=best.texts)
    if "answer_token_entropies" in statistics:
        entropies = await _entropies(calls, can, prompt, best.ids)
        sequence = replace(sequence, token_entropies=entropies)
        if entropies is None:
            absent["answer_token_entropies"] = _NO_ENTROPIES
    counts_its_end = not answer.append_eos or (forms and can.eos_id is not None)
    return Given(parted(sequence, best.texts), form, bool(counts_its_end), absent)


async def texts_of(
    calls: Calls, can: OpenAIServer, prompt: Prompt, choice: Choice
) -> tuple[str, ...] | None:
    """Texts of an answer's tokens that came as ids: one more prefill tells them."""
    ids, before = choice.token_ids, prompt.ids
    if ids is None or before is None or can.scoring != "prompt_logprobs":
        return None
    if len(before) + len(ids) >= can.max_context_tokens:
        return None
    longer = replace(prompt, ids=(*before, *ids))
    body = completion(can, longer, max_tokens=1) | {"prompt_logprobs": 0}
    reply = await calls.post(COMPLETIONS, body)
    _, texts = read_prompt_logprobs(reply["choices"][0], ids)
    return token_texts(replace(choice, tokens=texts))


async def _by_ids(calls: Calls, can: OpenAIServer, prompt: Prompt, ids: tuple[int, ...]) -> _Read:
    if not ids:
        return _Read(np.zeros(0), (), ())
    longer = replace(prompt, ids=(*(prompt.ids or ()), *ids))
    body = completion(can, longer, max_tokens=1) | {"prompt_logprobs": 0}
    reply = await calls.post(COMPLETIONS, body)
    read_choices(reply, 1)
    logprobs, texts = read_prompt_logprobs(reply["choices"][0], ids)
    if ids[-1] == can.eos_id:
        texts = (*texts[:-1], "")
    return _Read(logprobs, texts, ids)


async def _by_echo(
    calls: Calls, can: OpenAIServer, prompt: str, text: str
) -> dict[AnswerForm, _Read]:
    texts: dict[AnswerForm, str] = {"literal": text}
    if text[:1].strip() and prompt[-1:].strip():
        texts["blank_led"] = f" {text}"
    read: dict[AnswerForm, _Read] = {}
    for form, continued in texts.items():
        longer = Prompt(text=prompt + continued)
        body = completion(can, longer, max_tokens=1, top=can.logprobs) | {"echo": True}
        reply = await calls.post(COMPLETIONS, body)
        logprobs, pieces = read_echo(reply, len(prompt), len(longer.text or ""))
        read[form] = _Read(logprobs, pieces)
    return read


def _sequence(answer: GivenAnswer) -> records.Sequence:
    return records.Sequence(
        text=answer.text,
        compared_text=answer.text.strip(),
        num_tokens=0,
        finish_reason="given",
    )


async def _entropies(
    calls: Calls, can: OpenAIServer, prompt: Prompt, ids: tuple[int, ...] | None
) -> Array | None:
    """Exact entropies (T,) at each token of an answer, each asked of what comes before it.

    The prompts share their beginnings with each other, and so the server's cache.
    """
    if can.columns is None or prompt.ids is None or ids is None:
        return None
    if len(ids) * (len(prompt.ids) + len(ids)) > _MOST_PREFIX_TOKENS:
        return None
    if not ids:
        return np.zeros(0)
    body = completion(can, prompt, max_tokens=1, top=2, mode="entropy")
    body["prompt"] = [[*prompt.ids, *ids[:end]] for end in range(len(ids))]
    columns = []
    for choice in read_choices(await calls.post(COMPLETIONS, body), len(ids)):
        check_entropies(choice)
        column = choice.column(ENTROPY_COLUMN)
        if column is None:
            return None
        columns.append(max(float(column[0]), 0.0))
    return np.array(columns)
