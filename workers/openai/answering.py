"""One request at one server: its answer and its samples, side by side."""

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from models import records
from models.engines.protocol import fitted
from models.entropy_bounds import mean_bounds
from models.errors import EngineError
from models.records import (
    DEFAULT_NEW_TOKENS,
    AnswerForm,
    Generation,
    GenerationRequest,
    ProbeReading,
)
from models.statistics import ANSWER_STATISTICS, SAMPLE_STATISTICS
from models.waves import num_further
from workers.calls import Calls
from workers.openai.capabilities import OpenAIServer
from workers.openai.columns import check_entropies, mark_of, mode_of, readings_of
from workers.openai.given import Forms, forms_of, score_given
from workers.openai.prompts import render
from workers.openai.replies import (
    Choice,
    merged,
    read_choices,
    read_prompt_logprobs,
    to_sequence,
    token_texts,
)
from workers.openai.requests import Prompt, completion, drawn, first_seed, within_budget
from workers.openai.telling import Teller
from workers.standing import ChangedModel
from workers.streaming import Listener
from workers.waiting import together

# What a sequence may lack that was wanted of it, and why.
_NO_TEXTS = "the server's texts of tokens do not join to the answer"
_NO_COLUMN = "the server told no entropy of a token"
_SCALED = "the server's log-probs are raw at temperature 1 only"


class OpenAIRequest:
    """One request at one server.

    Args:
        calls: of the server.
        server: what it can do.
        request: that it is asked.
        budget: tokens of prompt, answer and samples together; 0 for any number.
        listener: told the tokens that are streamed.
    """

    def __init__(
        self,
        calls: Calls,
        server: OpenAIServer,
        request: GenerationRequest,
        budget: int,
        listener: Listener,
    ) -> None:
        self._calls = calls
        self._server = server
        self._can = server.capabilities
        self._request = request
        self._budget = budget
        self._listener = listener
        self._prompt = Prompt()
        self._seed = 0
        self._prompt_tokens = 0
        self._warnings: list[str] = []
        self._absent: dict[str, str] = {}
        self._readings: dict[str, ProbeReading] = {}
        self._bounds: tuple[float, float] | None = None
        self._form: AnswerForm = "literal"

    async def run(self) -> Generation:
        """Answer and samples.

        Raises:
            InvalidRequest: the request does not fit.
            InvalidLogits: an entropy is no number.
            ChangedModel: the answer's mark is not that of the weights that were tried out.
            Unreachable, Rejected, Failed: the server's.
        """
        began_at = time.monotonic()
        asked = self._request
        seed = asked.sampling.seed
        self._seed = secrets.randbelow(2**53) if seed is None else seed
        self._prompt = await render(self._calls, self._can, asked)
        forms = await forms_of(self._calls, self._can, self._prompt, asked.answer)
        self._request = self._fitted(asked, max(map(len, forms.values()), default=0))
        answer, samples = await together(
            self._answer(forms), self._draw(num_further(asked, None, ()), 0)
        )
        while num := num_further(self._request, answer, samples):
            samples += await self._draw(num, len(samples))
        self._listener.tell_rest((answer, *samples)[asked.streamed])
        generation = Generation(
            answer=answer,
            samples=tuple(samples),
            prompt_tokens=self._prompt.num_tokens or self._prompt_tokens,
            seed=self._seed,
            model_id=self._server.info.model_id,
            revision=self._server.info.revision,
            identity=self._server.identity,
            generate_s=time.monotonic() - began_at,
            answer_form=self._form,
            probe_readings=self._readings,
            mte_bounds=self._bounds,
        )
        return self._with_words(generation)

    def _fitted(self, asked: GenerationRequest, num_answer: int) -> GenerationRequest:
        """The request with a `max_new_tokens` that fits the context and the budget."""
        num_prompt = self._prompt.num_tokens or 0
        # To score an answer the server must have room to write one token more.
        num_answer += num_answer > 0
        limits = {"the model's context": self._can.max_context_tokens}
        request = fitted(num_prompt, num_answer, asked, limits)
        most = within_budget(asked, num_prompt, self._budget)
        num_new = min(request.sampling.max_new_tokens or 0, most)
        generates = asked.answer is None or asked.num_samples > 0
        if generates and asked.sampling.max_new_tokens is None and num_new < DEFAULT_NEW_TOKENS:
            self._warnings.append("max_new_tokens_clamped")
        return replace(request, sampling=replace(request.sampling, max_new_tokens=num_new))

    async def _answer(self, forms: Forms) -> records.Sequence:
        if (answer := self._request.answer) is None:
            return await self._greedy()
        wanted = self._request.statistics
        given = await score_given(self._calls, self._server, self._prompt, answer, forms, wanted)
        self._form = given.form
        self._absent |= given.absent
        if not given.shows_its_end:
            self._warn("no_eos_logprob")
        return given.sequence

    async def _greedy(self) -> records.Sequence:
        request, can = self._request, self._can
        wanted = request.statistics
        mode, num_columns = mode_of(can, self._server.probes, wanted)
        top: int | None = None
        if can.tells_logprobs and (mode or wanted & ANSWER_STATISTICS):
            reads_bounds = "answer_token_logprobs" in wanted and not mode
            top = max(num_columns, can.bounds_top if reads_bounds else min(can.logprobs or 0, 1))
        by_text = "answer_token_texts" in wanted and not mode
        body = self._body(top=top, mode=mode, by_text=by_text)
        [choice], [num_tokens] = await self._asked(body, 1, is_streamed=request.streamed == 0)
        if mode and can.columns is not None:
            if mark_of(choice) != can.columns.mark:
                raise ChangedModel
            check_entropies(choice)
            self._readings = readings_of(choice, can.columns, self._server.probes, wanted)
        elif top:
            tops = choice.likeliest(top)
            self._bounds = None if tops is None else mean_bounds(tops, can.vocabulary_size)
        return await self._sequence(choice, "answer", num_tokens)

    async def _draw(self, num: int, num_drawn: int) -> list[records.Sequence]:
        """The next samples of the request, those of before not among them."""
        request, can = self._request, self._can
        if not num:
            return []
        wanted = request.statistics
        reads_entropies = "sample_token_entropies" in wanted
        mode = "entropy" if reads_entropies and can.columns is not None else ""
        top: int | None = 2 if mode else None
        if top is None and wanted & (SAMPLE_STATISTICS - {"sample_texts"}):
            top = None if can.logprobs is None else 0 if can.tokenizes else min(can.logprobs, 1)
        by_text = "sample_token_texts" in wanted and not mode
        body = self._body(top=top, mode=mode, by_text=by_text)
        seed = first_seed(self._seed) + num_drawn
        at_once = num if can.draws_several else 1
        drawing = []
        for first in range(0, num, at_once):
            asked = drawn(can, body, request.sampling, num=at_once, seed=seed + first)
            place = request.streamed - 1 - num_drawn - first
            drawing.append(
                self._asked(asked, at_once, is_streamed=0 <= place < at_once, place=place)
            )
        samples = []
        for choices, nums_tokens in await together(*drawing):
            for choice, num_tokens in zip(choices, nums_tokens, strict=True):
                samples.append(await self._sequence(choice, "sample", num_tokens))
        return samples

    def _body(self, *, top: int | None, mode: str, by_text: bool) -> dict[str, Any]:
        sampling = self._request.sampling
        return completion(
            self._can,
            self._prompt,
            max_tokens=sampling.max_new_tokens or 1,
            stop=sampling.stop,
            top=top,
            mode=mode,
            by_text=by_text,
        )

    async def _asked(
        self, body: Mapping[str, Any], num: int, *, is_streamed: bool, place: int = 0
    ) -> tuple[list[Choice], list[int]]:
        """Choices of one call, and for those without tokens how many they are said to have."""
        stop = self._request.sampling.stop
        path = self._prompt.path
        if is_streamed and self._listener.on_token is not None:
            teller = Teller(self._request, place, self._listener)
            reply = merged(await self._calls.post_for_events(path, body, teller.hear))
        else:
            reply = await self._calls.post(path, body)
        choices = read_choices(reply, num, stop)
        usage = reply.get("usage") or {}
        self._prompt_tokens = _count(usage, "prompt_tokens")
        most = self._request.sampling.max_new_tokens or 0
        return choices, _shares(_count(usage, "completion_tokens"), choices, most)

    async def _sequence(self, choice: Choice, role: str, num_tokens: int) -> records.Sequence:
        wanted = self._request.statistics
        if choice.finish_reason == "length" and self._was_cut(choice):
            raise EngineError("the server ended a text before its time")
        sequence = to_sequence(
            choice, role=role, statistics=wanted, opened=self._prompt.opened, num_tokens=num_tokens
        )
        if choice.logprobs is not None and not choice.shows_its_end:
            self._warn("no_eos_logprob")
        name = f"{role}_token_texts"
        if name in wanted and sequence.token_texts is None:
            return replace(sequence, token_texts=await self._texts_of(choice))
        return sequence

    async def _texts_of(self, choice: Choice) -> tuple[str, ...] | None:
        """Texts of tokens that came as ids: one more prefill tells them."""
        if choice.token_ids is None or self._prompt.ids is None:
            return None
        if self._can.scoring != "prompt_logprobs":
            return None
        ids = choice.token_ids
        room = self._can.max_context_tokens - 1 - len(self._prompt.ids)
        if len(ids) > room:
            return None
        prompt = replace(self._prompt, ids=(*self._prompt.ids, *ids))
        body = completion(self._can, prompt, max_tokens=1) | {"prompt_logprobs": 0}
        reply = await self._calls.post(prompt.path, body)
        _, texts = read_prompt_logprobs(reply["choices"][0], ids)
        return token_texts(replace(choice, tokens=texts))

    def _was_cut(self, choice: Choice) -> bool:
        """Whether the server wrote less than it was asked for, and no end."""
        most = self._request.sampling.max_new_tokens or 0
        return choice.token_ids is not None and len(choice.token_ids) < most

    def _warn(self, code: str) -> None:
        if code not in self._warnings:
            self._warnings.append(code)

    def _with_words(self, generation: Generation) -> Generation:
        """With what is missing and why, and with what to know of the rest."""
        request, can = self._request, self._can
        sampling, wanted = request.sampling, request.statistics
        samples = generation.samples
        if self._prompt.as_message:
            self._warn("prompt_as_message")
        if samples and sampling.top_k and not can.heeds_top_k:
            self._warn("top_k_not_heeded")
        if samples and sampling.seed is not None and not can.heeds_seed:
            self._warn("seed_not_heeded")
        if self._readings and generation.answer.num_tokens == 1:
            self._warn("one_token_answer")
        if any(reading.out_of_domain for reading in self._readings.values()):
            self._warn("out_of_domain")
        scaled = can.raw_samples == "at_temperature_one" and sampling.temperature != 1.0
        if "sample_token_logprobs" in wanted and (scaled or can.raw_samples == "never"):
            samples = tuple(replace(sample, token_logprobs=None) for sample in samples)
            self._absent["sample_token_logprobs"] = _SCALED
        absent = self._absent | _missing(generation.answer, samples, wanted, self._absent)
        return replace(generation, samples=samples, absent=absent, warnings=tuple(self._warnings))


def _missing(
    answer: records.Sequence,
    samples: Sequence[records.Sequence],
    wanted: frozenset[str],
    known: Mapping[str, str],
) -> dict[str, str]:
    """Statistics of tokens that were wanted and are not there, but for those whose why is known."""
    reasons = {"logprobs": "the server told no log-probs", "entropies": _NO_COLUMN}
    reasons["texts"] = _NO_TEXTS
    missing = {}
    for role, sequences in (("answer", (answer,)), ("sample", samples)):
        for kind, reason in reasons.items():
            name = f"{role}_token_{kind}"
            there = all(getattr(one, f"token_{kind}") is not None for one in sequences)
            if name in wanted and name not in known and not there:
                missing[name] = reason
    return missing


def _count(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name) if isinstance(usage, Mapping) else None
    return value if type(value) is int and value >= 0 else 0


def _shares(total: int, choices: Sequence[Choice], most: int) -> list[int]:
    """How many tokens each of several texts has, where only their sum is told.

    One that was cut has as many as it may have; the others share the rest evenly.
    """
    num_cut = sum(choice.finish_reason == "length" for choice in choices)
    num_ended = len(choices) - num_cut
    rest = max(0, total - num_cut * most)
    shares, num_seen = [], 0
    for choice in choices:
        if choice.finish_reason == "length":
            shares.append(most)
            continue
        shares.append(rest // num_ended + (num_seen < rest % num_ended))
        num_seen += 1
    return shares
