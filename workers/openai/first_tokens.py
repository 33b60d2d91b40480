"""How likely each of a few spellings is as a prompt's next token."""

import math
from collections.abc import Mapping, Sequence

from models.engines.protocol import fitted
from models.engines.texts import unshared
from models.records import GenerationRequest
from workers.calls import Calls
from workers.client import Unreachable
from workers.openai.capabilities import Capabilities
from workers.openai.prompts import render, tokenize
from workers.openai.replies import read_choices
from workers.openai.requests import Prompt, completion


async def first_tokens(
    calls: Calls,
    can: Capabilities,
    request: GenerationRequest,
    groups: Sequence[Sequence[str]],
) -> list[float | None]:
    """Log of each group of spellings' summed probability; see `Generator.first_token_logprobs`.

    Where only the likeliest tokens are known, those beyond them count nothing; a group that has
    none among them is None.

    Raises:
        PromptTooLong: the prompt does not fit the context.
    """
    prompt = await render(calls, can, request)
    fitted(prompt.num_tokens or 0, 0, request, {"the model's context": can.max_context_tokens})
    if prompt.ids is None:
        return _summed(await _likeliest(calls, can, prompt, ()), _whole(groups))
    ids = []
    for group in groups:
        found = [await tokenize(calls, text) for text in group]
        ids.append([one[0] for one in found if one])
    names = [[f"token_id:{token}" for token in group] for group in unshared(ids)]
    wanted = sorted({token for group in ids for token in group}) if can.tells_chosen_ids else ()
    return _summed(await _likeliest(calls, can, prompt, wanted), names)


async def _likeliest(
    calls: Calls, can: Capabilities, prompt: Prompt, ids: Sequence[int]
) -> Mapping[str, float]:
    """Log-probs of the next token by its name: of these ids, or of the likeliest ones."""
    body = completion(can, prompt, max_tokens=1, top=1 if ids else can.logprobs)
    if ids:
        body["logprob_token_ids"] = list(ids)
    [choice] = read_choices(await calls.post(prompt.path, body), 1)
    if not choice.tops:
        raise Unreachable("it tells no log-probs of the next token")
    return choice.tops[0]


def _whole(groups: Sequence[Sequence[str]]) -> list[list[str]]:
    """The spellings of each group that no other group has: tokens that are one as a whole."""
    texts = [set(group) for group in groups]
    alone = []
    for i, group in enumerate(texts):
        others = set().union(*texts[:i], *texts[i + 1 :])
        alone.append(sorted(group - others))
    return alone


def _summed(logprobs: Mapping[str, float], groups: Sequence[Sequence[str]]) -> list[float | None]:
    found: list[float | None] = []
    for group in groups:
        masses = [math.exp(logprobs[name]) for name in group if name in logprobs]
        found.append(math.log(sum(masses)) if sum(masses) > 0.0 else None)
    return found
