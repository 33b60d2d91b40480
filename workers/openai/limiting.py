"""Whether a server ends a reasoning where a request bounds it, tried out."""

from models import records
from models.engines.protocol import NO_REASONING
from models.engines.texts import parted
from models.records import GenerationRequest
from workers.calls import Calls
from workers.openai.capabilities import Capabilities
from workers.openai.prompts import render
from workers.openai.replies import Choice, is_answer, read_choices
from workers.openai.requests import BUDGET, Prompt, completion
from workers.openai.tags import with_tags

_SUM = {"role": "user", "content": "What is 12 + 5 + 7?"}
# The bound that is tried out, and tokens that show whether it is heeded.
_BOUND, _NUM_TOKENS = 2, 32


async def sum_answer(
    calls: Calls, can: Capabilities, num_tokens: int
) -> tuple[Prompt, Choice | None]:
    """How it begins to answer a sum, which a model that reasons thinks about; None: not at all."""
    request = GenerationRequest(prompt=_SUM["content"])
    if can.chats:
        request = GenerationRequest(messages=(_SUM,))
    prompt = await render(calls, can, request)
    reply = await calls.attempt(prompt.path, completion(can, prompt, max_tokens=num_tokens))
    if not is_answer(reply):
        return prompt, None
    return prompt, read_choices(reply, 1)[0]


async def no_reasoning_limit(calls: Calls, can: Capabilities) -> dict[str, str]:
    """Why it heeds no `max_reasoning_tokens`; "" where it does."""
    return {"no_reasoning_limit": await _reason(calls, can)}


async def _reason(calls: Calls, can: Capabilities) -> str:
    prompt, free = await sum_answer(calls, can, _NUM_TOKENS)
    thoughts = None if free is None else await reasoning_of(calls, can, prompt, free)
    if thoughts is None:
        return NO_REASONING
    body = completion(can, prompt, max_tokens=_NUM_TOKENS) | {BUDGET: _BOUND}
    bound = None
    if (reply := await calls.attempt(prompt.path, body)) is not None:
        bound = await reasoning_of(calls, can, prompt, read_choices(reply, 1)[0])
    if bound is None:
        return f"the server of the model refuses {BUDGET}: vLLM needs --reasoning-parser for it"
    if not bound.is_finished or len(bound.text) >= len(thoughts.text):
        return f"the server of the model takes {BUDGET}, and reasons for as long as without it"
    return ""


async def reasoning_of(
    calls: Calls, can: Capabilities, prompt: Prompt, choice: Choice
) -> records.Reasoning | None:
    """How an answer begins to be reasoned; None where it is not."""
    choice = await with_tags(calls, can, choice, opened=prompt.opened)
    if choice.reasoning is not None:
        return records.Reasoning(choice.reasoning, 0, bool(choice.text))
    whole = records.Sequence(choice.text, "", 0, choice.finish_reason)
    return parted(whole, opened=prompt.opened).reasoning
