"""Any Hugging Face causal language model in this process: greedy answer and samples together."""

import logging
import math
import secrets
from collections.abc import Sequence
from dataclasses import astuple, replace
from operator import attrgetter
from typing import Any, Self

from models.checkpoints import (
    load_language_model,
    multiplies_quickly,
    pick_device,
    tokenizer_fingerprint,
)
from models.digests import digest_of
from models.engines.chats import ids_of, left_out, refusal_of
from models.engines.inflight import InflightBatch
from models.engines.jobs import Row, RowJob
from models.engines.protocol import (
    Engine,
    EngineConfig,
    EngineInfo,
    StepReport,
    check_hidden_layers,
    fitted,
)
from models.engines.reasoning import empty_reasoning, opens_reasoning, tags_of
from models.engines.rows import RowCache
from models.engines.sampling import row_uniforms
from models.engines.self_test import check_agreement, check_time_steps, expected_logits, tried
from models.engines.template_variables import without_no_effort
from models.engines.tokenization import (
    Detokenizer,
    encode_answer_forms,
    encode_prompt,
    encode_text,
    first_token_ids,
)
from models.errors import InvalidLogits, InvalidRequest
from models.grammar.following import Grammars
from models.pretrained import PreTrainedModel, PreTrainedTokenizerBase
from models.records import (
    MAX_TOPS,
    Array,
    Generation,
    GenerationRequest,
    Grammar,
    RawPrompt,
    Span,
    Token,
    Tokenized,
)
from models.statistics import fields_of, supplied_by
from models.units.parts import split

logger = logging.getLogger(__name__)

# Bound of the logits of all rows, which bounds their number where the vocabulary is large.
_LOGITS_BYTES = 128 << 20
_TOLD = frozenset({"token_logprobs", "token_texts"})
_FACTS = "bos_token", "eos_token", "pad_token", "chat_template"


class TransformersEngine:
    """An `Engine` by in-flight batching (`models.engines.inflight`)."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        config: EngineConfig,
        *,
        model_id: str,
        revision: str,
    ) -> None:
        self._tokenizer = tokenizer
        eos_ids = _eos_ids(model, tokenizer)
        self._eos_id = tokenizer.eos_token_id
        if self._eos_id not in eos_ids:
            self._eos_id = min(eos_ids, default=None)
        self._tags = tags_of(tokenizer, config.reasoning)
        self._detokenizer = Detokenizer(tokenizer, eos_ids, self._tags)
        text_config = model.config.get_text_config(decoder=True)
        self._num_ids = num_logits = int(text_config.vocab_size)
        context = getattr(text_config, "max_position_embeddings", None)
        dtype = str(model.dtype).removeprefix("torch.")
        decisive: list[Any] = [model_id, revision, dtype, tokenizer_fingerprint(tokenizer)]
        decisive.append(sorted(eos_ids))
        statistics, start_ids = supplied_by("answer", "samples", "question"), list[int]()
        if self._tags is not None:
            start_ids = ids_of(tokenizer, self._tags.start)
            decisive.append(astuple(self._tags))  # what else is an answer then
            statistics |= supplied_by("reasoning")
        self._grammars = Grammars(tokenizer, eos_ids, num_logits, start_ids)
        self._cache = RowCache(model)
        most_rows = max(1, _LOGITS_BYTES // (num_logits * model.dtype.itemsize))
        self._batch = InflightBatch(
            self._cache,
            self._detokenizer,
            max_rows=min(config.max_rows, most_rows),
            max_cache_tokens=config.max_cache_tokens,
        )
        self._limits = {
            "the model's context": int(context or tokenizer.model_max_length),
            "max_cache_tokens": config.max_cache_tokens,
        }
        self.info = EngineInfo(
            model_id=model_id,
            revision=revision,
            identity=digest_of(*decisive),
            dtype=dtype,
            statistics=statistics,
            max_context_tokens=min(self._limits.values()),
            num_layers=self._cache.tap.num_layers,
            hidden_size=int(text_config.hidden_size),
            no_reasoning_limit=self._detokenizer.no_reasoning_limit,
            max_tops=MAX_TOPS,
            no_grammar=self._grammars.unavailable,
            bounds_samples=True,
            takes_turns=not refusal_of(tokenizer, "user", "assistant", "user"),
            tokenizer=dict(zip(_FACTS, attrgetter(*_FACTS)(tokenizer), strict=True)),
        )

    @classmethod
    def load(cls, config: EngineConfig) -> Self:
        """Load model and tokenizer, and try them out; blocks. Never remote code.

        Raises:
            ModelNotLoaded: weights are missing, or the model cannot be served rightly.
        """
        model, tokenizer, names = load_language_model(
            config.model, config.revision, config.dtype, config.attn_implementation
        )
        check_time_steps(model)
        model = model.to(pick_device(config.device)).eval()
        if config.dtype == "auto" and not multiplies_quickly(model.dtype, model.device):
            logger.info("%s in float32: the processor has no instructions for its own", model.dtype)
            model = model.float()
        # by the weights as they are, which the engine may move
        wanted = tried(model, expected_logits, model)
        engine = cls(model, tokenizer, config, **names)
        num_tokens = tried(model, check_agreement, engine._cache, wanted)
        engine.info = replace(engine.info, self_test_tokens=num_tokens)
        if tokenizer.chat_template and (said := refusal_of(tokenizer, "user")):
            logger.warning("the chat template refuses even a plain question: %s", said)
        return engine

    @property
    def is_idle(self) -> bool:
        return self._batch.is_idle

    def vocabulary(self) -> str:
        return self._grammars.vocabulary()

    def grammar_source(self, grammar: Grammar) -> str:
        return self._grammars.source(grammar)

    def compile(self, grammar: Grammar) -> None:
        self._grammars.compile(grammar)

    def tokenize(self, prompt: RawPrompt, *, special: bool = True) -> Tokenized:
        if isinstance(prompt, str):
            return prompt, tuple(encode_text(self._tokenizer, prompt, special=special))
        self._check_ids(prompt)
        return self._detokenizer.text(list(prompt), with_tags=True), prompt

    def prepare(self, request: GenerationRequest, *, streams: bool = False) -> RowJob:
        if request.hidden_layers or request.prompt_layer:
            check_hidden_layers(request, self.info.num_layers)
        request, prompt_ids = self._encoded(request)
        opens = False
        if self._tags is not None and request.sampling.max_reasoning_tokens != 0:
            opens = opens_reasoning(self._tokenizer, request, self._tags)
        forms, num_answer = None, 0
        if request.answer is not None:
            eos_id = self._eos_id if request.answer.append_eos else None
            text = request.answer.text
            end = self._detokenizer.ending(text, opened=opens)
            forms = encode_answer_forms(self._tokenizer, prompt_ids, text, eos_id, self._tags, end)
            num_answer = max(map(len, forms.values()))
        request = fitted(len(prompt_ids), num_answer, request, self._limits)
        seed = request.sampling.seed
        if seed is None:
            seed = secrets.randbelow(2**53)  # a JSON number that every client reads exactly
        job = RowJob(
            request,
            streams,
            prompt_ids=prompt_ids,
            final_length=len(prompt_ids) + (request.sampling.max_new_tokens or 0),
            seed=seed,
            uniforms=row_uniforms(seed, 1 + request.num_samples),
            num_rows=1 + request.num_samples,
            temperatures=(request.sampling.answer_temperature, request.sampling.temperature),
            fields=(
                fields_of(request.statistics, "answer"),
                fields_of(request.statistics, "samples"),
            ),
            answer_forms=forms,
            reasoning_opened=opens,
        )
        if request.echo:
            tops: list[Any] = [[]] * bool(request.num_tops)
            job.told = Row(job, -1, _TOLD, prompt_ids, [0.0], tops=tops)
        if request.messages is not None:
            job.warnings = left_out(self._tokenizer, request)
        if request.grammar is not None:
            job.following = self._grammars.begin(request.grammar, in_thoughts=opens)
        return job

    def prepare_first_token(
        self, request: GenerationRequest, groups: Sequence[Sequence[str]]
    ) -> RowJob:
        request, prompt_ids = self._encoded(request)
        return RowJob(
            fitted(len(prompt_ids), 0, request, self._limits),
            prompt_ids=prompt_ids,
            final_length=len(prompt_ids),
            seed=0,
            uniforms=row_uniforms(0, 0),
            first_token_ids=tuple(first_token_ids(self._tokenizer, groups)),
        )

    def _encoded(self, request: GenerationRequest) -> tuple[GenerationRequest, list[int]]:
        """The request as the model takes it, and the token ids of its prompt."""
        self._check_ids(request.prompt_ids)
        if self._tags is None and request.chat_template_kwargs:
            request = without_no_effort(self._tokenizer, request)
        prompt_ids = encode_prompt(self._tokenizer, request)
        if self._tags is not None and request.sampling.max_reasoning_tokens == 0:
            prompt_ids += empty_reasoning(self._tokenizer, request, self._tags)
        return request, prompt_ids

    def _check_ids(self, ids: Sequence[int]) -> None:
        if max(ids, default=0) >= self._num_ids or min(ids, default=0) < 0:
            message = f"must have ids of tokens from 0 to {self._num_ids - 1}"
            raise InvalidRequest(message, field="prompt")

    def step(self, incoming: Sequence[RowJob]) -> StepReport:
        return self._batch.step(incoming)

    def abandon(self) -> None:
        self._batch.abandon()

    def generation(self, job: RowJob) -> Generation:
        rows = sorted(job.finished, key=attrgetter("index"))
        answer, *samples = map(self._detokenizer.sequence, rows)
        hidden_mean, sentence_means = None, dict[Span, Array]()
        if job.hidden is not None:
            hidden_mean = job.hidden.value().numpy(force=True)
            if job.request.by_sentence:
                parts = split(answer, "sentences", tools=job.request.tools)
                tokens = {unit.spans[0]: unit.tokens for unit in parts.units}
                sentence_means = job.hidden.over(tokens)
        prompt: tuple[Token, ...] = ()
        if job.told is not None:
            prompt = self._told(job.told)
        prompt_state = None
        if job.prompt_state is not None:
            prompt_state = job.prompt_state.numpy(force=True)
        return Generation(
            answer=answer,
            samples=tuple(samples),
            prompt_tokens=len(job.prompt_ids),
            prompt=prompt,
            seed=job.seed,
            model_id=self.info.model_id,
            revision=self.info.revision,
            answer_form=job.answer_form,
            sample_limit=max(job.limits.values(), default=None),
            answer_hidden_mean=hidden_mean,
            sentence_hidden_means=tuple(sentence_means.items()),
            prompt_state=prompt_state,
            warnings=job.warnings,
        )

    def _told(self, prompt: Row) -> tuple[Token, ...]:
        if not all(map(math.isfinite, prompt.logprobs)):
            raise InvalidLogits("the model returned NaN or infinite logits for the prompt")
        first, *rest = self._detokenizer.sequence(prompt).tokens
        return (replace(first, logprob=None), *rest)

    def first_token_logprobs(self, job: RowJob) -> list[float | None]:
        return job.first_token_logprobs or []


def _eos_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Every id that ends a sequence: the generation config's, else the tokenizer's."""
    ids = getattr(model.generation_config, "eos_token_id", None)
    if ids is None:
        ids = tokenizer.eos_token_id
    if isinstance(ids, int):
        return frozenset([ids])
    return frozenset(ids or ())


_: type[Engine[RowJob]] = TransformersEngine  # mypy holds the class to its protocol
