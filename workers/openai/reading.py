"""What a server says of texts that nobody asks it to write: given answers, and next tokens."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from models import records
from models.engines.protocol import fitted
from models.engines.texts import parted, unshared
from models.records import AnswerForm, Array, GenerationRequest, GivenAnswer
from models.statistics import ANSWER_STATISTICS
from workers.calling import together
from workers.client import Unreachable
from workers.openai.columns import check_entropies
from workers.openai.found import NOT_READ
from workers.openai.model_calls import ModelCalls
from workers.openai.prompts import answer_forms, render, tokenize
from workers.openai.replies import ENTROPY_COLUMN, Choice, token_texts
from workers.openai.requests import Prompt
from workers.openai.soundness import UNCOVERED, are_of, unsound

_BEHIND_IMAGES = "the server of the model reads no answer that is given behind images"
_NO_ENTROPIES = "the server of the model tells no entropies of an answer that is given"
# Prompts of one call by which the entropies at each token of an answer are asked, in tokens.
_MOST_PREFIX_TOKENS = 200_000

Forms = Mapping[AnswerForm, tuple[int, ...]]
# Log-probs (T,) of the tokens of a text, and their texts.
_Read = tuple[Array, tuple[str, ...]]


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


async def forms_of(calls: ModelCalls, prompt: Prompt, answer: GivenAnswer | None) -> Forms:
    """Token ids of a given answer in each of its forms; empty where nobody can tokenize it."""
    if answer is None or prompt.ids is None or calls.can.scoring != "prompt_logprobs":
        return {}
    return await answer_forms(calls, prompt, answer.text, append_eos=answer.append_eos)


async def score_given(
    calls: ModelCalls,
    prompt: Prompt,
    answer: GivenAnswer,
    forms: Forms,
    statistics: frozenset[str],
) -> Given:
    """The answer with what the server says of its tokens.

    Args:
        calls: of the server.
        prompt: that the answer continues.
        answer: that is given.
        forms: of `forms_of`.
        statistics: that are wanted.
    """
    can, text = calls.can, answer.text
    sequence = records.Sequence(text, text.strip(), 0, "given")
    read: Mapping[AnswerForm, _Read] = {}
    if forms:
        found = await together(*(_by_ids(calls, prompt, ids) for ids in forms.values()))
        read = dict(zip(forms, found, strict=True))
    elif can.scoring == "echo" and prompt.text is not None:
        read = await _by_echo(calls, prompt.text, text)
    if not read:  # where a server reads log-probs of prompts, all but images is asked by ids
        reason = _BEHIND_IMAGES if can.scoring == "prompt_logprobs" else NOT_READ
        return Given(parted(sequence), absent=dict.fromkeys(statistics & ANSWER_STATISTICS, reason))
    # The first of equally likely ones, which is the literal one.
    form = max(read, key=lambda one: float(np.nan_to_num(read[one][0], nan=-np.inf).sum()))
    logprobs, texts = read[form]
    ids = forms.get(form)
    reason = unsound(logprobs)
    if are_of(texts, text, is_cut=False) is False:
        reason = UNCOVERED
    if reason:
        absent = dict.fromkeys(statistics & ANSWER_STATISTICS, reason)
        return Given(parted(sequence), form, absent=absent)
    absent, entropies = {}, None
    if "answer_token_entropies" in statistics:
        entropies = await _entropies(calls, prompt, ids)
        if entropies is None:
            absent["answer_token_entropies"] = _NO_ENTROPIES
    sequence = replace(
        sequence,
        num_tokens=len(logprobs),
        token_ids=ids,
        token_logprobs=logprobs if "answer_token_logprobs" in statistics else None,
        token_texts=texts if "answer_token_texts" in statistics else None,
        token_entropies=entropies,
    )
    counts_its_end = not answer.append_eos or (bool(forms) and can.eos_id is not None)
    return Given(parted(sequence, texts), form, counts_its_end, absent)


async def texts_of(calls: ModelCalls, prompt: Prompt, choice: Choice) -> tuple[str, ...] | None:
    """Texts of an answer's tokens that came as ids: one more prefill tells them."""
    ids, before, can = choice.token_ids, prompt.ids, calls.can
    if ids is None or before is None or can.scoring != "prompt_logprobs":
        return None
    if len(before) + len(ids) >= can.max_context_tokens:
        return None
    _, texts = await _by_ids(calls, prompt, ids)
    return token_texts(replace(choice, tokens=texts))


async def first_tokens(
    calls: ModelCalls, request: GenerationRequest, groups: Sequence[Sequence[str]]
) -> list[float | None]:
    """Log of each group of spellings' summed probability as the next token.

    Where only the likeliest tokens are known, those beyond them count nothing; a group that has
    none among them is None.

    Raises:
        PromptTooLong: the prompt does not fit the context.
    """
    can = calls.can
    prompt = await render(calls, request)
    fitted(prompt.num_tokens or 0, 0, request, {"the model's context": can.max_context_tokens})
    names: Sequence[Iterable[str]] = groups  # where nobody tokenizes, a token is a whole spelling
    wanted: set[int] = set()
    if prompt.ids is not None:
        names = found = [list[str]() for _ in groups]
        for spellings, tokens in zip(groups, found, strict=True):
            for text in spellings:
                for token in (await tokenize(calls, text))[:1]:
                    tokens.append(f"token_id:{token}")
                    wanted.add(token)
    further = {}
    if wanted and can.profile.tells_chosen_ids:
        further = {"logprobs": 1, "logprob_token_ids": sorted(wanted)}
    [choice] = await calls.complete(prompt, further=further, max_tokens=1, top=can.logprobs)
    if not choice.tops:
        raise Unreachable("it tells no log-probs of the next token")
    logprobs = {} if choice.unsound else choice.tops[0]
    return [_sum(logprobs, group) for group in unshared(names)]


def _sum(logprobs: Mapping[str, float], names: Iterable[str]) -> float | None:
    found = [logprobs[name] for name in names if name in logprobs]
    mass = sum(map(math.exp, found))
    return math.log(mass) if mass > 0.0 else None


async def _by_ids(calls: ModelCalls, prompt: Prompt, ids: tuple[int, ...]) -> _Read:
    if not ids:
        return np.zeros(0), ()
    longer = replace(prompt, ids=(*(prompt.ids or ()), *ids))
    [choice] = await calls.complete(longer, further={"prompt_logprobs": 0}, max_tokens=1)
    logprobs, texts = choice.of_prompt(ids)
    if ids[-1] == calls.can.eos_id:
        texts = (*texts[:-1], "")
    return logprobs, texts


async def _by_echo(calls: ModelCalls, prompt: str, text: str) -> Mapping[AnswerForm, _Read]:
    texts: dict[AnswerForm, str] = {"literal": text}
    if text[:1].strip() and prompt[-1:].strip():
        texts["blank_led"] = f" {text}"
    read = {}
    for form, continued in texts.items():
        longer, top = Prompt(text=prompt + continued), calls.can.logprobs
        [choice] = await calls.complete(longer, further={"echo": True}, max_tokens=1, top=top)
        read[form] = choice.within(len(prompt), len(prompt + continued))
    return read


async def _entropies(
    calls: ModelCalls, prompt: Prompt, ids: tuple[int, ...] | None
) -> Array | None:
    """Exact entropies (T,) at each token of an answer, each asked of what comes before it.

    The prompts share their beginnings with each other, and so the server's cache.
    """
    if calls.can.columns is None or prompt.ids is None or ids is None:
        return None
    if len(ids) * (len(prompt.ids) + len(ids)) > _MOST_PREFIX_TOKENS:
        return None
    if not ids:
        return np.zeros(0)
    further = {"prompt": [[*prompt.ids, *ids[:end]] for end in range(len(ids))]}
    asked = {"max_tokens": 1, "top": 2, "mode": "entropy"}
    columns = []
    for choice in await calls.complete(prompt, len(ids), further, **asked):
        check_entropies(choice)
        column = choice.column(ENTROPY_COLUMN)
        if column is None:
            return None
        columns.append(max(float(column[0]), 0.0))
    return np.array(columns)
