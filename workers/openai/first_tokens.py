"""How likely each of a few spellings is as a prompt's next token."""

import math
from collections.abc import Iterable, Mapping, Sequence

from models.engines.protocol import fitted
from models.engines.texts import unshared
from models.records import GenerationRequest
from workers.calls import Calls
from workers.client import Unreachable
from workers.openai.found import OpenAIServer
from workers.openai.prompts import render, tokenize
from workers.openai.replies import read_choices
from workers.openai.requests import Prompt, completion


async def first_tokens(
    calls: Calls,
    can: OpenAIServer,
    request: GenerationRequest,
    groups: Sequence[Sequence[str]],
) -> list[float | None]:
    """Log of each group of spellings' summed probability as the next token.

    Where only the likeliest tokens are known, those beyond them count nothing; a group that has
    none among them is None.

    Raises:
        PromptTooLong: the prompt does not fit the context.
    """
    prompt = await render(calls, can, request)
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
    if not can.profile.tells_chosen_ids:
        wanted.clear()
    logprobs = await _likeliest(calls, can, prompt, sorted(wanted))
    return [_sum(logprobs, group) for group in unshared(names)]


async def _likeliest(
    calls: Calls, can: OpenAIServer, prompt: Prompt, ids: Sequence[int]
) -> Mapping[str, float]:
    """Log-probs of the next token by its name: of these ids, or of the likeliest ones.

    Of none where what the server tells are no log-probs.
    """
    body = completion(can, prompt, max_tokens=1, top=can.logprobs)
    if ids:
        body |= {"logprobs": 1, "logprob_token_ids": ids}
    [choice] = read_choices(await calls.post(prompt.path, body), 1)
    if not choice.tops:
        raise Unreachable("it tells no log-probs of the next token")
    return {} if choice.unsound else choice.tops[0]


def _sum(logprobs: Mapping[str, float], names: Iterable[str]) -> float | None:
    found = [logprobs[name] for name in names if name in logprobs]
    mass = sum(map(math.exp, found))
    return math.log(mass) if mass > 0.0 else None
