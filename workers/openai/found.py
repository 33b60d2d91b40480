"""What one server is found to be and can do, by its profile and its trial, and what follows. Pure.

Other modules call it `can`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from models.digests import digest_of
from models.engines.protocol import NO_REASONING
from models.locations import public_name
from models.records import MAX_TOPS, GenerationRequest
from models.statistics import ANSWER_STATISTICS, PROBE_STATISTICS, SAMPLE_STATISTICS, supplied_by
from models.units.reasoning import Tags
from workers.openai.dialect import Tongue
from workers.openai.profiles import GENERIC, PROFILES, Profile
from workers.protocol import GeneratorInfo, ProbeInfo

# Whether a sample's log-probs are those of the untouched distribution: always, only where the
# temperature is 1, or never.
RawLogprobs = Literal["always", "at_temperature_one", "never"]

# What nobody knows until a request needs it.
_NOT_KNOWN = "not known yet"
# Likeliest tokens that bounds of the entropy are made of.
BOUNDS_TOP = 20
# Groups of spellings are looked for among so many likeliest first tokens.
LEAST_FIRST_TOKENS = 5
# Larger than any vocabulary: what the upper bound is made with where the server does not tell.
LARGEST_VOCABULARY = 1_048_576
# Where a server says nothing of its context, it refuses what is too long itself.
UNKNOWN_CONTEXT = 1_048_576
# Nats between the means of two answers of the same weights, at most.
_MEANS_APART = 0.02
# Answers of a fingerprint that any way to the same weights is asked.
_LEAST_ANSWERS = 1

# Of a few fixed prompts, by which other weights are noticed: a greedy answer's text, and the mean
# log-prob of its tokens where they have any; None for what the same weights answer differently.
Fingerprint = tuple[tuple[str, float | None] | None, ...]


@dataclass(frozen=True, slots=True)
class Columns:
    """What the plugin `cocoa-vllm` tells with each token of a request that opts in.

    Attributes:
        mark: changes with weights and probes.
        revision: of the weights, its first digits; "" where it knows none.
        probes: first digits of their sha256, in the order of their columns.
        no_light: why there are no probes' columns; "" where there are.
        prompts: first digits of the sha256 of the prompts that it compares others with; "" for
            none. No part of the identity: a calibration is made before there are any.
    """

    mark: int
    revision: str
    probes: tuple[str, ...]
    no_light: str = ""
    prompts: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class TagIds:
    """Tags that the server's tokenizer has as tokens of their own.

    Attributes:
        tags: around a reasoning.
        start, end: their token ids.
    """

    tags: Tags
    start: int
    end: tuple[int, ...]

    def first_behind(self, ids: Sequence[int]) -> int | None:
        """Index of the first token behind the end tag; None where it does not occur."""
        size = len(self.end)
        for first in range(size, len(ids) + 1):
            if tuple(ids[first - size : first]) == self.end:
                return first
        return None


@dataclass(frozen=True, slots=True)
class OpenAIServer:
    """One server as it was last found; None is what no request has needed yet.

    Attributes:
        model_id: as it calls the model.
        tongue: how it is spoken to.
        root: where it says that it has the model from; "" for none. Never told to anybody.
        kind: its profile's name.
        version: of the server's program; "" where it does not say.
        max_context_tokens: of prompt and new tokens.
        vocabulary_size: of the model; `LARGEST_VOCABULARY` where it is not known.
        completes, chats: whether it has the endpoint.
        tokenizes: whether it renders and tokenizes prompts, takes and gives token ids.
        logprobs: the most likeliest tokens that it tells beside the chosen one; None without
            log-probs at all.
        unsound: why those that it told when it was tried out were none; "" otherwise.
        raw_samples: see `RawLogprobs`.
        raw_greedy: whether a greedy answer's log-probs are those of the untouched distribution.
        special_prefix: ids that every prompt begins with.
        eos_id: of the token that ends an answer; None where none was seen.
        tag_ids: of reasonings, where its tokenizer has tokens for them.
        columns: of the plugin; None without it.
        reasons: whether its model was seen to reason.
        no_grammar: why it holds no text to a schema; "" where it does.
        unmasked: why its log-probs under a schema cannot be read; "" where they are those among the
            tokens that the schema allows.
        no_images: why it reads no images in chats; "" where it does.
        fingerprint: see `Fingerprint`.
        probes: by the statistic that each predicts, those that its plugin reads.
        prompts: sha256 of the calibration's prompts with which its plugin compares others; "" for
            none that this deployment knows.
        revision: that the deployment says its weights have; "" where it leaves that to the server.
        is_routed: whether it is a router, behind which replicas come and go, and which may hide
            some of what a server tells.
    """

    model_id: str
    tongue: Tongue = field(compare=False)
    root: str = ""
    kind: str = GENERIC
    version: str = ""
    max_context_tokens: int = UNKNOWN_CONTEXT
    vocabulary_size: int = LARGEST_VOCABULARY
    completes: bool = False
    chats: bool = False
    tokenizes: bool = False
    logprobs: int | None = None
    unsound: str = ""
    raw_samples: RawLogprobs = "never"
    raw_greedy: bool = False
    special_prefix: tuple[int, ...] = ()
    eos_id: int | None = None
    tag_ids: tuple[TagIds, ...] = ()
    columns: Columns | None = None
    reasons: bool = False
    no_grammar: str | None = None
    unmasked: str | None = None
    no_images: str = ""
    fingerprint: Fingerprint = ()
    probes: Mapping[str, ProbeInfo] = field(default_factory=dict)
    prompts: str = ""
    revision: str = ""
    is_routed: bool = False

    @property
    def profile(self) -> Profile:
        """What is known of its kind."""
        return PROFILES[self.kind]

    @property
    def reads_given(self) -> bool:
        """Whether it tells log-probs of a text that exists already."""
        return self.tokenizes and self.tells_logprobs

    @property
    def calls_tools(self) -> bool:
        """Whether the server itself shows tools, and parts calls from text."""
        return self.profile.tools and not self.tokenizes and self.chats

    @property
    def no_lark(self) -> str:
        """Why it follows no grammar in the dialect of llguidance; "" where it may."""
        return "" if self.tokenizes else _NO_LARK

    @property
    def no_reasoning_limit(self) -> str:
        """Why it heeds no `max_reasoning_tokens`; "" where it may."""
        if not self.reasons:
            return NO_REASONING
        return "" if self.kind == "vllm" else "the server of the model takes no such bound"

    @property
    def no_greedy(self) -> str:
        """Why each of its answers is a draw; "" where it answers greedily."""
        fixed = "the server of the model fixes the temperature"
        return "" if self.tongue.dialect.takes("temperature") else fixed

    @property
    def tells_logprobs(self) -> bool:
        """Whether an answer's log-probs can be had."""
        return self.logprobs is not None and self.raw_greedy

    def tells_raw_samples(self, temperature: float) -> bool:
        """Whether log-probs of samples that are drawn so are those of the raw distribution."""
        return self.raw_samples == "always" or (
            self.raw_samples == "at_temperature_one" and temperature == 1.0
        )

    def tops(self, most: int) -> int:
        """How many likeliest tokens can be told by their texts, of `most` that are wanted."""
        if self.columns is not None or not self.tells_logprobs:
            return 0
        return min(self.logprobs or 0, most)

    def heeds(self, name: str) -> bool | None:
        """Whether it heeds "top_k", or "seed"; None where nobody knows."""
        if not self.tongue.dialect.takes(name):
            return False
        heeded: bool | None = getattr(self.profile, f"heeds_{name}")
        return heeded

    def needs_schema(self, request: GenerationRequest) -> bool:
        """Whether it is to be tried out under a schema before this request."""
        grammar = request.grammar
        if grammar is None or grammar.kind != "json_schema" or self.holds_calls(request):
            return False
        return self.no_grammar is None or self.unmasked is None

    def holds_calls(self, request: GenerationRequest) -> bool:
        """Whether the answer has to be a call of a tool, which it is told in its own way."""
        grammar = request.grammar
        is_required = request.tools and grammar is not None and grammar.kind == "json_schema"
        return self.calls_tools and bool(is_required)

    @property
    def identity(self) -> str:
        """Digest of all that decides its answers, as far as it can be known from outside.

        Of a router: of what any way to the same servers tells, by the plugin's mark where there is
        one, so that a calibration holds behind all of them.
        """
        probes = sorted(one.sha256 for one in self.probes.values())
        if self.is_routed:
            weights = self.columns or _digest(self.fingerprint[:_LEAST_ANSWERS])
            return digest_of(
                "routed", self.model_id, self.revision, weights, probes, self.raw_samples,
                self.raw_greedy,
            )  # fmt: skip
        parts: list[Any] = [self.model_id, self.root, self.max_context_tokens, self.revision]
        parts += [self.completes, self.tokenizes, self.logprobs, self.raw_samples, self.raw_greedy]
        parts += [self.eos_id, self.columns, probes, _digest(self.fingerprint)]
        return digest_of(*parts)

    @property
    def info(self) -> GeneratorInfo:
        """What the service is told of it."""
        absent, revision = self.absent, self.revision or self.identity[:12]
        if self.columns is not None:
            revision = self.columns.revision or revision
        return GeneratorInfo(
            identity=self.identity,
            model_id=public_name(self.model_id),
            revision=revision,
            dtype="",
            statistics=(_STATISTICS | self.probes.keys()) - absent.keys(),
            max_context_tokens=self.max_context_tokens,
            probes=self.probes,
            prompts=self.prompts,
            absent=absent,
            capabilities=self.told,
            no_reasoning_limit=self.no_reasoning_limit,
            max_tops=self.tops(MAX_TOPS),
            no_grammar=self.no_grammar or "",
            no_images=self.no_images,
            no_greedy=self.no_greedy,
            no_given="" if self.reads_given else NOT_READ,
            parts_calls=self.calls_tools,
        )

    @property
    def absent(self) -> dict[str, str]:
        """Each statistic that it cannot supply, and why."""
        absent: dict[str, str] = {}
        if self.logprobs is None:
            absent = dict.fromkeys(_LOGPROBS, self.unsound or _NO_LOGPROBS)
        elif not self.raw_greedy:
            unread = ("answer_token_logprobs", "answer_token_texts", "p_true_logprob")
            absent = dict.fromkeys(unread, _SCALED)
        elif not self.tokenizes and self.logprobs < LEAST_FIRST_TOKENS:
            absent["p_true_logprob"] = "the server tells too few likeliest tokens"
        if self.logprobs is not None and self.raw_samples == "never":
            absent["sample_token_logprobs"] = _SCALED
        no_probes = ""
        if self.columns is None:
            no_entropies = self.unsound or _NO_LOGPROBS
            if self.tells_logprobs:
                no_entropies = _NO_ENTROPIES
            entropies = ("answer_token_entropies", "sample_token_entropies")
            absent |= dict.fromkeys(entropies, no_entropies)
            no_probes = f"{_NO_HIDDEN_STATES}: that needs the plugin cocoa-vllm, {_ASKED_BY_IDS}"
        elif self.columns.no_light:
            no_probes = f"{_NO_HIDDEN_STATES}: {self.columns.no_light}"
        elif self.columns.probes and not self.probes:
            no_probes = "the server's probes are not those that this deployment knows"
        if no_probes:  # else it could, and may have no such probe
            absent |= dict.fromkeys(PROBE_STATISTICS - self.probes.keys(), no_probes)
        if not self.reasons:
            absent |= dict.fromkeys(supplied_by("reasoning"), NO_REASONING)
        return absent

    @property
    def told(self) -> dict[str, str | int | bool | None]:
        """What `GET /version` says of the server."""
        dialect, columns = self.tongue.dialect, self.columns
        method = "topk_bounds" if self.tops(BOUNDS_TOP) else None
        renamed = [f"{name}={new}" for name, new in dialect.names.items() if new and new != name]
        left_out = [name for name, new in dialect.names.items() if not new]
        return {
            "server": self.kind,
            "version": self.version or None,
            "endpoint": "completions" if self.completes else "chat completions",
            "token_ids": self.tokenizes,
            "max_logprobs": self.logprobs,
            "raw_logprobs_of_answers": self.raw_greedy,
            "raw_logprobs_of_samples": self.raw_samples,
            "samples_a_call": dialect.most_samples or "any",
            "temperature": dialect.takes("temperature"),
            "top_k": _NOT_KNOWN if (heeded := self.heeds("top_k")) is None else heeded,
            "seed": _NOT_KNOWN if (heeded := self.heeds("seed")) is None else heeded,
            "end_of_answer_token": self.eos_id,
            "scoring_of_given_answers": self.reads_given,
            "entropy_method": method if columns is None else "exact",
            "plugin_probes": 0 if columns is None else len(columns.probes),
            "max_reasoning_tokens": not self.no_reasoning_limit,
            "response_format": _NOT_KNOWN if self.no_grammar is None else not self.no_grammar,
            "response_format_logprobs": _NOT_KNOWN if self.unmasked is None else not self.unmasked,
            "tools": self.calls_tools or self.tokenizes,
            "strict_tools": not self.no_lark,
            "images": not self.no_images,
            "left_out": " ".join(sorted(left_out)) or None,
            "renamed": " ".join(sorted(renamed)) or None,
        }


def common(one: Fingerprint, other: Fingerprint) -> Fingerprint:
    """The answers of two fingerprints that the same weights may have given both times."""
    kept = []
    for answer, again in zip(one, other, strict=True):
        kept.append(answer if answer and again and _may_be_same(*answer, *again) else None)
    return tuple(kept)


def _may_be_same(text: str, mean: float | None, again: str, other: float | None) -> bool:
    if mean is None or other is None:
        return (text, mean) == (again, other)
    return text == again and abs(mean - other) <= _MEANS_APART


def _digest(fingerprint: Fingerprint) -> str:
    """The same for all who ask the same weights, but for rounding."""
    texts, means = [], []
    for answer in fingerprint:
        text, mean = answer or (None, None)
        texts.append(text)
        means.append(None if mean is None else round(mean, 2) + 0.0)
    return digest_of(tuple(texts), means)


_NO_LARK = (
    "the server of the model follows no grammar that may call tools or not: with vLLM that takes "
    "--structured-outputs-config.backend guidance"
)
NOT_READ = "the server of the model cannot read an answer that is given"
_STATISTICS = ANSWER_STATISTICS | SAMPLE_STATISTICS | supplied_by("reasoning", "question")
_LOGPROBS = (
    "answer_token_logprobs", "answer_token_texts", "sample_token_logprobs", "sample_token_texts",
    "p_true_logprob",
)  # fmt: skip
_NO_LOGPROBS = "the server of the model tells no log-probs"
_SCALED = "the server's log-probs may be those after temperature or truncation"
_ASKED_BY_IDS = "which prompts of token ids alone reach"
_NO_ENTROPIES = (
    f"the server of the model tells no entropies: they need the plugin cocoa-vllm, {_ASKED_BY_IDS}"
)
_NO_HIDDEN_STATES = "the server of the model shows no hidden states to probes"
