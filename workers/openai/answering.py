"""One request at one server: its answer and its samples, side by side."""

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from models import records
from models.engines.protocol import fitted
from models.entropy_bounds import mean_bounds
from models.errors import EngineError, InvalidRequest
from models.records import (
    DEFAULT_NEW_TOKENS,
    PROMPT_OUT_OF_DOMAIN,
    AnswerForm,
    Generation,
    GenerationRequest,
    ProbeReading,
)
from models.statistics import (
    ANSWER_STATISTICS,
    SAMPLE_STATISTICS,
    STATISTICS,
    Source,
    fields_of,
    supplied_by,
)
from models.units.tool_calls import Call, names_of, read
from models.waves import num_further
from workers.calling import Listener, together
from workers.calls import Rejected
from workers.client import Unreachable
from workers.openai import columns
from workers.openai.dialect import TOO_LONG
from workers.openai.found import BOUNDS_TOP
from workers.openai.model_calls import ModelCalls
from workers.openai.prompts import for_tokens, render
from workers.openai.reading import Forms, forms_of, score_given, texts_of
from workers.openai.reasoning import behind_reasoning, needs_texts
from workers.openai.replies import (
    TOO_MANY,
    Choice,
    count,
    counted,
    likeliest,
    read_choices,
    to_sequence,
    token_texts,
)
from workers.openai.requests import (
    BUDGET,
    Prompt,
    completion,
    drawn,
    first_seed,
    most_bytes,
    under_grammar,
    within_budget,
)
from workers.openai.soundness import UNCOVERED, are_of
from workers.openai.streaming import Teller, merged

# Tokens of a reasoning's tags, at most.
_TAGS = 8
# Fields of a sequence that a server tells of its tokens.
_TOLD_WITH_TOKENS = ("token_logprobs", "token_entropies")
# Why a sequence lacks what was wanted of it, by its field.
_MISSING = {
    "token_logprobs": "the server told no log-probs",
    "token_entropies": "the server told no entropy of a token",
    "token_texts": "the server's texts of tokens do not join to the answer",
}
_NOT_APART = "the server does not tell the tokens of the answer from those of its reasoning"
_SCALED = "the server's log-probs are raw at temperature 1 only"


class OpenAIRequest:
    """One request at one server.

    Args:
        calls: of the server.
        request: that it is asked.
        budget: tokens of prompt, answer and samples together; 0 for any number.
        listener: told the tokens that are streamed.
    """

    def __init__(
        self,
        calls: ModelCalls,
        request: GenerationRequest,
        budget: int,
        listener: Listener,
    ) -> None:
        self._calls = calls
        self._can = calls.can
        self._request = request
        self._budget = budget
        self._listener = listener
        self._prompt = Prompt()
        self._seed = self._prompt_tokens = 0
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
            ChangedModel: the answer is not of the weights that were tried out.
            Unreachable, Rejected, Failed: the server's.
        """
        began_at = time.monotonic()
        asked, temperature = self._request, self._request.sampling.temperature
        self._seed = secrets.randbelow(2**53)
        if asked.sampling.seed is not None:
            self._seed = asked.sampling.seed
        if any(asked.tops_of) and asked.num_tops and not self._can.tells_raw_samples(temperature):
            raise InvalidRequest(f"are not told here: {_SCALED}", field="num_tops")
        self._prompt = await render(self._calls, asked)
        if self._prompt.as_message:
            self._warn("prompt_as_message")
        if asked.grammar is not None:
            grammar = await for_tokens(self._calls, asked.grammar)
            asked = self._without_unmasked(replace(asked, grammar=grammar))
        forms: Forms = {}
        if not asked.num_drawn:
            forms = await forms_of(self._calls, self._prompt, asked.answer)
        self._request = self._fitted(asked, max(map(len, forms.values()), default=0))
        num = num_further(asked, None, ())
        if num and asked.answer is None and self._can.no_greedy:  # the first draw is the answer
            samples = await self._draw(num, asked.num_drawn)
            answer = samples[0]
        else:
            answer, samples = await together(self._answer(forms), self._draw(num, asked.num_drawn))
        while num := num_further(self._request, answer, samples):
            samples += await self._draw(num, asked.num_drawn + len(samples))
        self._listener.tell_rest((answer, *samples)[asked.streamed])
        if asked.answer is None and self._can.no_greedy:
            self._warn("answer_is_drawn")
        generation = Generation(
            answer=answer,
            samples=tuple(samples),
            prompt_tokens=self._prompt.num_tokens or self._prompt_tokens,
            seed=self._seed,
            model_id=self._can.info.model_id,
            revision=self._can.info.revision,
            identity=self._can.identity,
            generate_s=time.monotonic() - began_at,
            answer_form=self._form,
            probe_readings=self._readings,
            mte_bounds=self._bounds,
        )
        return self._explained(generation)

    def _explained(self, generation: Generation) -> Generation:
        """The same without what is not what was wanted, and with the reasons and warnings."""
        request, can, answer = self._request, self._can, generation.answer
        sampling, samples = request.sampling, generation.samples
        readings, bounds = generation.probe_readings, generation.mte_bounds
        if "sample_token_logprobs" in request.statistics and not can.tells_raw_samples(
            sampling.temperature
        ):
            samples = tuple(replace(sample, token_logprobs=None) for sample in samples)
            self._absent["sample_token_logprobs"] = _SCALED
        if samples and (self._is_fixed("temperature") or self._is_fixed("top_p")):
            self._warn("temperature_not_heeded")
        if samples and sampling.top_k and can.heeds("top_k") is False:
            self._warn("top_k_not_heeded")
        if samples and sampling.seed is not None and can.heeds("seed") is False:
            self._warn("seed_not_heeded")
        if readings and answer.num_tokens == 1:
            self._warn("one_token_answer")
        if any(one.out_of_domain for one in readings.values()):
            self._warn("out_of_domain")
        if answer.reasoning is not None:
            # Probes, and bounds of entropies, are read over all that the server wrote.
            self._absent |= dict.fromkeys(readings, _NOT_APART)
            readings, bounds = {}, None
        written = tuple(one for one in samples if not one.is_withheld)
        for name in request.statistics & (ANSWER_STATISTICS | SAMPLE_STATISTICS):
            row = STATISTICS[name]
            sequences = (answer,) if row.source == "answer" else written
            if any(getattr(one, row.field or "") is None for one in sequences):
                is_reasoned = any(one.reasoning is not None for one in sequences)
                reason = _NOT_APART if is_reasoned else _MISSING.get(row.field or "", "")
                self._absent.setdefault(name, reason)
        return replace(
            generation,
            samples=samples,
            probe_readings=readings,
            mte_bounds=bounds,
            absent=self._absent,
            warnings=tuple(self._warnings),
        )

    def _is_fixed(self, name: str) -> bool:
        """Whether another law was wanted than the only one that the server has."""
        wanted = getattr(self._request.sampling, name)
        return wanted != 1.0 and not self._can.tongue.dialect.takes(name)

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
        if self._request.num_drawn:  # an earlier request has brought it
            return records.Sequence(answer.text, answer.text, 0, "given")
        wanted = self._request.statistics
        if await columns.is_prompt_foreign(self._calls, self._prompt):
            self._warn(PROMPT_OUT_OF_DOMAIN)
        given = await score_given(self._calls, self._prompt, answer, forms, wanted)
        self._form = given.form
        self._absent |= given.absent
        if not given.shows_its_end:
            self._warn("no_eos_logprob")
        return given.sequence

    async def _greedy(self) -> records.Sequence:
        can, wanted = self._can, self._request.statistics
        mode, num_columns = columns.mode_of(can, wanted)
        top: int | None = None
        if can.tells_logprobs and (mode or wanted & ANSWER_STATISTICS):
            top = max(num_columns, min(can.logprobs or 0, 1))
            if "answer_token_logprobs" in wanted and not mode:
                top = can.tops(BOUNDS_TOP)
        body = self._body("answer", top, mode)
        [choice] = await self._choices(body, 1, is_streamed=not self._request.streamed)
        if mode:
            if columns.is_foreign(choice, can):
                self._warn(PROMPT_OUT_OF_DOMAIN)
            self._readings = columns.readings_of(choice, can, wanted)
        elif top and not choice.unsound and (tops := choice.likeliest(top)) is not None:
            self._bounds = mean_bounds(tops, can.vocabulary_size)
        return await self._sequence(choice, 0)

    async def _draw(self, num: int, num_drawn: int) -> list[records.Sequence]:
        """The next samples of the request, those of before not among them."""
        if not num:
            return []
        request, can = self._request, self._can
        wanted, mode = request.statistics & SAMPLE_STATISTICS, ""
        top: int | None = None
        if "sample_token_entropies" in wanted and can.columns is not None:
            top, mode = 2, "entropy"
        elif wanted - {"sample_texts"} and can.logprobs is not None:
            top = 0 if can.tokenizes else min(can.logprobs, 1)
        body = self._body("samples", top, mode)
        seed = first_seed(self._seed) + num_drawn
        drawn_choices = await self._drawn(body, num, seed, request.streamed - 1 - num_drawn)
        samples: list[records.Sequence] = []
        for choice in drawn_choices:
            samples.append(await self._sequence(choice, num_drawn + len(samples) + 1))
        return samples

    async def _drawn(
        self, body: Mapping[str, Any], num: int, seed: int, place: int
    ) -> list[Choice]:
        """As many samples, with seeds one after the other, by as few calls as the server lets.

        Args:
            body: of one.
            num: of them.
            seed: of the first.
            place: of the one that is streamed; none where it is not among them.
        """
        most = self._can.tongue.dialect.most_samples or num
        if num > most:
            drawing = []
            for first in range(0, num, most):
                part = min(most, num - first), seed + first, place - first
                drawing.append(self._drawn(body, *part))
            return [told for drawn_at_once in await together(*drawing) for told in drawn_at_once]
        call = drawn(body, self._request.sampling, num=num, seed=seed)
        try:
            found = await self._choices(call, num, is_streamed=0 <= place < num, place=place)
        except Rejected as refusal:
            if num == 1 or refusal.code in TOO_LONG or refusal.status not in (400, 413, 422):
                raise
            half = num // 2  # maybe they are too many for one call
            found = await self._drawn(body, half, seed, place)
            self._can.tongue.draws_at_most(half)
        if len(found) < num:
            num_found = len(found)
            self._can.tongue.draws_at_most(num_found)
            found += await self._drawn(body, num - num_found, seed + num_found, place - num_found)
        return found

    def _body(self, source: Source, top: int | None, mode: str) -> dict[str, Any]:
        """Of the answer, or of samples; `top` and `mode` as `completion` has them."""
        request, sampling = self._request, self._request.sampling
        index = int(source == "samples")
        num_tops = request.num_tops * any(bool(one) == bool(index) for one in request.tops_of)
        if top is not None:
            top = max(top, num_tops)
        shows_texts = num_tops > 0 or "token_texts" in fields_of(request.statistics, source)
        body = completion(
            self._can,
            self._prompt,
            max_tokens=self._most or 1,
            stop=sampling.stop,
            top=top,
            mode=mode,
            by_text=shows_texts and not mode,
        )
        if (most := sampling.most_thoughts(index)) is not None:
            body[BUDGET] = most
        if request.grammar is None or self._holds_calls:
            return body
        return body | under_grammar(self._can, self._prompt, request.grammar)

    @property
    def _holds_calls(self) -> bool:
        """Whether the server is told in its own way that a call has to come."""
        return self._can.holds_calls(self._request)

    async def _choices(
        self, body: Mapping[str, Any], num: int, *, is_streamed: bool, place: int = 0
    ) -> list[Choice]:
        """Choices of one call, with the token counts that `usage` reports."""
        path = self._prompt.path
        if is_streamed and self._listener.on_token is not None:
            opened, tag_ids = self._prompt.opened, self._can.tag_ids
            teller = Teller(self._request, place, self._listener, opened=opened, tag_ids=tag_ids)
            max_bytes = most_bytes(body, num)
            events = await self._calls.post_for_events(path, body, teller.hear, max_bytes)
            reply = merged(events)
        else:
            reply = await self._calls.post(path, body, most_bytes(body, num))
        choices = read_choices(reply, num, self._request.sampling.stop, may_be_fewer=True)
        usage = reply.get("usage") or {}
        most = min(self._can.max_context_tokens, self._prompt.most_tokens)
        self._prompt_tokens = min(count(usage, "prompt_tokens"), most)
        return counted(usage, choices, self._most)

    async def _sequence(self, choice: Choice, index: int) -> records.Sequence:
        """The answer, 0, or a sample, of which the server tells this."""
        source: Source = "samples" if index else "answer"
        wanted = fields_of(self._request.statistics, source)
        ids, opened = choice.token_ids, self._prompt.opened
        if (choice.num_tokens or 0) > self._most + 1:
            raise Unreachable(TOO_MANY)
        if choice.finish_reason == "length" and ids is not None and len(ids) < self._most:
            raise EngineError("the server ended a text before its time")
        sequence = to_sequence(choice, wanted)
        num_tops = self._request.num_tops_of(index)
        if num_tops and not (choice.unsound or sequence.is_withheld):
            tops = likeliest(choice, num_tops)
            if tops is None or len(tops) != sequence.num_tokens:
                raise EngineError("the server told no likeliest tokens")
            sequence = replace(sequence, token_tops=tops)
        if choice.logprobs is not None and not choice.shows_its_end:
            self._warn("no_eos_logprob")
        tag_ids = self._can.tag_ids
        texts = token_texts(choice)
        if texts is None and (
            "token_texts" in wanted or needs_texts(choice, tag_ids, opened=opened)
        ):
            texts = await texts_of(self._calls, self._prompt, choice)
        sequence = behind_reasoning(sequence, choice, texts, opened=opened, tag_ids=tag_ids)
        most_thoughts = self._request.sampling.most_thoughts(index)
        reasoning = sequence.reasoning
        if most_thoughts is not None and reasoning and reasoning.num_tokens > most_thoughts + _TAGS:
            message = f"is taken by the server of the model as {BUDGET}, and it reasons for longer"
            raise InvalidRequest(message, field="max_reasoning_tokens")
        if reasoning and not reasoning.text and choice.num_hidden:
            self._warn("reasoning_not_told")
        why_unsound = choice.unsound
        if not why_unsound and not self._covers(choice, sequence):
            why_unsound = UNCOVERED
        if "token_texts" not in wanted:
            sequence = replace(sequence, token_texts=None)
        check_followed(self._request, sequence, is_call=self._holds_calls)
        return self._without_logprobs(sequence, source, why_unsound) if why_unsound else sequence

    def _covers(self, choice: Choice, sequence: records.Sequence) -> bool:
        """Whether the tokens with log-probs are those of the text, as far as anybody can tell."""
        texts, text = choice.tokens, choice.text
        if sequence.reasoning is not None:
            texts, text = sequence.token_texts, sequence.text
        if sequence.refusal is not None or choice.logprobs is None:
            return True
        covered = are_of(texts, text, is_cut=choice.finish_reason == "length")
        if covered is None:
            num_untold = 0  # tokens that end a text, and that not every server tells
            if choice.token_ids is None:
                num_untold = 1 + sum(map(len, self._request.sampling.stop))
            return choice.num_missing <= num_untold
        return covered

    def _without_unmasked(self, asked: GenerationRequest) -> GenerationRequest:
        """The request under a grammar, without what is told of another law than the grammar's."""
        if not self._can.unmasked or self._holds_calls:
            return asked
        lost = {name for name in asked.statistics if STATISTICS[name].field in _TOLD_WITH_TOKENS}
        self._absent |= dict.fromkeys(lost, self._can.unmasked)
        kept = asked.statistics - lost
        if lost & SAMPLE_STATISTICS:
            kept |= {"sample_texts"}
        return replace(asked, statistics=kept, num_tops=0)

    def _without_logprobs(
        self, sequence: records.Sequence, source: Source, reason: str
    ) -> records.Sequence:
        """The same without what its log-probs tell, as they are none for this reason."""
        if source == "answer":
            self._bounds = None
        for name in self._request.statistics & supplied_by(source):
            if STATISTICS[name].field in _TOLD_WITH_TOKENS:
                self._absent.setdefault(name, reason)
        return replace(sequence, token_logprobs=None, token_entropies=None, token_tops=None)

    @property
    def _most(self) -> int:
        return self._request.sampling.max_new_tokens or 0

    def _warn(self, code: str) -> None:
        if code not in self._warnings:
            self._warnings.append(code)


def check_followed(request: GenerationRequest, text: records.Sequence, *, is_call: bool) -> None:
    """Refuse a finished text that cannot have followed its schema, or has not called a tool.

    Raises:
        EngineError: it is no JSON, or no call where that had to come.
    """
    if request.grammar is None or text.is_withheld or text.finish_reason != "stop":
        return
    if is_call:
        calls = read(text.text, names_of(request.tools))
        if not any(isinstance(one, Call) for one in calls):
            raise EngineError("the server of the model has not called the tool that it had to")
    elif request.grammar.kind == "json_schema":
        try:
            json.loads(text.text)
        except (ValueError, RecursionError):
            message = "the server of the model has not held a text to its schema"
            raise EngineError(message) from None
