"""One request at one server: its answer and its samples, side by side."""

import math
import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from models import records
from models.engines.protocol import fitted
from models.errors import EngineError, InvalidRequest
from models.records import (
    DEFAULT_NEW_TOKENS,
    AnswerForm,
    Generation,
    GenerationRequest,
    GivenAnswer,
)
from models.statistics import STATISTICS, fields_of, supplied_by
from models.warnings import Warned
from workers.calling import Listener, gather
from workers.openai import logprobs, replies, requests, sequences
from workers.openai.choices import Choice, count, count_in, repetition
from workers.openai.found import SCALED
from workers.openai.grammars import check_followed, check_heeded, for_tokens, under_grammar
from workers.openai.prompts import ModelCalls, render
from workers.openai.reading import Forms, forms_of, score_given, texts_of
from workers.openai.replies import read_choices
from workers.openai.requests import Prompt
from workers.protocol import GeneratorInfo
from workers.remote.client import Unreachable
from workers.remote.refusals import Rejected

# Tokens of a reasoning's tags, at most.
_TAGS = 8
# Of a law that `top_k` leaves fewer tokens, log-probs tell nothing; and the nats of what is too
# unlikely: it happens once in a thousand times.
_FEW_TOKENS, _UNLIKELY = 20, -6.9
# The reason why a sequence lacks a wanted field, by the field.
_MISSING = {
    "token_logprobs": "the server told no log-probs",
    "token_entropies": "the server told no entropy of a token",
    "token_texts": "the server's texts of tokens do not join to the answer",
}
# The answer beside draws of which alone anything is wanted: it has no tokens to be read.
NO_TEXT = GivenAnswer("", append_eos=False)
_NOT_APART = "the server does not tell the tokens of the answer from those of its reasoning"


class OpenAIRequest:
    """One request at one server; its listener receives the tokens that are streamed."""

    def __init__(self, calls: ModelCalls, request: GenerationRequest, listener: Listener) -> None:
        self._calls = calls
        self._server = calls.server
        self._request = request
        self._listener = listener
        # True where a parameter of the server requires a call.
        self._holds_calls = calls.server.holds_calls(request)
        self._prompt = Prompt()
        self._seed = self._prompt_tokens = self._most = 0
        self._warnings: dict[Warned, None] = {}
        self._absent: dict[str, str] = {}
        # The reason why log-probs were not read, of the answer (False) and of samples (True).
        self._unread: dict[bool, str] = {}
        self._readings: dict[str, records.ProbeReading] = {}
        self._form: AnswerForm = "literal"
        self._answer_choice: list[Choice] = []
        self.draws: list[Choice] = []  # its samples as they came

    async def run(self, info: GeneratorInfo) -> Generation:
        """Answer and samples of the server that `info` is of.

        Raises:
            InvalidRequest: the request does not fit.
            InvalidLogits: an entropy is no number.
            ChangedModel: the answer is not of the weights that were tried out.
            Unreachable, Rejected, Failed: the server's.
        """
        began_at = time.monotonic()
        server, request = self._server, self._request
        check_heeded(server, request)
        seed = request.sampling.seed
        self._seed = secrets.randbelow(2**53) if seed is None else seed
        of_draws = request.num_shown > 1 or request.sampling.answer_temperature
        if request.num_tops and of_draws and not server.raw_samples:
            raise InvalidRequest(f"are not told here: {SCALED}", field="num_tops")
        self._prompt = await render(self._calls, request)
        self._warnings |= dict.fromkeys(self._prompt.warnings)
        if request.prompt is not None and self._prompt.messages is not None:
            self._warn(Warned.PROMPT_AS_MESSAGE)
        if request.grammar is not None:
            request = replace(request, grammar=await for_tokens(self._calls, request.grammar))
        forms: Forms = {}
        if request.answer != NO_TEXT or request.statistics & supplied_by("answer"):
            forms = await forms_of(self._calls, self._prompt, request.answer)
        self._request = self._fitted(request, max(map(len, forms.values()), default=0))
        self._most = self._request.sampling.max_new_tokens or 0
        answer, samples = await gather(self._answer(forms), self._draw())
        self._listener.tell_rest(answer)
        if request.answer is None and server.no_greedy:
            self._warn(Warned.ANSWER_IS_DRAWN)
        self._explain(answer, samples)
        return Generation(
            answer=answer,
            samples=tuple(samples),
            prompt_tokens=self._prompt.num_tokens or self._prompt_tokens,
            seed=self._seed,
            model_id=info.model_id,
            revision=info.revision,
            identity=info.identity,
            generate_s=time.monotonic() - began_at,
            answer_form=self._form,
            probe_readings=self._readings,
            absent=self._absent,
            warnings=tuple(self._warnings),
        )

    def _explain(self, answer: records.Sequence, samples: list[records.Sequence]) -> None:
        """Add the warnings, and the reasons for what is missing."""
        law, takes = self._request.sampling, self._server.profile.takes
        drawn_at = {law.answer_temperature, bool(samples) * law.temperature} - {0.0}
        has_temperature = drawn_at <= {1.0} or takes("temperature")
        has_top_p = law.top_p == 1.0 or takes("top_p")
        ignores_seed = law.seed is not None and self._server.heeds_seed is False
        warned = {
            Warned.TEMPERATURE_NOT_HEEDED: drawn_at and not (has_temperature and has_top_p),
            Warned.TOP_K_NOT_HEEDED: drawn_at and law.top_k and not takes("top_k"),
            Warned.SEED_NOT_HEEDED: drawn_at and ignores_seed,
            Warned.DRAWS_REPEAT: self._server.draws_repeat or self._repeat(),
            Warned.ONE_TOKEN_ANSWER: self._readings and answer.num_tokens == 1,
            Warned.OUT_OF_DOMAIN: any(one.out_of_domain for one in self._readings.values()),
        }
        for message in self._prompt.messages or ():
            if "reasoning" in message:
                is_shown = takes("reasoning") or takes("reasoning_content")
                warned[Warned.REASONING_NOT_SHOWN] = not is_shown
            if "name" in message and message["role"] != "tool":
                warned[Warned.NAMES_NOT_SHOWN] = not takes("name")
        for code, holds in warned.items():
            if holds:
                self._warn(code)
        if answer.reasoning is not None:  # probes are read over all that the server wrote
            self._absent |= dict.fromkeys(self._readings, _NOT_APART)
            self._readings = {}
        written = [sample for sample in samples if not sample.is_withheld]
        for name in self._request.statistics & supplied_by("answer", "samples"):
            field = STATISTICS[name].field or ""
            sequences = written
            if name in supplied_by("answer"):
                sequences = [answer]
            if any(getattr(one, field) is None for one in sequences):
                reason = _MISSING.get(field, "")
                if any(one.reasoning is not None for one in sequences):
                    reason = _NOT_APART
                if field != "token_texts":
                    reason = self._unread.get(name in supplied_by("samples"), reason)
                self._absent.setdefault(name, reason)

    def _repeat(self) -> bool:
        """True where the draws are so much alike as their law hardly lets them be.

        Log-probs tell the law where it is not cut to a few tokens.
        """
        law = self._request.sampling
        is_cut = 0 < law.top_k < _FEW_TOKENS or self._request.grammar is not None
        nats = repetition([*self._answer_choice, *self.draws], law.temperature)
        if nats is None or is_cut:
            return False
        longest = max(one.num_tokens or 0 for one in self.draws)
        return nats - len(self.draws) * longest * math.log(law.top_p) < _UNLIKELY

    def _fitted(self, request: GenerationRequest, num_answer: int) -> GenerationRequest:
        """The request with a `max_new_tokens` that fits the context."""
        # To score an answer the server must have room to write one token more.
        num_answer += num_answer > 0
        limits = {"the model's context": self._server.max_context_tokens}
        fitting = fitted(self._prompt.num_tokens, num_answer, request, limits)
        num_new = fitting.sampling.max_new_tokens or 0
        wanted = request.sampling.max_new_tokens or DEFAULT_NEW_TOKENS
        generates = request.answer is None or request.num_samples > 0
        if generates and num_new < wanted and not request.sampling.clamps_quietly:
            self._warn(Warned.MAX_NEW_TOKENS_CLAMPED)
        return fitting

    async def _answer(self, forms: Forms) -> records.Sequence:
        if (answer := self._request.answer) is None:
            return await self._written()
        wanted = self._request.statistics & supplied_by("answer")
        scored = await score_given(self._calls, self._prompt, answer.text, forms, wanted)
        sequence, self._form, absent = scored
        self._absent |= absent
        if sequence.token_ids is not None and answer.append_eos and self._server.eos_id is None:
            self._warn(Warned.NO_EOS_LOGPROB)
        return sequence

    async def _written(self) -> records.Sequence:
        """An answer that the model writes."""
        body, law = self._body(0), self._request.sampling
        if law.answer_temperature:
            first = requests.seed_of(self._seed, 0)
            body = requests.drawn(body, law, law.answer_temperature, range(first, first + 1))
        [choice] = await self._choices(body, 1, is_streamed=True)
        if (columns := self._server.columns) is not None:
            columns.check_mark(choice.tops)
            wanted = self._request.statistics & self._server.probes.keys()
            probes = {name: self._server.probes[name] for name in wanted}
            self._readings = columns.readings(choice.tops, probes)
        self._answer_choice = [choice]
        return await self._sequence(choice, 0)

    async def _draw(self) -> list[records.Sequence]:
        """The samples of the request."""
        if not (num := self._request.num_samples):
            return []
        first = requests.seed_of(self._seed, 1)
        self.draws = await self._drawn(self._body(1), range(first, first + num))
        return [await self._sequence(choice, i) for i, choice in enumerate(self.draws, 1)]

    async def _drawn(self, body: Mapping[str, Any], seeds: range) -> list[Choice]:
        """A sample of each of consecutive seeds, by as few calls as the server allows."""
        num = len(seeds)
        most = self._server.profile.max_samples or num
        if num > most:
            starts = range(0, num, most)
            drawing = [self._drawn(body, seeds[i : i + most]) for i in starts]
            return list(chain.from_iterable(await gather(*drawing)))
        law = self._request.sampling
        call = requests.drawn(body, law, law.temperature, seeds)
        try:
            choices = await self._choices(call, num)
        except Rejected as refusal:
            if num == 1 or refusal.is_of_prompt or refusal.status not in (400, 413, 422):
                raise
            # Maybe they are too many for one call.
            choices = await self._drawn(body, seeds[: num // 2])
        if (got := len(choices)) < num:
            self._server.draws_at_most(got)
            choices += await self._drawn(body, seeds[got:])
        return choices

    def _body(self, index: int) -> dict[str, Any]:
        """The body of a call for the answer, 0, or for a sample."""
        server, request, wanted = self._server, self._request, self._wanted(index)
        num_tops = request.num_tops_of(index)
        mode, num_columns = "", 0
        if server.columns is not None and (not index or "token_entropies" in wanted):
            reads_probes = not index and bool(request.statistics & server.probes.keys())
            mode, num_columns = server.columns.mode(reads_probes=reads_probes)
        top: int | None = None
        # Where it parts no reasoning itself, only texts of tokens show where one ends.
        is_parted_here = server.profile.tokenizes and server.tags is not None
        needs = mode or num_tops or is_parted_here or wanted - {"compared_text"}
        if needs and not self._other_law(index):
            least = 0 if index and server.profile.tokenizes else 1
            if index and request.sampling.temperature < 1.0:  # see `repetition`
                least = 2
            if index and server.counts_one:  # see `count_in`
                least = records.MAX_TOPS
            top = max(num_columns, num_tops, min(server.profile.logprobs or 0, least))
        body = requests.completion(
            server,
            self._prompt,
            max_tokens=self._most or 1,
            stop=request.sampling.stop,
            top=top,
            mode=mode,
        )
        if most := request.sampling.most_thoughts(index):
            body[requests.BUDGET] = most
        if request.grammar is None or self._holds_calls:
            return body
        return body | under_grammar(server, self._prompt, request.grammar)

    async def _choices(
        self, body: Mapping[str, Any], num: int, *, is_streamed: bool = False
    ) -> list[Choice]:
        """Choices of one call, with the token counts that `usage` reports."""
        path, max_bytes = self._prompt.path, requests.most_bytes(body, num)
        if is_streamed and self._listener.on_token is not None:
            opened = self._prompt.opened
            stream = sequences.TokenStream(self._request, self._listener, opened=opened)
            streaming = self._calls.post_for_events(path, body, stream.hear, max_bytes)
            events, has_ended = await streaming
        else:
            events, has_ended = [await self._calls.post(path, body, max_bytes)], True
        stop = self._request.sampling.stop
        choices = read_choices(events, num, stop, may_be_fewer=True, has_ended=has_ended)
        usage = replies.last(events, "usage")
        most = min(self._server.max_context_tokens, self._prompt.most_tokens)
        self._prompt_tokens = min(count(usage, "prompt_tokens"), most)
        of_one = self._server.counts_one
        self._server.counts_one = count_in(usage, choices, self._most, stop, of_one=of_one)
        return choices

    async def _sequence(self, choice: Choice, index: int) -> records.Sequence:
        """The record of a choice, which is the answer, 0, or a sample."""
        wanted, request, opened = self._wanted(index), self._request, self._prompt.opened
        if (choice.num_tokens or 0) > self._most + 1:
            raise Unreachable(sequences.TOO_MANY)
        is_short = choice.token_ids is not None and len(choice.token_ids) < self._most
        if choice.finish_reason == "length" and is_short:
            raise EngineError("the server ended a text before its time")
        unsound = self._other_law(index) or choice.unsound
        numbers, num_tops = wanted, request.num_tops_of(index)
        if unsound:
            numbers, num_tops = frozenset(), 0
        sequence = sequences.to_sequence(choice, numbers, num_tops)
        is_empty = not choice.text and choice.logprobs is None  # of an end that is not listed
        if sequence.is_withheld or is_empty:
            sequence = replace(sequence, token_tops=None)
        elif num_tops and len(sequence.token_tops or ()) != sequence.num_tokens:
            raise EngineError("the server told no likeliest tokens")
        if choice.logprobs is not None and not choice.shows_its_end:
            self._warn(Warned.NO_EOS_LOGPROB)
        texts = sequences.token_texts(choice)
        is_reasoned = sequences.first_of_answer([choice.text], opened=opened) is not None
        if texts is None and (is_reasoned or "token_texts" in wanted):
            texts = await texts_of(self._calls, self._prompt, choice)
        if "token_texts" in wanted:
            sequence = replace(sequence, token_texts=texts)
        sequence = sequences.behind_reasoning(sequence, choice, texts, opened=opened)
        if reasoning := sequence.reasoning:
            most = request.sampling.most_thoughts(index)
            if most and reasoning.num_tokens > most + _TAGS:
                message = "is taken by the server of the model, which reasons for longer"
                raise InvalidRequest(message, field="max_reasoning_tokens")
            if not reasoning.text and choice.num_hidden:
                self._warn(Warned.REASONING_NOT_TOLD)
        if not unsound and (unsound := self._uncovered(choice, sequence)):
            sequence = replace(sequence, token_logprobs=None, token_entropies=None, token_tops=None)
        if unsound:
            self._unread.setdefault(index > 0, unsound)
        if sequence.reasoning is not None and "token_texts" not in wanted:
            sequence = replace(sequence, token_texts=None)
        check_followed(request, sequence, is_call=self._holds_calls)
        return sequence

    def _uncovered(self, choice: Choice, sequence: records.Sequence) -> str:
        """The reason why the tokens with log-probs are surely not those of the text, or ""."""
        texts, text = choice.tokens, choice.text
        if sequence.reasoning is not None:
            texts, text = sequence.token_texts, sequence.text
        if sequence.refusal is not None or choice.logprobs is None:
            return ""
        if choice.token_ids is not None:  # special tokens may not be shown in the text
            return ""
        if logprobs.are_of(texts, text, is_cut=choice.finish_reason == "length") is False:
            return logprobs.UNCOVERED
        return ""

    def _other_law(self, index: int) -> str:
        """The reason why log-probs of the answer, 0, or of samples are of another law, or ""."""
        request = self._request
        is_drawn = index > 0 or (request.answer is None and request.sampling.answer_temperature > 0)
        if none := self._server.no_logprobs(of_draws=is_drawn):
            return none
        if request.grammar is None or self._holds_calls:
            return ""
        return self._server.profile.unmasked or ""

    def _wanted(self, index: int) -> frozenset[str]:
        """Fields of the answer, 0, or of samples, that hold the wanted statistics of tokens."""
        return fields_of(self._request.statistics, "samples" if index else "answer")

    def _warn(self, code: Warned) -> None:
        self._warnings[code] = None
