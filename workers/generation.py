"""The generation worker: one engine, its queue, and the probes that read its hidden states.

The event loop owns the queue, the deadlines and the cancellations. One thread owns the model and
runs step after step, and comes back to the loop when there is something to report; a second one
does what would hold a step up: tokenising, detokenising, probes. What the loop hands to the running
steps is a deque, and flags that only it sets. Grammars are tried out in another process, and then
compiled on threads that nobody watches: those that compile at once wait for no others.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, TypeVar

from models.engines.protocol import Engine, EngineInfo, Job, StepReport
from models.errors import EngineError, InvalidRequest, ModelLost, NotReady
from models.images import images_of
from models.probes.domain import PromptDomain
from models.probes.protocol import Probe
from models.records import (
    DEFAULT_NEW_TOKENS,
    Generation,
    GenerationRequest,
    Grammar,
    OnToken,
    RawPrompt,
    SamplingParams,
    Token,
    Tokenized,
)
from models.threads import ModelThread
from models.warnings import Warned
from workers.calling import Listener, failing_as, in_time
from workers.probe_reading import (
    with_inputs_of,
    with_probes_read,
    with_prompt_compared,
    with_readings,
)
from workers.protocol import NO_TOKENS, FirstTokenReply, GeneratorInfo, ProbeInfo, refuse_unheeded
from workers.trials import Trials

Result = TypeVar("Result")

_STOPPED = "the language model has stopped"
_CLAMPED = (Warned.MAX_NEW_TOKENS_CLAMPED,)
# Most seconds that an idle model waits for prompts that came with the first.
_TOGETHER_S = 0.02


@dataclass(eq=False, slots=True)
class _Waiter:
    """The event loop's record of a job that was handed in."""

    future: "asyncio.Future[None]"
    listener: Listener


class GenerationWorker:
    """A `Generator` around one `Engine` in this process.

    Args:
        probes: read the hidden states of its answers, by the statistic that each predicts.
        domain: of the calibration's prompts, with which all prompts are compared.
        model_thread: runs the engine's steps, and between them what else awaits it.
        text_thread: runs everything else that blocks.
        on_step: called after each step with its number of rows.
        caller: name of the present caller; callers take turns in trying grammars.
    """

    def __init__(
        self,
        engine: Engine[Any],
        probes: Mapping[str, Probe] | None = None,
        domain: PromptDomain | None = None,
        *,
        model_thread: ModelThread | None = None,
        text_thread: ModelThread | None = None,
        on_step: Callable[[int], None] = lambda num_rows: None,
        caller: Callable[[], str] = str,
    ) -> None:
        self.engine = engine
        self._probes = dict(probes or {})
        self._domain = domain
        self.model_thread = model_thread or ModelThread("generation")
        self._text_thread = text_thread or ModelThread("texts")
        self._trials = Trials(engine.vocabulary, caller) if not engine.info.no_grammar else None
        # By whether they compile at once.
        self._compilers = ModelThread("long grammars"), ModelThread("grammars")
        self._on_step = on_step
        self._incoming: deque[Job] = deque()
        self._taken: list[Job] = []  # by the latest step
        self._waiters: dict[Job, _Waiter] = {}
        self._calls: set[asyncio.Future[Any]] = set()  # under way beside the model's thread
        self._wake = asyncio.Event()
        self._closed = False
        self.info = _info_of(engine.info, self._probes, domain)

    @property
    def num_waiting(self) -> int:
        return [job.started_at for job in self._waiters].count(None)

    @property
    def busy_since(self) -> float | None:
        threads = (self.model_thread, self._text_thread)
        return min(filter(None, (thread.busy_since for thread in threads)), default=None)

    async def run(self) -> None:
        """An exception of the engine fails the running requests only."""
        loop = asyncio.get_running_loop()
        try:
            while not self._closed:
                if not self._incoming and self.engine.is_idle:
                    self._wake.clear()
                    self._on_step(0)
                    await self._wake.wait()
                    if self._calls and not self._closed:
                        # Prompts that came together are tokenised one by one, and read together.
                        tokenised = loop.run_in_executor(self._text_thread, lambda: None)
                        await asyncio.wait([tokenised], timeout=_TOGETHER_S)
                    continue
                try:
                    done = await loop.run_in_executor(self.model_thread, self._steps)
                except ModelLost:
                    raise
                except Exception as error:
                    await loop.run_in_executor(self.model_thread, self.engine.abandon)
                    self._fail_step(self._taken, error)
                else:
                    self._deliver(*done)
        finally:
            self._closed = True
            for job in list(self._waiters):
                self._settle(job, NotReady(_STOPPED))
            for call in self._calls:
                call.cancel()
            if self._trials is not None:
                self._trials.close()

    def _steps(self) -> tuple[StepReport, list[int]]:
        """Step until there is news, or another call awaits the thread; tells each step's rows, too.

        Runs on the model's thread. To change threads at each step costs a small model a tenth of
        its time. New jobs join and cancelled ones leave at the next step all the same.
        """
        num_rows = []
        while True:
            self._taken = []
            while self._incoming:
                self._taken.append(self._incoming.popleft())
            report = self.engine.step(self._taken)
            num_rows.append(report.num_rows)
            has_news = report.tokens or report.finished or report.failed
            if has_news or self._closed or self.engine.is_idle or self.model_thread.is_awaited:
                return report, num_rows
            self.model_thread.mark()

    async def warm_up(self) -> None:
        sampling = SamplingParams(num_samples=2, max_new_tokens=4, seed=0)
        statistics = self.info.statistics
        await self.generate(GenerationRequest("Hello", sampling=sampling, statistics=statistics))
        if self._trials is not None:
            self._trials.start()

    async def generate(
        self, request: GenerationRequest, on_token: OnToken | None = None
    ) -> Generation:
        called_at = time.monotonic()
        probes = {name: probe for name, probe in self._probes.items() if name in request.statistics}
        to_engine = request
        if probes:
            to_engine = with_inputs_of(probes, request)
        if self._domain is not None and not request.prompt_layer:
            to_engine = replace(to_engine, prompt_layer=self._domain.layer)
        listener = Listener(on_token)

        def read_job() -> Generation:
            generation = self.engine.generation(job)
            if self._domain is not None and not request.prompt_layer:
                with failing_as(EngineError, "comparing the prompt"):
                    generation = with_prompt_compared(self._domain, generation)
            if not probes:
                return generation
            with failing_as(EngineError, "reading a probe"):
                generation = with_probes_read(probes, to_engine, generation)
            return with_readings(generation, request)

        for field in dict(images_of(to_engine.messages or ())):
            refuse_unheeded(field, self.info.no_images)
        prepare = partial(self.engine.prepare, to_engine, streams=on_token is not None)
        async with in_time(request.timeout_s):
            if to_engine.grammar is not None:
                await self._compile(to_engine.grammar)
            job = await self._in_thread("tokenising", prepare)
            await self._finished(job, listener)
            generation = await self._in_thread("detokenising", read_job)
        listener.tell_rest(generation.answer)
        generates = to_engine.answer is None or to_engine.num_samples > 0
        wanted = to_engine.sampling.max_new_tokens or DEFAULT_NEW_TOKENS
        fitting = job.request.sampling.max_new_tokens or 0
        if generates and fitting < wanted and not to_engine.sampling.clamps_quietly:
            generation = replace(generation, warnings=generation.warnings + _CLAMPED)
        started_at = job.started_at or called_at
        return replace(
            generation,
            identity=self.info.identity,
            queue_s=started_at - called_at,
            generate_s=time.monotonic() - started_at,
        )

    async def first_token_logprobs(
        self, request: GenerationRequest, groups: Sequence[Sequence[str]]
    ) -> FirstTokenReply:
        engine = self.engine
        async with in_time(request.timeout_s):
            prepare = partial(engine.prepare_first_token, request, groups)
            job = await self._in_thread("tokenising", prepare)
            await self._finished(job, Listener(None))
            logprobs = await self._in_thread("reading", partial(engine.first_token_logprobs, job))
            return FirstTokenReply(tuple(logprobs), self.info.identity)

    async def tokenize(self, prompt: RawPrompt, *, special: bool = True) -> Tokenized:
        if not self.info.tokenizer:
            raise InvalidRequest(NO_TOKENS, field="prompt")
        work = partial(self.engine.tokenize, prompt, special=special)
        return await self._in_thread("tokenising", work)

    async def close(self) -> None:
        """The step in flight ends first."""
        self._closed = True
        self._wake.set()
        for thread in (self.model_thread, self._text_thread, *self._compilers):
            thread.shutdown(wait=False)
        if self._trials is not None:
            self._trials.close()

    async def _compile(self, grammar: Grammar) -> None:
        """Have the engine know a grammar, once it is known to harm nobody."""
        refuse_unheeded("grammar", self.info.no_grammar)
        if self._closed or self._trials is None:
            raise NotReady(_STOPPED)
        verdict = await self._trials.check(self.engine.grammar_source(grammar))
        if verdict.refusal:
            raise InvalidRequest(verdict.refusal, field="grammar")
        compile_it = partial(self.engine.compile, grammar)
        await self._in_thread("compiling a grammar", compile_it, self._compilers[verdict.is_quick])

    async def _in_thread(
        self, what: str, work: Callable[[], Result], thread: ModelThread | None = None
    ) -> Result:
        """The result of `work` on a thread aside the model's, by default that of texts.

        Raises:
            CocoaError: as it raises it; anything else becomes an `EngineError`.
            NotReady: the worker ended meanwhile.
        """
        if self._closed:
            raise NotReady(_STOPPED)
        call = asyncio.get_running_loop().run_in_executor(thread or self._text_thread, work)
        self._calls.add(call)
        try:
            with failing_as(EngineError, what):
                return await call
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise NotReady(_STOPPED) from None  # `run` has ended, and the call with it
        finally:
            self._calls.discard(call)

    async def _finished(self, job: Job, listener: Listener) -> None:
        """Wait until a job is finished; leaving early, for whatever reason, frees its rows."""
        if self._closed:
            raise NotReady(_STOPPED)
        waiter = _Waiter(asyncio.get_running_loop().create_future(), listener)
        self._waiters[job] = waiter
        self._incoming.append(job)
        self._wake.set()
        try:
            await waiter.future
        finally:
            job.cancelled = True
            self._waiters.pop(job, None)

    def _deliver(self, report: StepReport, num_rows: Sequence[int]) -> None:
        for job, token in report.tokens:
            self._stream(job, token)
        for job in report.finished:
            self._settle(job, None)
        for job, error in report.failed:
            self._settle(job, error)
        for num in filter(None, num_rows):
            self._on_step(num)

    def _stream(self, job: Job, token: Token) -> None:
        waiter = self._waiters.get(job)
        if waiter is None or waiter.future.done():
            return
        try:
            waiter.listener.tell(token)
        except Exception as error:  # the caller's code: its request fails, the loop lives
            self._settle(job, error)

    def _fail_step(self, incoming: Sequence[Job], error: Exception) -> None:
        """End all that had started, and all that came with the step: it may have lost them."""
        for job in list(self._waiters):
            if job.started_at is not None or job in incoming:
                self._settle(job, EngineError(f"a decoding step failed: {type(error).__name__}"))

    def _settle(self, job: Job, error: Exception | None) -> None:
        waiter = self._waiters.get(job)
        if waiter is None or waiter.future.done():
            return
        if error is None:
            waiter.future.set_result(None)
        else:
            job.cancelled = True
            waiter.future.set_exception(error)


def _info_of(
    engine: EngineInfo, probes: Mapping[str, Probe], domain: PromptDomain | None
) -> GeneratorInfo:
    cards = {name: ProbeInfo.of(probe.card) for name, probe in probes.items()}
    facts = {field.name: getattr(engine, field.name) for field in fields(engine)}
    facts |= {"statistics": engine.statistics.union(cards), "probes": cards}
    return GeneratorInfo(**facts, prompts="" if domain is None else domain.sha256)
