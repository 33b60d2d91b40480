"""A second, stronger model behind an OpenAI-compatible server, for answers that may not pass."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx

from models.errors import EscalationFailed, Overloaded
from workers.calling import deadline_of
from workers.client import NO_ANSWER, Client, reason_of
from workers.config import EscalationConfig, Servers
from workers.openai.found import OpenAIServer
from workers.openai.profiles import GENERIC, PROFILES, by_host
from workers.openai.prompts import ModelCalls
from workers.openai.replies import read_choices
from workers.openai.requests import CHAT, most_bytes
from workers.openai.sequences import behind_reasoning, to_sequence
from workers.refusals import Failed, Rejected


class SecondModel:
    """One model of an OpenAI-compatible server, asked by chat completion."""

    def __init__(
        self, config: EscalationConfig, request_headers: Callable[[], Mapping[str, str]] = dict
    ) -> None:
        self.model = config.model
        self._request_headers = request_headers
        self._timeout_s = config.timeout_s
        profile = PROFILES[by_host(config.url, config.model) or GENERIC]
        headers = profile.showing(config.api_key.get_secret_value())
        [url] = Servers(url=config.url).urls
        self._client = Client(url, headers=headers)
        self._server = OpenAIServer(config.model, profile)

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
        headers = dict(self._request_headers())
        until = deadline_of(most_s)
        calls = ModelCalls(self._client, self._server, until=until, headers=headers)
        body = {
            "messages": list(messages or [{"role": "user", "content": prompt or ""}]),
            "max_tokens": max_tokens,
            "temperature": 0,
        }
        try:
            # Bounds the whole call: httpx bounds each read alone, which a slow server may all keep.
            async with asyncio.timeout(most_s):
                reply = await calls.post(CHAT, body, most_bytes(body, 1))
            [choice] = read_choices([reply], 1)
        except (Rejected, Failed, Overloaded) as error:
            raise EscalationFailed(str(error)) from None
        except (*NO_ANSWER, httpx.InvalidURL, OSError) as error:
            raise EscalationFailed(reason_of(error)) from None
        text = behind_reasoning(to_sequence(choice), choice, None, opened=False).text
        if not text:
            raise EscalationFailed("no text in its reply")
        return text

    async def close(self) -> None:
        await self._client.aclose()
