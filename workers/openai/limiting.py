"""Whether a server ends a reasoning where a request bounds it, tried out."""

from collections.abc import Mapping
from typing import Any

from models import records
from models.engines.protocol import NO_REASONING
from models.engines.texts import parted
from models.records import GenerationRequest
from workers.calls import Calls, Failed
from workers.openai.capabilities import Capabilities
from workers.openai.prompts import render
from workers.openai.replies import read_choices
from workers.openai.requests import BUDGET, Prompt, completion
from workers.openai.tags import with_tags

_SUM = {"role": "user", "content": "What is 12 + 5 + 7?"}
# Tokens that show whether it reasons; the bound that is tried out.
_NUM_TOKENS, _BOUND = 32, 2


async def no_reasoning_limit(calls: Calls, can: Capabilities) -> str:
    """Why it heeds no `max_reasoning_tokens`; "" where it does."""
    request = GenerationRequest(prompt=_SUM["content"])
    if can.chats:
        request = GenerationRequest(messages=(_SUM,))
    prompt = await render(calls, can, request)
    free = await _reasoning(calls, can, prompt, {})
    if free is None:
        return NO_REASONING
    try:
        bound = await _reasoning(calls, can, prompt, {BUDGET: _BOUND})
    except Failed:
        bound = None
    if bound is None:
        return f"the server of the model refuses {BUDGET}: vLLM needs --reasoning-parser for it"
    if not bound.is_finished or len(bound.text) >= len(free.text):
        return f"the server of the model takes {BUDGET}, and reasons for as long as without it"
    return ""


async def _reasoning(
    calls: Calls, can: Capabilities, prompt: Prompt, bounds: Mapping[str, Any]
) -> records.Reasoning | None:
    """How an answer begins to be reasoned; None where it is not, or such a body is refused."""
    body = completion(can, prompt, max_tokens=_NUM_TOKENS) | dict(bounds)
    reply = await calls.try_post(prompt.path, body)
    if reply is None:
        return None
    [choice] = read_choices(reply, 1)
    choice = await with_tags(calls, can, choice, opened=prompt.opened)
    if choice.reasoning is not None:
        return records.Reasoning(choice.reasoning, 0, bool(choice.text))
    whole = records.Sequence(choice.text, "", 0, choice.finish_reason)
    return parted(whole, opened=prompt.opened).reasoning
