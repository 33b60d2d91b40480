"""What models were asked, remembered until their answers come: for LiteLLM's guardrail API."""

import hashlib
import json

from app.http.requests.guardrail import Asked
from app.scoring.ask import current_caller
from app.scoring.memory import Memory
from models.errors import InvalidRequest, UnknownCall

# Beside the content an entry holds its digest.
_DIGEST_BYTES = 16


class AskedCalls:
    """What was asked, by the caller's key and LiteLLM's id of the call.

    Args:
        memory: shared by all gateways where its cache is.
        ttl_s: seconds until it is forgotten.
        max_bytes: of one entry of the cache.
    """

    def __init__(self, memory: Memory, ttl_s: int, max_bytes: int) -> None:
        self._memory = memory
        self._ttl_s = ttl_s
        self._max_bytes = max_bytes - _DIGEST_BYTES

    def remember(self, call_id: str, asked: Asked) -> None:
        """Remember what a model is about to be asked.

        Raises:
            InvalidRequest: there is too much of it.
        """
        content = asked.model_dump_json(exclude_none=True).encode()
        if len(content) > self._max_bytes:
            message = f"more than {self._max_bytes} bytes of a prompt are not remembered"
            raise InvalidRequest(message, field="structured_messages")
        self._memory.put({_name(call_id): content}, self._ttl_s)

    async def recall(self, call_id: str) -> Asked:
        """What was asked in a call of the same key.

        Raises:
            UnknownCall: nobody remembers it.
        """
        [asked] = await self._memory.get_many([_name(call_id)], Asked.model_validate_json)
        if asked is None:
            message = (
                "nobody remembers what was asked in this call: the guardrail's mode must hold "
                "pre_call, and its answer come within COCOA_GUARDRAIL_TTL_S seconds"
            )
            raise UnknownCall(message, field="litellm_call_id")
        return asked


def _name(call_id: str) -> str:
    """Of an entry: one key's calls cannot be named by another."""
    named = json.dumps([current_caller.get().name, call_id]).encode()
    return f"guardrail:{hashlib.sha256(named).hexdigest()}"
