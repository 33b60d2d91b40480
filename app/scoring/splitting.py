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
    """The claims of an answer, or why there are none; what was asked is charged to the caller.

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
            if generator.info.no_grammar:  # as was found out just now
                return Split(None, warning="claims_unsupported"), None
            return Split(None, warning="claims_not_split"), None
        num_tokens = reply.prompt_tokens + reply.answer.num_written
        ask.caller.charge(num_tokens)
        found = Split(claims_in(reply.answer.text), num_tokens)
        if found.claims is None:
            found = Split(None, num_tokens, "claims_not_split")
        if reply.identity != info.identity:
            return found, None
        return found, to_json(found)

    if memory is None:
        found, _ = await compute()
        return found
    name = split_name(ask.caller.namespace, info.identity, request)
    found, _ = await memory.get_or_compute(name, None, decode_split, compute)
    return found
