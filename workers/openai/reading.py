"""Log-probs of texts that a server does not write: given answers, and next tokens."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from models import records
from models.engines.protocol import fitted
from models.engines.texts import parted, unshared
from models.records import AnswerForm, Array, GenerationRequest, GivenAnswer
from workers.calling import gather
from workers.openai.choices import Choice
from workers.openai.found import NOT_READ
from workers.openai.logprobs import ENTROPY, UNCOVERED, are_of, column, unsound
from workers.openai.prompts import TAIL, ModelCalls, detokenize, render, tokenize
from workers.openai.requests import Prompt
from workers.openai.sequences import token_texts
from workers.protocol import FirstTokenReply
from workers.remote.client import Unreachable

_BEHIND_IMAGES = "the server of the model reads no answer that is given behind images"
_NO_ENTROPIES = "the server of the model tells no entropies of an answer that is given"
# Tokens of the prompts of one call, one for the entropy at each token of an answer, at most.
_MOST_PREFIX_TOKENS = 200_000

Forms = Mapping[AnswerForm, tuple[int, ...]]


async def forms_of(calls: ModelCalls, prompt: Prompt, answer: GivenAnswer | None) -> Forms:
    """Token ids of a given answer in each way in which it may continue its prompt.

    Empty where the server reads none; see `models.engines.prompts`.
    """
    if answer is None or prompt.ids is None or not calls.server.reads_given:
        return {}
    text, eos_id = answer.text, calls.server.eos_id
    end = (eos_id,) if answer.append_eos and eos_id is not None else ()
    forms: dict[AnswerForm, tuple[int, ...]] = {"literal": (*await tokenize(calls, text), *end)}
    tail = await detokenize(calls, prompt.ids[-TAIL:])
    if text[:1].strip() and tail[-1:].strip():
        blank_led = (*await tokenize(calls, f" {text}"), *end)
        if blank_led != forms["literal"]:
            forms["blank_led"] = blank_led
    return forms


async def score_given(
    calls: ModelCalls, prompt: Prompt, text: str, forms: Forms, wanted: frozenset[str]
) -> tuple[records.Sequence, AnswerForm, dict[str, str]]:
    """The answer with statistics of its tokens, its likelier form, and reasons for absent ones."""
    sequence = records.Sequence(text, text.strip(), 0, "given")
    if not forms:  # where a server returns log-probs of prompts, all but images goes by ids
        reason = _BEHIND_IMAGES if calls.server.reads_given else NOT_READ
        return parted(sequence), "literal", dict.fromkeys(wanted, reason)
    readings = await gather(*(_read(calls, prompt, ids) for ids in forms.values()))
    # The first of equally likely ones, which is the literal one.
    likelihoods = [float(np.nan_to_num(values, nan=-np.inf).sum()) for values, _ in readings]
    best = int(np.argmax(likelihoods))
    (form, ids), (logprobs, texts) = list(forms.items())[best], readings[best]
    reason = unsound(logprobs)
    if are_of(texts, text, is_cut=False) is False:
        reason = UNCOVERED
    if reason:
        return parted(sequence), form, dict.fromkeys(wanted, reason)
    absent, entropies = {}, None
    if "answer_token_entropies" in wanted:
        entropies = await _entropies(calls, prompt, ids)
        if entropies is None:
            absent["answer_token_entropies"] = _NO_ENTROPIES
    sequence = replace(
        sequence,
        num_tokens=len(logprobs),
        token_ids=ids,
        token_logprobs=logprobs if "answer_token_logprobs" in wanted else None,
        token_texts=texts if "answer_token_texts" in wanted else None,
        token_entropies=entropies,
    )
    return parted(sequence, texts), form, absent


async def texts_of(calls: ModelCalls, prompt: Prompt, choice: Choice) -> tuple[str, ...] | None:
    """Texts of an answer's tokens that came as ids, by one more prefill; None where not known."""
    ids, before, server = choice.token_ids, prompt.ids, calls.server
    if ids is None or before is None or not server.reads_given:
        return None
    if len(before) + len(ids) >= server.max_context_tokens:
        return None
    _, texts = await _read(calls, prompt, ids)
    return token_texts(replace(choice, tokens=texts))


async def first_tokens(
    calls: ModelCalls, request: GenerationRequest, groups: Sequence[Sequence[str]]
) -> FirstTokenReply:
    """Log of each group of spellings' summed probability as the next token.

    Where only the likeliest tokens are known, those beyond them count nothing; a group that has
    none among them is None.

    Raises:
        PromptTooLong: the prompt does not fit the context.
    """
    server = calls.server
    prompt = await render(calls, request)
    fitted(prompt.num_tokens, 0, request, {"the model's context": server.max_context_tokens})
    names: Sequence[Iterable[str]] = groups  # without ids a token is a whole spelling
    further = {}
    if prompt.ids is not None:
        names, wanted = [], set[int]()
        for group in groups:
            first_ids: list[int] = []
            for text in group:
                first_ids += (await tokenize(calls, text))[:1]
            names.append([f"token_id:{one}" for one in first_ids])
            wanted.update(first_ids)
        ids = sorted(wanted)
        further = {"logprobs": 1, "logprob_token_ids": ids, "return_tokens_as_token_ids": True}
    [choice] = await calls.complete(
        prompt, further=further, max_tokens=1, top=server.profile.logprobs
    )
    if not choice.tops:
        raise Unreachable("it tells no log-probs of the next token")
    logprobs = {} if choice.unsound else choice.tops[0]
    sums = [_sum(logprobs, group) for group in unshared(names)]
    return FirstTokenReply(tuple(sums), server.identity)


def _sum(logprobs: Mapping[str, float], names: Iterable[str]) -> float | None:
    mass = sum(math.exp(logprobs[name]) for name in names if name in logprobs)
    return math.log(mass) if mass > 0.0 else None


async def _read(
    calls: ModelCalls, prompt: Prompt, ids: tuple[int, ...]
) -> tuple[Array, tuple[str, ...]]:
    """Log-probs (T,) and texts of the tokens of a continuation."""
    if not ids:
        return np.zeros(0), ()
    longer = replace(prompt, ids=(*(prompt.ids or ()), *ids))
    [choice] = await calls.complete(longer, further={"prompt_logprobs": 0}, max_tokens=1)
    logprobs, texts = choice.of_prompt(ids)
    if ids[-1] == calls.server.eos_id:
        texts = (*texts[:-1], "")
    return logprobs, texts


async def _entropies(calls: ModelCalls, prompt: Prompt, ids: tuple[int, ...]) -> Array | None:
    """Exact entropies (T,) at each token of an answer, each by a prompt that ends before it.

    The prompts share their beginnings with each other, and so the server's cache.
    """
    before, columns = prompt.ids or (), calls.server.columns
    if columns is None or len(ids) * (len(before) + len(ids)) > _MOST_PREFIX_TOKENS:
        return None
    if not ids:
        return np.zeros(0)
    further = {"prompt": [[*before, *ids[:end]] for end in range(len(ids))]}
    entropies = []
    for choice in await calls.complete(
        prompt, len(ids), further, max_tokens=1, top=2, mode="entropy"
    ):
        columns.check_mark(choice.tops)
        entropy = column(choice.tops, ENTROPY)
        if entropy is None:
            return None
        entropies.append(max(float(entropy[0]), 0.0))
    return np.array(entropies)
