"""Any Hugging Face causal language model in this process.

The event loop owns the queue, the deadlines and the cancellations; one thread owns the model and
runs step after step.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from models.checkpoints import (
    embedded_or,
    hide_progress_bars,
    pick_device,
    public_name,
    revision_of,
)
from models.embedded import LANGUAGE_MODEL_DIR
from models.engines.detokenizer import Detokenizer
from models.engines.inflight import InflightBatch
from models.engines.jobs import Job, StepReport
from models.engines.prompts import encode_answer, encode_prompt, first_token_ids, opens_reasoning
from models.engines.protocol import EngineConfig, OnStep, check_hidden_layers
from models.engines.rows import RowCache
from models.errors import EngineError, ModelLost, NotReady
from models.records import (
    ANSWER_STATISTICS,
    SAMPLE_STATISTICS,
    Generation,
    GenerationRequest,
    OnToken,
)
from models.threads import ModelThread

Result = TypeVar("Result")


def _ignore(num_rows: int) -> None:
    """The default of `on_step`."""


@dataclass(eq=False, slots=True)
class _Waiter:
    """What the event loop keeps of a job."""

    future: "asyncio.Future[None]"
    on_token: OnToken | None


class TransformersEngine:
    """Greedy answer and samples by in-flight batching; see `models.engines.inflight`."""

    statistics = ANSWER_STATISTICS | SAMPLE_STATISTICS | {"p_true_logprob", "answer_hidden_mean"}

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        config: EngineConfig,
        *,
        model_id: str,
        revision: str | None = None,
        on_step: OnStep = _ignore,
    ) -> None:
        self.model_id = model_id
        self.revision = revision
        self.max_context_tokens = _context_length(model, tokenizer)
        self._config = config
        self._tokenizer = tokenizer
        eos_ids = _eos_ids(model, tokenizer)
        self._eos_id = (
            tokenizer.eos_token_id
            if tokenizer.eos_token_id in eos_ids
            else min(eos_ids, default=None)
        )
        self._detokenizer = Detokenizer(tokenizer, eos_ids)
        cache = RowCache(model)
        self.dtype = str(model.dtype).removeprefix("torch.")
        self.num_layers = cache.tap.num_layers
        self.hidden_size = int(model.config.get_text_config(decoder=True).hidden_size)
        self._batch = InflightBatch(
            cache,
            self._detokenizer,
            max_rows=config.max_rows,
            max_cache_tokens=config.max_cache_tokens,
        )
        self._on_step = on_step
        self._incoming: list[Job] = []
        self._waiters: dict[Job, _Waiter] = {}
        self._wake = asyncio.Event()
        self._closed = False
        threads = config.threads or torch.get_num_threads()
        self._model_thread = ModelThread("generation", torch.set_num_threads, (threads,))
        # Tokenising a long prompt takes longer than a step; its own thread keeps it off the model's
        # and the event loop.
        self._tokenizer_thread = ModelThread("tokenizer")

    @classmethod
    def load(cls, config: EngineConfig, on_step: OnStep = _ignore) -> Self:
        """Load model and tokenizer; blocks. Only safetensors, never remote code."""
        hide_progress_bars()
        path = embedded_or(config.model, LANGUAGE_MODEL_DIR)
        options: dict[str, Any] = {"revision": config.revision, "trust_remote_code": False}
        tokenizer = AutoTokenizer.from_pretrained(path, **options)
        model: Any = AutoModelForCausalLM.from_pretrained(
            path,
            dtype=config.dtype if config.dtype == "auto" else getattr(torch, config.dtype),
            attn_implementation=config.attn_implementation,
            use_safetensors=True,
            **options,
        )
        return cls(
            model.to(pick_device(config.device)).eval(),
            tokenizer,
            config,
            model_id=public_name(config.model),
            revision=revision_of(model, path),
            on_step=on_step,
        )

    @property
    def num_waiting(self) -> int:
        """Requests of which no row runs yet."""
        return len(self._incoming) + self._batch.num_waiting

    @property
    def busy_since(self) -> float | None:
        """See `Engine.busy_since`."""
        began = (self._model_thread.busy_since, self._tokenizer_thread.busy_since)
        return min((since for since in began if since is not None), default=None)

    async def run(self) -> None:
        """Step until closed.

        An exception of the model fails the running requests; a lost device ends the loop.
        """
        loop = asyncio.get_running_loop()
        try:
            while not self._closed:
                if not self._incoming and self._batch.is_idle:
                    self._wake.clear()
                    self._on_step(0)
                    await self._wake.wait()
                    continue
                incoming, self._incoming = self._incoming, []
                try:
                    report = await loop.run_in_executor(
                        self._model_thread, self._batch.step, incoming
                    )
                except Exception as error:
                    self._fail_started(error)
                    if isinstance(error, ModelLost):
                        raise
                    continue
                self._deliver(report)
        finally:
            self._closed = True
            for job in list(self._waiters):
                self._settle(job, NotReady("the language model has stopped"))

    async def generate(
        self, request: GenerationRequest, on_token: OnToken | None = None
    ) -> Generation:
        """See `Engine.generate`."""
        called_at = time.monotonic()
        job = await self._on_tokenizer_thread(lambda: self._prepare(request, on_token is not None))
        await self._finished(job, on_token)
        rows = sorted(job.finished, key=lambda row: row.index)
        answer, *samples = await self._on_tokenizer_thread(
            lambda: list(map(self._detokenizer.sequence, rows))
        )
        started_at = job.started_at or called_at
        reasoning = any(
            sequence.compared_text != sequence.text.strip() for sequence in (answer, *samples)
        )
        return Generation(
            answer=answer,
            samples=tuple(samples),
            prompt_tokens=len(job.prompt_ids),
            seed=job.seed,
            model_id=self.model_id,
            revision=self.revision,
            queue_s=started_at - called_at,
            generate_s=time.monotonic() - started_at,
            warnings=("reasoning_excluded",) if reasoning else (),
            answer_hidden_mean=None if job.hidden is None else job.hidden.value().numpy(force=True),
        )

    async def first_token_logprobs(
        self, request: GenerationRequest, groups: Sequence[Sequence[str]]
    ) -> list[float | None]:
        """See `Engine.first_token_logprobs`."""
        prompt_ids, ids = await self._on_tokenizer_thread(
            lambda: (self._encode(request), first_token_ids(self._tokenizer, groups))
        )
        asked = tuple(group for group in ids if group)
        job = Job(
            request=request,
            prompt_ids=prompt_ids,
            seed=0,
            uniforms=np.empty((0, 1)),
            first_token_ids=asked,
        )
        if asked:
            await self._finished(job, None)
        logprobs = iter(job.first_token_logprobs or [])
        return [next(logprobs) if group else None for group in ids]

    async def encode_answer(self, text: str, *, append_eos: bool) -> tuple[int, ...]:
        """See `Engine.encode_answer`."""
        eos_id = self._eos_id if append_eos else None
        return await self._on_tokenizer_thread(lambda: encode_answer(self._tokenizer, text, eos_id))

    async def close(self) -> None:
        """End `run` after the step in flight."""
        self._closed = True
        self._wake.set()
        self._model_thread.shutdown(wait=False)
        self._tokenizer_thread.shutdown(wait=False)

    async def _on_tokenizer_thread(self, work: Callable[[], Result]) -> Result:
        self._check_open()
        return await asyncio.get_running_loop().run_in_executor(self._tokenizer_thread, work)

    def _check_open(self) -> None:
        if self._closed:
            raise NotReady("the language model has stopped")

    async def _finished(self, job: Job, on_token: OnToken | None) -> None:
        """Wait until a job is finished; leaving early, for whatever reason, frees its rows."""
        self._check_open()
        waiter = self._waiters[job] = _Waiter(asyncio.get_running_loop().create_future(), on_token)
        self._incoming.append(job)
        self._wake.set()
        try:
            await waiter.future
        finally:
            job.cancelled = True
            self._waiters.pop(job, None)

    def _encode(self, request: GenerationRequest) -> list[int]:
        return encode_prompt(
            self._tokenizer,
            request,
            max_context_tokens=self.max_context_tokens,
            max_cache_tokens=self._config.max_cache_tokens,
        )

    def _prepare(self, request: GenerationRequest, streams: bool) -> Job:
        check_hidden_layers(request, self.num_layers)
        prompt_ids = self._encode(request)
        seed = request.sampling.seed
        if seed is None:
            seed = secrets.randbelow(2**53)  # a JSON number that every client reads exactly
        shape = (request.num_samples, request.sampling.max_new_tokens)
        return Job(
            request=request,
            prompt_ids=prompt_ids,
            seed=seed,
            uniforms=np.random.Generator(np.random.Philox(seed)).random(shape),
            streams=streams,
            reasoning_opened=opens_reasoning(self._tokenizer, prompt_ids),
        )

    def _deliver(self, report: StepReport) -> None:
        for job, piece in report.pieces:
            self._stream(job, piece)
        for job in report.finished:
            self._settle(job, None)
        for job, error in report.failed:
            self._settle(job, error)
        if report.num_rows:
            self._on_step(report.num_rows)

    def _stream(self, job: Job, piece: str) -> None:
        waiter = self._waiters.get(job)
        if waiter is None or waiter.on_token is None:
            return
        try:
            waiter.on_token(piece)
        except Exception as error:  # the caller's code: its request fails, the loop lives
            self._settle(job, error)

    def _fail_started(self, error: Exception) -> None:
        self._batch.abandon()
        for job in list(self._waiters):
            if job.started_at is not None:
                self._settle(job, EngineError(f"a decoding step failed: {type(error).__name__}"))

    def _settle(self, job: Job, error: Exception | None) -> None:
        waiter = self._waiters.get(job)
        if waiter is None or waiter.future.done():
            return
        if error is None:
            waiter.future.set_result(None)
        else:
            waiter.future.set_exception(error)


def _eos_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Every id that ends a sequence.

    The generation config's ids, as in `generate`, else the tokenizer's.
    """
    ids = model.generation_config.eos_token_id if model.generation_config is not None else None
    if ids is None:
        ids = tokenizer.eos_token_id
    return frozenset([ids] if isinstance(ids, int) else ids or [])


def _context_length(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    config = model.config.get_text_config(decoder=True)
    return int(getattr(config, "max_position_embeddings", None) or tokenizer.model_max_length)
