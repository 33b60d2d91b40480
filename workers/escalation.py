"""A second, stronger model behind an OpenAI-compatible server, for answers that may not pass."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx

from models.errors import EscalationFailed, Overloaded
from workers.calling import deadline_of
from workers.calls import Failed, Rejected
from workers.client import NO_ANSWER, Client, reason_of
from workers.config import EscalationConfig
from workers.openai.found import OpenAIServer
from workers.openai.profiles import GENERIC, PROFILES, by_host
from workers.openai.prompts import ModelCalls

# What a reply may bring for each token that was asked for, and beside them.
_TOKEN_BYTES, _OTHER_BYTES = 1024, 65_536


class SecondModel:
    """One model of an OpenAI-compatible server, asked by chat completion."""

    def __init__(
        self, config: EscalationConfig, own_headers: Callable[[], Mapping[str, str]] = dict
    ) -> None:
        self.model = config.model
        self._own_headers = own_headers
        key = config.api_key.get_secret_value()
        self._timeout_s = config.timeout_s
        headers = {}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        self._client = Client(config.url, headers=headers)
        kind = by_host(config.url, config.model) or GENERIC
        self._server = OpenAIServer(config.model, PROFILES[kind])

    async def answer(
        self,
        prompt: str | None,
        messages: Sequence[Mapping[str, Any]] | None,
        *,
        max_tokens: int,
        timeout_s: float | None,
    ) -> str:
        """Its answer, at temperature 0, within the seconds that are left and the settings allow.

        A prompt is sent as one message of the user, where there are no messages.

        Raises:
            EscalationFailed: no answer came, in time or at all.
        """
        most_s = self._timeout_s
        if timeout_s is not None:
            most_s = min(most_s, timeout_s)
        own_headers = dict(self._own_headers())
        until = deadline_of(most_s)
        calls = ModelCalls(self._client, self._server, until=until, headers=own_headers)
        body = {
            "messages": list(messages or [{"role": "user", "content": prompt or ""}]),
            "max_tokens": max_tokens,
            "temperature": 0,
        }
        max_bytes = _OTHER_BYTES + max_tokens * _TOKEN_BYTES
        try:
            # Of the whole call: httpx bounds each read alone, which a slow server may all keep.
            async with asyncio.timeout(most_s):
                reply = await calls.post("/v1/chat/completions", body, max_bytes)
            text = reply["choices"][0]["message"]["content"]
        except (Rejected, Failed, Overloaded) as error:
            raise EscalationFailed(str(error)) from None
        except (*NO_ANSWER, httpx.InvalidURL, OSError) as error:
            raise EscalationFailed(reason_of(error)) from None
        except (LookupError, TypeError):
            raise EscalationFailed("no chat completion in its reply") from None
        if not isinstance(text, str):
            raise EscalationFailed("no text in its reply")
        return text

    async def close(self) -> None:
        await self._client.aclose()
