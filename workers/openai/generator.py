"""A `Generator` over an OpenAI-compatible server.

It is tried out before the first request (`workers.openai.trial`), and again whenever it may have
become another one: after it was away, after a new connection, and every now and then.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from models import errors
from models.images import images_of
from models.probes.protocol import ProbeConfig
from models.records import EFFORT, Generation, GenerationRequest, OnToken, RawPrompt, Tokenized
from workers.calling import Listener, in_time
from workers.config import GeneratorConfig
from workers.hooks import Hooks
from workers.openai.answering import OpenAIRequest
from workers.openai.found import UNKNOWN_CONTEXT, OpenAIServer
from workers.openai.grammars import find_out
from workers.openai.profiles import Profile
from workers.openai.prompts import ModelCalls
from workers.openai.reading import first_tokens
from workers.openai.requests import BUDGET
from workers.openai.trial import GeneratorTrial
from workers.probe_reading import probe_infos
from workers.protocol import NO_TOKENS, FirstTokenReply, Generator, GeneratorInfo, ProbeInfo
from workers.remote.refusals import FILTERED, TOO_LONG, Failed, Rejected
from workers.remote.standing import Server
from workers.remote.upstream import RemoteWorker, Upstream, session_of

Reply = TypeVar("Reply")
Exchange = Callable[[ModelCalls], Awaitable[Reply]]

# The header by which llm-d, and endpoint pickers of Kubernetes' inference extension from 0.8 on,
# know whose calls share a queue.
FAIRNESS = "x-llm-d-inference-fairness-id"
# Fields of a request, by what servers call them that refuse their values.
_FIELDS = {name: name for name in ("temperature", "top_p", "top_k", "stop", "seed", "tools")}
_FIELDS |= dict.fromkeys(("max_tokens", "max_completion_tokens"), "max_new_tokens")


class OpenAIGenerator(RemoteWorker[OpenAIServer]):
    """To be connected before anything else; knows probes by the statistic that each predicts."""

    def __init__(
        self,
        config: GeneratorConfig,
        *,
        probes: Mapping[str, ProbeInfo] | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        hooks = hooks or Hooks()
        self._trial = GeneratorTrial(config, dict(probes or {}))
        [key] = config.keys("generation")[:1] or [""]
        calls = {**self._trial.profile.showing(key), **config.further_headers()}
        upstream = Upstream[OpenAIServer](
            "generation",
            config,
            self._trial,
            hooks,
            whose="hosted" if self._trial.profile.is_hosted else "others",
            is_routed=config.is_routed,
            headers=calls,
            params={"api-version": config.api_version} if config.api_version else {},
        )
        super().__init__(upstream)
        self._is_routed = config.is_routed
        self._tenant = hooks.tenant
        self._own_headers = hooks.headers
        self._learning = asyncio.Lock()
        self._told: tuple[OpenAIServer, Profile, GeneratorInfo] | None = None

    @property
    def info(self) -> GeneratorInfo:
        """Of the server as it was last tried out; since then its profile alone may change."""
        known = self.upstream.known
        if self._told is None or self._told[0] is not known or self._told[1] is not known.profile:
            self._told = known, known.profile, known.info
        return self._told[2]

    async def generate(
        self, request: GenerationRequest, on_token: OnToken | None = None
    ) -> Generation:
        if request.hidden_layers or request.prompt_layer:
            raise errors.InvalidRequest("the model's server shows no hidden states")
        listener = Listener(on_token)

        async def exchange(calls: ModelCalls) -> Generation:
            return await OpenAIRequest(calls, request, listener).run(self.info)

        return await self._send(request, exchange, listener.has_heard_nothing)

    async def first_token_logprobs(
        self, request: GenerationRequest, groups: Sequence[Sequence[str]]
    ) -> FirstTokenReply:
        exchange = partial(first_tokens, request=request, groups=groups)
        return await self._send(request, exchange, lambda: True)

    async def tokenize(self, prompt: RawPrompt, *, special: bool = True) -> Tokenized:
        raise errors.InvalidRequest(NO_TOKENS, field="prompt")

    async def _send(
        self, request: GenerationRequest, exchange: Exchange[Reply], may_repeat: Callable[[], bool]
    ) -> Reply:
        """The reply of the server; each failure is one of `models.errors`."""
        # For a router between here and the server, and for their logs.
        headers = {**session_of(request), **self._own_headers()}
        if self._is_routed and (tenant := self._tenant()):
            headers[FAIRNESS] = tenant
        patience_s = request.patience_s or request.timeout_s
        until = patience_s and time.monotonic() + patience_s

        async def send(server: Server[OpenAIServer], known: OpenAIServer) -> Reply:
            calls = ModelCalls(
                server.client,
                known,
                until=until,
                # Answers that carry a mark of the weights show a change themselves.
                doubt=server.doubt if known.columns is None else lambda: None,
                headers=headers,
            )
            await find_out(calls, request, self._learning)
            return await exchange(calls)

        try:
            async with in_time(request.timeout_s):
                return await self._unchanged(send, may_repeat=may_repeat)
        except Rejected as error:
            raise self._refusal(request, error) from None
        except Failed as error:
            raise errors.EngineError(f"the server of the model failed: {error}") from None

    def _refusal(self, request: GenerationRequest, error: Rejected) -> errors.CocoaError:
        """The error that a server's refusal means; the refusal is not quoted."""
        field = "messages" if request.prompt is None else "prompt"
        if error.code == TOO_LONG:
            message = "prompt and new tokens exceed the model's context"
            if (context := self.info.max_context_tokens) != UNKNOWN_CONTEXT:
                message += f" of {context} tokens"
            return errors.PromptTooLong(message, field=field)
        if error.code == FILTERED:
            message = "is refused by a filter of the model's server"
            return errors.InvalidRequest(message, field=field)
        if BUDGET in error.named:
            message = f"the server of the model refuses {BUDGET}: vLLM needs --reasoning-parser"
            return errors.InvalidRequest(message, field="max_reasoning_tokens")
        refuses = "the server of the model refuses"
        if error.status not in (400, 422):
            return errors.GenerationUnavailable(f"{refuses} the request ({error})")
        if named := sorted(error.named & _FIELDS.keys()):
            message = f"{refuses} this value, or the request ({error})"
            return errors.InvalidRequest(message, field=_FIELDS[named[0]])
        if (image := next(images_of(request.messages or ()), None)) is not None:
            message = f"the server of the model takes no images, or not these messages ({error})"
            return errors.InvalidRequest(message, field=image[0])
        if EFFORT in request.chat_template_kwargs:
            message = f"{refuses} this {EFFORT}, or the messages ({error})"
            return errors.InvalidRequest(message, field=EFFORT)
        if request.grammar is not None:
            return errors.InvalidRequest(f"{refuses} it, or the prompt ({error})", field="grammar")
        if field == "messages":
            return errors.ChatTemplateError(f"{refuses} the messages ({error})", field=field)
        return errors.GenerationUnavailable(f"{refuses} the request ({error})")


async def connect_generator(
    config: GeneratorConfig, hooks: Hooks, probes: ProbeConfig
) -> Generator:
    """The generator at its url, once the server has been tried out."""
    generator = OpenAIGenerator(config, probes=probe_infos(probes), hooks=hooks)
    await generator.upstream.connect()
    return generator
