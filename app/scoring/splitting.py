"""An answer through the language model once more, which splits it into claims."""

import asyncio

from app.scoring.ask import Ask
from app.scoring.claims import Split, claims_in, decode_split, split_request
from app.scoring.deployment import AskLimits
from app.scoring.entries import split_name
from app.scoring.memory import Memory
from app.scoring.statements import spans_of
from models.codec import to_json
from models.errors import EngineError, InvalidLogits, InvalidRequest
from workers.admission import Turn
from workers.protocol import Generator


async def split(
    ask: Ask,
    answer: str,
    generator: Generator,
    memory: Memory | None,
    limits: AskLimits,
    turn: Turn,
) -> Split:
    """The claims of an answer, or a warning for none; the model's tokens are charged to the caller.

    Raises:
        CocoaError: the generator is gone, or busy; a reply that is no list of claims is no error.
    """
    info = generator.info
    if info.no_grammar:
        return Split(None, warning="claims_unsupported")
    if not (await asyncio.to_thread(spans_of, [answer], ask.tools))[answer]:
        return Split(())
    # Half of the context is the question's.
    most_tokens = max(1, min(limits.max_claim_tokens, info.max_context_tokens // 2))
    request = split_request(ask, answer, most_tokens)

    async def compute() -> tuple[Split, bytes | None]:
        try:
            async with turn():
                reply = await generator.generate(request)
        except (InvalidRequest, EngineError, InvalidLogits):  # too long, or no JSON
            if generator.info.no_grammar:  # as this request has shown
                return Split(None, warning="claims_unsupported"), None
            return Split(None, warning="claims_not_split"), None
        num_tokens = reply.prompt_tokens + reply.answer.num_written
        ask.caller.charge(num_tokens)
        result = Split(claims_in(reply.answer.text), num_tokens)
        if result.claims is None:
            result = Split(None, num_tokens, "claims_not_split")
        if reply.identity != info.identity:
            return result, None
        return result, to_json(result)

    if memory is None:
        result, _ = await compute()
        return result
    name = split_name(ask.caller.namespace, info.identity, request)
    result, _ = await memory.get_or_compute(name, None, decode_split, compute)
    return result
