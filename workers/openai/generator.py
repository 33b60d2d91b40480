"""A `Generator` over OpenAI-compatible servers that all hold the same model.

What a server can do is tried out before it is first asked, and again whenever it may have become
another one: after it was away, after a new connection, and every now and then.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import httpx

from models.engines.protocol import EngineConfig, check_hidden_layers
from models.errors import (
    ChatTemplateError,
    CocoaError,
    EngineError,
    GenerationUnavailable,
    NotReady,
    PromptTooLong,
)
from models.records import Generation, GenerationRequest, OnToken, Token
from workers.asking import Failed, Rejected
from workers.config import GeneratorConfig, WorkerConfig
from workers.deadlines import within
from workers.hooks import Hooks
from workers.openai.answering import Answering
from workers.openai.calls import Calls
from workers.openai.capabilities import UNKNOWN_CONTEXT, Served
from workers.openai.first_tokens import first_tokens
from workers.openai.known_probes import known_probes
from workers.openai.probing import GeneratorTrial
from workers.protocol import FirstTokenReply, Generator, GeneratorInfo, ProbeInfo
from workers.standing import Standing
from workers.upstream import Refused, Server, Unreachable, Upstream, session_of
from workers.wire import REQUEST_ID_HEADER, SESSION_HEADER

Reply = TypeVar("Reply")

_STOPPED = "the adapter of the language model has stopped"
_CHANGED = "the server's model changed while it answered"
# The code by which servers say that a prompt is too long.
_TOO_LONG = "context_length_exceeded"


class OpenAIGenerator:
    """See `Generator`; to be connected before anything else.

    Args:
        config: where the servers are, and which of their models is asked: the first that they
            list, where the settings name none.
        probes: that this deployment knows, by the statistic that each predicts.
        hooks: what it is tied to.
    """

    def __init__(
        self,
        config: GeneratorConfig,
        *,
        probes: Mapping[str, ProbeInfo] | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        self._budget = config.max_request_tokens
        hooks = hooks or Hooks()
        model = "" if config.model == EngineConfig().model else config.model
        self._upstream = Upstream("generation", config, self._check, on_call=hooks.on_call)
        self._request_id = hooks.request_id
        self._trial = GeneratorTrial(model, dict(probes or {}))
        self._standings: dict[str, Standing[Served]] = {}
        for server in self._upstream.servers:
            self._standings[server.url] = Standing(server, self._trial)

    async def connect(self) -> None:
        """Wait until a server has been tried out."""
        await self._upstream.connect()

    @property
    def info(self) -> GeneratorInfo:
        """See `Generator.info`; of the first server that is up, as it was last tried out."""
        servers = sorted(self._upstream.servers, key=lambda server: not server.is_up)
        for server in servers:
            if (served := self._standings[server.url].tried) is not None:
                return served.info
        raise NotReady("no server of the language model has answered")

    @property
    def num_waiting(self) -> int:
        """See `Generator.num_waiting`; what waits in a server is not told."""
        return 0

    @property
    def busy_since(self) -> float | None:
        """See `Worker.busy_since`; nothing here blocks."""
        return None

    async def run(self) -> None:
        """See `Worker.run`."""
        await self._upstream.run()

    async def warm_up(self) -> None:
        """See `Worker.warm_up`; trying it out has warmed the server up."""

    async def close(self) -> None:
        """See `Worker.close`."""
        await self._upstream.close()
        for standing in self._standings.values():
            await standing.close()

    async def generate(
        self, request: GenerationRequest, on_token: OnToken | None = None
    ) -> Generation:
        """See `Generator.generate`."""
        check_hidden_layers(request, num_layers=0)
        until = _until_of(request)
        num_told = 0

        def tell(token: Token) -> None:
            nonlocal num_told
            num_told += 1
            if on_token is not None:
                on_token(token)

        async def ask(calls: Calls, served: Served) -> tuple[Generation, bool]:
            listener = None if on_token is None else tell
            answering = Answering(calls, served, request, self._budget, listener)
            return await answering.run(), answering.has_other_mark

        async def send(server: Server) -> Generation:
            return await self._unchanged(
                server, request, until, ask, may_repeat=lambda: not num_told
            )

        work = self._call(request, send, may_repeat=lambda: not num_told)
        return await within(request.timeout_s, work)

    async def first_token_logprobs(
        self, request: GenerationRequest, groups: Sequence[Sequence[str]]
    ) -> FirstTokenReply:
        """See `Generator.first_token_logprobs`."""
        until = _until_of(request)

        async def ask(calls: Calls, served: Served) -> tuple[FirstTokenReply, bool]:
            logprobs = await first_tokens(calls, served.capabilities, request, groups)
            return FirstTokenReply(tuple(logprobs), served.identity), False

        async def send(server: Server) -> FirstTokenReply:
            return await self._unchanged(server, request, until, ask, may_repeat=lambda: True)

        return await within(request.timeout_s, self._call(request, send, may_repeat=lambda: True))

    async def _check(self, server: Server) -> None:
        await self._standings[server.url].check()

    async def _unchanged(
        self,
        server: Server,
        request: GenerationRequest,
        until: float | None,
        ask: Callable[[Calls, Served], Awaitable[tuple[Reply, bool]]],
        *,
        may_repeat: Callable[[], bool],
    ) -> Reply:
        """What one server answers, while it is the same from beginning to end.

        Where it became another one it is asked once more.

        Raises:
            GenerationUnavailable: it has changed again, or has been listened to already.
        """
        standing = self._standings[server.url]
        for _ in range(2):
            served = await standing.settled()
            columns = served.capabilities.columns
            # Answers that carry a mark of the weights show a change themselves.
            on_open = standing.doubt if columns is None else lambda: None
            calls = Calls(
                server.client,
                served.capabilities.model_id,
                until,
                on_open=on_open,
                headers=self._headers_of(request),
            )
            reply, has_other_mark = await ask(calls, served)
            new_words = calls.system_fingerprints - served.words
            if has_other_mark or new_words:
                self._trial.new_words |= new_words
                standing.doubt()
            if (await standing.settled()).identity == served.identity and not has_other_mark:
                return reply
            if not may_repeat():
                break
        raise GenerationUnavailable(_CHANGED)

    async def _call(
        self,
        request: GenerationRequest,
        send: Callable[[Server], Awaitable[Reply]],
        *,
        may_repeat: Callable[[], bool],
    ) -> Reply:
        """What one of the servers answers; every failure is one of `models.errors`."""
        if self._upstream.is_closed:
            raise NotReady(_STOPPED)
        try:
            return await self._upstream.call(send, key=_key(request), may_repeat=may_repeat)
        except CocoaError:
            raise
        except Rejected as error:
            raise self._refusal(request, error) from None
        except Failed as error:
            raise EngineError(f"the server of the model failed: {error}") from None
        except (Unreachable, Refused, httpx.TransportError) as error:
            if self._upstream.is_closed:
                raise NotReady(_STOPPED) from None
            reason = str(error) or type(error).__name__
            raise GenerationUnavailable(f"the server of the model: {reason}") from None

    def _headers_of(self, request: GenerationRequest) -> dict[str, str]:
        """For routers between here and the servers, and for their logs."""
        headers = {SESSION_HEADER: session_of(_key(request))}
        if (request_id := self._request_id()) is not None:
            headers[REQUEST_ID_HEADER] = request_id
        return headers

    def _refusal(self, request: GenerationRequest, error: Rejected) -> CocoaError:
        """What a server means that does not take a request; it is not quoted."""
        field = "prompt" if request.prompt is not None else "messages"
        if error.code == _TOO_LONG:
            context = self.info.max_context_tokens
            size = "" if context == UNKNOWN_CONTEXT else f" of {context} tokens"
            message = f"prompt and new tokens exceed the model's context{size}"
            return PromptTooLong(message, field=field)
        if request.messages is not None and error.status in (400, 422):
            message = f"the server of the model refuses the messages ({error})"
            return ChatTemplateError(message, field="messages")
        return GenerationUnavailable(f"the server of the model refuses the request ({error})")


def _until_of(request: GenerationRequest) -> float | None:
    return None if request.timeout_s is None else time.monotonic() + request.timeout_s


def _key(request: GenerationRequest) -> str:
    """What is equal for requests whose prompts begin alike."""
    if request.prompt is not None:
        return request.prompt
    return "\n".join(message["content"] for message in request.messages or ())


async def connect_generator(config: WorkerConfig, hooks: Hooks) -> OpenAIGenerator:
    """The generator at its url, once one of its servers has been tried out.

    Raises:
        ModelNotLoaded: a folder of `COCOA_PROBES__…` holds no card of a probe.
    """
    probes = known_probes(config.probes)
    generator = OpenAIGenerator(config.generation, probes=probes, hooks=hooks)
    await generator.connect()
    return generator


_: type[Generator] = OpenAIGenerator  # mypy holds the class to its protocol
