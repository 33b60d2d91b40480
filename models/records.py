"""Frozen records that travel between gateway, workers and models. No I/O, no formulas."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, StringConstraints

from models.images import PARTS
from models.ranges import (
    ENTROPIES,
    LOGPROBS,
    PERCENTILES,
    PROBABILITIES,
    Count,
    Entropy,
    Exact,
    Logprob,
    Percentile,
    Probability,
    Seconds,
    floats,
    states,
)
from models.warnings import Warned

Array: TypeAlias = NDArray[np.floating[Any]]
# "stop", "length", "sample_limit", "content_filter" or "given"; or what else a server of others
# says of an end that nobody here knows, which matches `FINISH_REASON`.
FinishReason = str
FINISH_REASON = r"^[A-Za-z0-9_.:-]{1,64}$"
FINISH_REASONS = frozenset({"stop", "length", "sample_limit", "content_filter", "given"})
# Reasons why a sequence has no answer.
NoAnswer = Literal["answer_refused", "answer_filtered", "reasoning_unfinished"]
# A text that is written may yet begin with a reasoning, is in one, or is at its answer.
Stage = Literal["undecided", "thoughts", "answer"]
# The tokenised form of a given answer: as it stands, or after a blank.
AnswerForm = Literal["literal", "blank_led"]
# A text or the ids of its tokens, and both of these.
RawPrompt = str | tuple[int, ...]
Tokenized = tuple[str, tuple[int, ...]]
# Two texts in their order, such as a context and what follows it.
Pair = tuple[str, str]
# First character and the one behind the last.
Span = tuple[Count, Count]

DEFAULT_NEW_TOKENS = 256
# The bound of likeliest tokens in OpenAI's API, of each token.
MAX_TOPS = 20
# The variable of chat templates for the length that their model may reason.
EFFORT, NO_EFFORT = "reasoning_effort", "none"


@dataclass(frozen=True, slots=True)
class SamplingParams(Exact):
    """Parameters of the answer and of the samples beside it."""

    num_samples: int = 10  # M, drawn only when a wanted statistic is one of the samples'
    # Upper bound of T, for the answer and for each sample; None for `DEFAULT_NEW_TOKENS`, or as
    # many of them as fit beside the prompt.
    max_new_tokens: int | None = None
    temperature: float = 1.0  # of the samples
    top_k: int = 50  # 0 keeps the whole vocabulary
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int | None = None  # None lets the generator draw one, which the generation carries
    answer_temperature: float = 0.0  # 0 for a greedy answer, whatever top_k and top_p are
    # Between the tags of a reasoning; then the end tag is written for the model. None for as many
    # as `max_new_tokens` leaves, 0 for no reasoning at all: a chat ends in an empty one, where
    # the model is known to reason.
    max_reasoning_tokens: int | None = None
    # The same for each sample; None for the answer's.
    max_sample_reasoning_tokens: int | None = None
    # Whether a `max_new_tokens` that does not fit is lowered to what fits; else it is refused.
    clamps: bool = False
    clamps_quietly: bool = False  # the same without a warning, of an endpoint's own default

    def most_thoughts(self, index: int) -> int | None:
        """`max_reasoning_tokens` of the answer, which is 0, or of the i-th sample."""
        if index > 0 and self.max_sample_reasoning_tokens is not None:
            return self.max_sample_reasoning_tokens
        return self.max_reasoning_tokens


@dataclass(frozen=True, slots=True)
class Grammar(Exact):
    """The grammar that an answer and its samples follow, token by token."""

    kind: Literal["json_schema", "lark"]  # of the source; "lark" is the dialect of llguidance
    source: str  # a JSON schema as JSON, or a grammar
    # A text that follows it may be valid under several branches of a `oneOf`.
    is_wider: bool = False


@dataclass(frozen=True, slots=True)
class GivenAnswer(Exact):
    """An answer that exists already."""

    text: str
    append_eos: bool = True  # whether it ends there, so that its end counts as a token


@dataclass(frozen=True, slots=True)
class GenerationRequest(Exact):
    """One prompt and the statistics wanted of it."""

    prompt: str | None = None  # raw text, continued as it stands; exclusive with `messages`
    # Chat messages {"role", "content"}, put into the model's own template; those of OpenAI's
    # chats may have "tool_calls", "tool_call_id", "name", "reasoning_content" (and
    # "reasoning", the same) and "extra_content", too, those with images what `models.images` says.
    messages: tuple[Mapping[str, Any], ...] | None = None
    # As OpenAI's clients send them, which the template shows the model.
    tools: tuple[Mapping[str, Any], ...] = ()
    # Variables of that template.
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    # Each {"doc_id", "title", "text"}; beside messages only.
    documents: tuple[Mapping[str, str], ...] = ()
    sampling: SamplingParams = SamplingParams()
    # Names of `models.statistics` that a generator supplies; nothing else is computed.
    statistics: frozenset[str] = frozenset()
    # That the answer and each sample follow, behind their reasonings; log-probs and entropies are
    # then those among the tokens that it allows. A given answer is not held to it.
    grammar: Grammar | None = None
    answer: GivenAnswer | None = None  # scored in place of a greedy one, which is not decoded then
    # Blocks whose hidden states are averaged over the greedy answer: `hidden_states[k]` of
    # Hugging Face, 0 < k < L.
    hidden_layers: tuple[int, ...] = ()
    # Whether they are averaged over each of its sentences, too, which takes its
    # `answer_token_texts`.
    by_sentence: bool = False
    # Block whose state at the prompt's last token is wanted, counted likewise; 0 for none.
    prompt_layer: int = 0
    # Likeliest tokens that are returned of each token; at most as many as the generator tells.
    num_tops: int = 0
    # Texts of whose tokens they are returned: the answer, then samples as they are drawn.
    num_shown: int = 1
    # Whether samples that are not shown end at `models.engines.texts.sample_limit` of the answer.
    limits_samples: bool = False
    # Of the raw text, as a client tokenised it; empty for those that the model's tokenizer gives.
    prompt_ids: tuple[int, ...] = ()
    echo: bool = False  # whether the prompt's own tokens are told
    # Seconds after which nobody waits for the result; None for as long as it takes.
    timeout_s: float | None = None
    patience_s: float | None = None  # with a server that has no room; None for `timeout_s`

    @property
    def num_samples(self) -> int:
        """M where a wanted statistic is one of the samples', which their names say, else 0."""
        for name in self.statistics:
            if name.startswith("sample_"):
                return self.sampling.num_samples
        return 0

    def with_documents_said(self) -> "GenerationRequest":
        """The request with its documents before the last message of the user."""
        block, messages = "Documents:\n\n", list(map(dict, self.messages or ()))
        for document in self.documents:
            block += f"[{document['doc_id']}] {document['title']}".strip()
            block += f"\n{document['text']}\n\n"
        *_, last = filter(lambda message: message["role"] == "user", messages)
        last["content"] = f"{block}{last['content']}"
        if PARTS in last:
            last[PARTS] = [{"type": "text", "text": block}, *last[PARTS]]
        return replace(self, messages=tuple(messages), documents=())

    def num_tops_of(self, index: int) -> int:
        """Likeliest tokens returned of each token of the answer, 0, or of the i-th sample."""
        return self.num_tops * (index < self.num_shown)


# The likeliest tokens in the place of one, by text, in nats, the likeliest first.
TokenTops = tuple[tuple[str, Logprob], ...]
# Begins what a token is called whose bytes are no whole code points, as OpenAI's endpoints do.
BYTES = "bytes:"
_SPELT = re.compile(BYTES + r"(\\x[0-9a-f]{2})+")


@dataclass(frozen=True, slots=True)
class Token(Exact):
    """One token of a sequence, as it is streamed."""

    # That became certain with it; empty while a part of a code point, or what may begin a stop
    # string or a tag, is held back. The texts of a sequence's tokens join to its `text`.
    text: str
    logprob: Logprob | None = None  # nats, from the raw distribution; None where not wanted
    entropy: Entropy | None = None  # nats, over the full vocabulary; None where not wanted
    # That became certain with it, where the token belongs to the reasoning before the answer; it
    # has no text then.
    reasoning: str | None = None
    tops: TokenTops = ()  # the likeliest ones in its place; empty where not wanted


OnToken = Callable[[Token], None]


def bytes_spelt(text: str) -> bytes:
    r"""The bytes of a token by what it is called.

    >>> bytes_spelt("é"), bytes_spelt(r"bytes:\xc3")
    (b'\xc3\xa9', b'\xc3')
    """
    if _SPELT.fullmatch(text):
        return bytes.fromhex(text.removeprefix(BYTES).replace(r"\x", ""))
    return text.encode()


@dataclass(frozen=True, slots=True)
class Reasoning(Exact):
    """The text of a model before its answer, up to the end of its end tag."""

    text: str  # between the tags, stripped
    num_tokens: Count  # of it, tags included; 0 for a text that no model has read
    is_finished: bool  # whether an answer follows; without one nothing can be scored


@dataclass(frozen=True, slots=True)
class Sequence(Exact):
    """One generated (or given) answer of T tokens, its terminating token included.

    A reasoning before it stands apart: text, tokens and statistics are those of the answer alone.
    """

    text: str  # decoded text without special tokens and without the stop string that ended it
    compared_text: str  # the text that similarity reads, stripped
    num_tokens: Count  # T; 0 for a text that no model has read
    finish_reason: Annotated[FinishReason, StringConstraints(pattern=FINISH_REASON)]
    token_ids: tuple[int, ...] | None = None  # (T,); None where the generator does not return them
    # (T,) nats, from the raw distribution; None where not wanted.
    token_logprobs: Annotated[Array, floats(LOGPROBS)] | None = None
    # (T,) nats, over the full vocabulary; None where not wanted.
    token_entropies: Annotated[Array, floats(ENTROPIES)] | None = None
    # (T,) the text that each token adds; they join to the decoded text. None where not wanted.
    token_texts: tuple[str, ...] | None = None
    # (T,) the likeliest ones in the place of each; None where not wanted.
    token_tops: tuple[TokenTops, ...] | None = None
    reasoning: Reasoning | None = None
    # The text of a server of others in place of an answer; None where it answers.
    refusal: str | None = None
    # What such a server wants back with the message, then with each of its calls; () for nothing.
    extra: tuple[Mapping[str, Any], ...] = ()

    @property
    def is_withheld(self) -> bool:
        """True where a server refused to write it, or a filter ended it: nobody drew it so."""
        return self.refusal is not None or self.finish_reason == "content_filter"

    @property
    def no_answer(self) -> NoAnswer | None:
        """The reason why it has no answer; None where it has one, be it empty or cut."""
        if self.refusal is not None:
            return "answer_refused"
        if self.is_withheld and not self.compared_text:
            return "answer_filtered"
        if self.reasoning is not None and not self.reasoning.is_finished:
            return "reasoning_unfinished"
        return None

    @property
    def num_written(self) -> int:
        if self.reasoning is None:
            return self.num_tokens
        return self.reasoning.num_tokens + self.num_tokens

    @property
    def tokens(self) -> list[Token]:
        """Its tokens, with as much as is known of them."""
        columns: list[Iterable[Any]] = [self.token_texts or [""] * self.num_tokens]
        unknown = [None] * self.num_tokens
        for values in (self.token_logprobs, self.token_entropies):
            columns.append(unknown if values is None else values.tolist())
        columns += unknown, self.token_tops or [()] * self.num_tokens
        return list(map(Token, *columns))

    def remaining_tokens(self, num_streamed: int, num_characters: int) -> list[Token]:
        """The tokens that were not streamed; the first has the rest of the text.

        A text without known tokens counts as one token. With those streamed came `num_characters`.
        """
        rest = self.text[num_characters:]
        if rest and num_streamed >= self.num_tokens:
            return [Token(rest)]
        tokens: list[Token] = []
        for token in self.tokens[num_streamed:]:
            tokens.append(replace(token, text=rest))
            rest = ""
        return tokens

    def behind(self, reasoning: Reasoning, answer: str, first: int | None) -> "Sequence":
        """The answer's part of the sequence, which has the statistics of all its tokens.

        Args:
            reasoning: that it began with.
            answer: text behind it.
            first: index of the answer's first token; None where nobody knows it, and so no
                statistics.
        """
        changed: dict[str, Any] = {}
        for name in ("token_ids", "token_logprobs", "token_entropies", "token_texts", "token_tops"):
            values = getattr(self, name)
            if first is None:
                values = None
            elif values is not None:
                values = values[first:]
            changed[name] = values
        if first is not None:
            changed["num_tokens"] = self.num_tokens - first
        return replace(
            self, text=answer, compared_text=answer.strip(), reasoning=reasoning, **changed
        )


@dataclass(frozen=True, slots=True)
class ProbeReading(Exact):
    """The prediction of a probe for one answer."""

    value: Probability  # in [0, 1]
    # Where the features' distance from the training set lies among held-out rows, in [0, 100].
    distance_percentile: Percentile
    out_of_domain: bool  # whether the probe has no ground to be trusted on this answer

    @property
    def is_sound(self) -> bool:
        """True where both numbers lie in their ranges, which NaN does not."""
        (low, high), (least, most) = PROBABILITIES, PERCENTILES
        return low <= self.value <= high and least <= self.distance_percentile <= most


def _whole(sequence: Sequence) -> Sequence:
    """The sequence; `ValueError` where it has not as many of each statistic as tokens."""
    for name in ("ids", "logprobs", "entropies", "texts", "tops"):
        values = getattr(sequence, f"token_{name}")
        if values is not None and len(values) != sequence.num_tokens:
            raise ValueError(f"{len(values)} {name} for {sequence.num_tokens} tokens")
    return sequence


_Whole = Annotated[Sequence, AfterValidator(_whole)]
_States = Annotated[Array, states()]


@dataclass(frozen=True, slots=True)
class Generation(Exact):
    """The result of a generator: the answer, its M samples, and their cost."""

    answer: _Whole
    samples: tuple[_Whole, ...]
    prompt_tokens: Count
    seed: Count  # the seed that repeats this generation
    model_id: str
    revision: str
    identity: str = ""  # of the weights that spoke; see `workers.protocol.GeneratorInfo`
    queue_s: Seconds = 0.0  # seconds between the call and the first prefill
    generate_s: Seconds = 0.0  # seconds from there to the last token
    warnings: tuple[Warned, ...] = ()
    # The prompt's, where they are told; each is among its likeliest. The first has no log-prob.
    prompt: tuple[Token, ...] = ()
    # Of a given answer, the likelier one where both continue the prompt.
    answer_form: AnswerForm = "literal"
    # The tokens at which samples ended that were longer; None where they were whole.
    sample_limit: Count | None = None
    # (layers, d) of `GenerationRequest.hidden_layers`; None without any.
    answer_hidden_mean: _States | None = None
    # (layers, d) of each sentence of the answer of which states were kept, by its span.
    sentence_hidden_means: tuple[tuple[Span, _States], ...] = ()
    # (d,) of `GenerationRequest.prompt_layer`; None without one.
    prompt_state: _States | None = None
    # By name of the statistic that each probe predicts.
    probe_readings: Mapping[str, ProbeReading] = field(default_factory=dict)
    # A probe's readings of single sentences, by their spans.
    sentence_readings: tuple[tuple[Span, ProbeReading], ...] = ()
    # Requested statistics that this request cannot have, with their reasons.
    absent: Mapping[str, str] = field(default_factory=dict)
