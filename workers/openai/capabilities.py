"""What a server can do, by its profile and as it was tried out, and what follows. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from models.digests import digest_of
from models.engines.protocol import NO_REASONING
from models.locations import public_name
from models.records import MAX_TOPS
from models.statistics import (
    ANSWER_STATISTICS,
    PROBE_STATISTICS,
    SAMPLE_STATISTICS,
    supplied_by,
)
from models.units.reasoning import Tags
from workers.openai.dialect import Dialect
from workers.openai.model_calls import Tongue
from workers.openai.profiles import GENERIC, PROFILES, Profile, Scoring
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
# Nats between the means of two answers of the same weights, at most.
_MEANS_APART = 0.02
# Prompts of a fingerprint that any way to the same weights is asked.
LEAST_PROMPTS = 1
# Where a server says nothing of its context, it refuses what is too long itself.
UNKNOWN_CONTEXT = 1_048_576


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
        are_shown: whether texts show them; special tokens are left out there.
    """

    tags: Tags
    start: int
    end: tuple[int, ...]
    are_shown: bool

    def first_behind(self, ids: Sequence[int]) -> int | None:
        """Index of the first token behind the end tag; None where it does not occur."""
        size = len(self.end)
        for first in range(size, len(ids) + 1):
            if tuple(ids[first - size : first]) == self.end:
                return first
        return None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What one server can do; None is what no request has needed yet.

    Attributes:
        model_id: as it calls the model.
        root: where it says that it has it from; "" for none. Never told to anybody.
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
        scoring: see `Scoring`.
        special_prefix: ids that every prompt begins with.
        eos_id: of the token that ends an answer; None where none was seen.
        tag_ids: of reasonings, where its tokenizer has tokens for them.
        columns: of the plugin; None without it.
        reasons: whether its model was seen to reason.
        no_grammar: why it holds no text to a schema; "" where it does.
        unmasked: why its log-probs under a schema cannot be read; "" where they are those among the
            tokens that the schema allows.
        no_images: why it reads no images in chats; "" where it does.
    """

    model_id: str
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
    scoring: Scoring = "none"
    special_prefix: tuple[int, ...] = ()
    eos_id: int | None = None
    tag_ids: tuple[TagIds, ...] = ()
    columns: Columns | None = None
    reasons: bool = False
    no_grammar: str | None = None
    unmasked: str | None = None
    no_images: str = ""

    @property
    def profile(self) -> Profile:
        """What is known of its kind."""
        return PROFILES[self.kind]

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
    def tells_logprobs(self) -> bool:
        """Whether an answer's log-probs can be had."""
        return self.logprobs is not None and self.raw_greedy

    def tells_raw_samples(self, temperature: float) -> bool:
        """Whether log-probs of samples that are drawn so are those of the raw distribution."""
        if self.raw_samples == "at_temperature_one":
            return temperature == 1.0
        return self.raw_samples == "always"

    @property
    def max_tops(self) -> int:
        """How many likeliest tokens can be told by their texts."""
        if self.columns is not None or not self.tells_logprobs:
            return 0
        return min(self.logprobs or 0, MAX_TOPS)

    @property
    def bounds_top(self) -> int:
        """How many likeliest tokens bound an answer's entropy; 0 where they tell nothing."""
        if self.columns is not None or not self.tells_logprobs:
            return 0
        return min(self.logprobs or 0, BOUNDS_TOP)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a server answers to a few fixed prompts: other weights hardly answer the same.

    Attributes:
        texts: greedy answers; None for one that the same weights answer now so, now otherwise.
        means: of their tokens' log-probs; None for an answer without any.
    """

    texts: tuple[str | None, ...]
    means: tuple[float | None, ...]

    def agrees(self, other: "Fingerprint") -> bool:
        """Whether the same weights may have answered both times."""
        return self.common(other).texts == self.texts

    def common(self, other: "Fingerprint") -> "Fingerprint":
        """What holds both times."""
        texts, means = list(self.texts), list(self.means)
        for i, (mean, other_mean) in enumerate(zip(self.means, other.means, strict=True)):
            near = mean == other_mean
            if mean is not None and other_mean is not None:
                near = abs(mean - other_mean) <= _MEANS_APART
            if texts[i] != other.texts[i] or not near:
                texts[i] = None
            if texts[i] is None:
                means[i] = None
        return Fingerprint(tuple(texts), tuple(means))

    def digest(self, num: int | None = None) -> str:
        """Of the first answers; the same for all who ask the same weights, but for rounding."""
        means = [None if mean is None else round(mean, 2) + 0.0 for mean in self.means[:num]]
        return digest_of(self.texts[:num], means)


@dataclass(frozen=True, slots=True)
class OpenAIServer:
    """One server as it was last tried out.

    Attributes:
        system_fingerprints: what it calls what it runs.
        probes: by the statistic that each predicts, those that its plugin reads.
        prompts: sha256 of the calibration's prompts with which its plugin compares others; "" for
            none that this deployment knows.
        revision: that the deployment says its weights have; "" where it leaves that to the server.
        is_routed: whether it is a router, behind which replicas come and go, and which may hide
            some of what a server tells.
    """

    capabilities: Capabilities
    fingerprint: Fingerprint
    tongue: Tongue = field(compare=False)
    system_fingerprints: frozenset[str] = frozenset()
    probes: Mapping[str, ProbeInfo] = field(default_factory=dict)
    prompts: str = ""
    revision: str = ""
    is_routed: bool = False

    @property
    def identity(self) -> str:
        """Digest of all that decides its answers, as far as it can be known from outside.

        Of a router: of what any way to the same servers tells, by the plugin's mark where there is
        one, so that a calibration holds behind all of them.
        """
        can, probes = self.capabilities, sorted(one.sha256 for one in self.probes.values())
        if self.is_routed:
            weights = can.columns or self.fingerprint.digest(LEAST_PROMPTS)
            return digest_of(
                "routed", can.model_id, self.revision, weights, probes, can.raw_samples,
                can.raw_greedy, can.scoring != "none",
            )  # fmt: skip
        parts: list[Any] = [can.model_id, can.root, can.max_context_tokens, self.revision]
        parts += [can.completes, can.tokenizes, can.logprobs, can.raw_samples, can.raw_greedy]
        parts += [can.scoring, can.eos_id, can.columns, probes]
        parts.append(self.fingerprint.digest())
        return digest_of(*parts)

    @property
    def info(self) -> GeneratorInfo:
        """What the service is told of it."""
        can, absent = self.capabilities, absent_statistics(self.capabilities, self.probes)
        revision = self.revision or self.identity[:12]
        if can.columns is not None:
            revision = can.columns.revision or revision
        return GeneratorInfo(
            identity=self.identity,
            model_id=public_name(can.model_id),
            revision=revision,
            dtype="",
            statistics=(_STATISTICS | self.probes.keys()) - absent.keys(),
            max_context_tokens=can.max_context_tokens,
            probes=self.probes,
            prompts=self.prompts,
            absent=absent,
            capabilities=told(can, self.tongue.dialect),
            no_reasoning_limit=can.no_reasoning_limit,
            max_tops=can.max_tops,
            no_grammar=can.no_grammar or "",
            no_images=can.no_images,
            no_greedy=no_greedy(self.tongue.dialect),
            no_given=_NOT_READ if can.scoring == "none" else "",
            parts_calls=can.calls_tools,
        )


def no_greedy(dialect: Dialect) -> str:
    """Why each answer of the server is a draw; "" where it answers greedily."""
    return "" if dialect.takes("temperature") else "the server of the model fixes the temperature"


_NO_LARK = (
    "the server of the model follows no grammar that may call tools or not: with vLLM that takes "
    "--structured-outputs-config.backend guidance"
)
_NOT_READ = "the server of the model cannot read an answer that is given"
_STATISTICS = ANSWER_STATISTICS | SAMPLE_STATISTICS | supplied_by("reasoning", "question")
_LOGPROBS = ("answer_token_logprobs", "answer_token_texts", "sample_token_logprobs")
_NO_LOGPROBS = "the server of the model tells no log-probs"
_SCALED = "the server's log-probs may be those after temperature or truncation"
_NO_ENTROPIES = "the server of the model tells no entropies: they need the plugin cocoa-vllm"
_NO_HIDDEN_STATES = "the server of the model shows no hidden states to probes"
_NEEDS_IDS = "; of a model that reasons also that prompts of token ids are taken"


def absent_statistics(can: Capabilities, probes: Mapping[str, ProbeInfo]) -> dict[str, str]:
    """Each statistic that the server cannot supply, and why."""
    absent: dict[str, str] = {}
    if can.logprobs is None:
        absent |= dict.fromkeys(_LOGPROBS, can.unsound or _NO_LOGPROBS)
        absent |= dict.fromkeys(("sample_token_texts", "p_true_logprob"), absent[_LOGPROBS[0]])
    elif not can.raw_greedy:
        unread = ("answer_token_logprobs", "answer_token_texts", "p_true_logprob")
        absent |= dict.fromkeys(unread, _SCALED)
    elif not can.profile.tells_chosen_ids and can.logprobs < LEAST_FIRST_TOKENS:
        absent["p_true_logprob"] = "the server tells too few likeliest tokens"
    if can.logprobs is not None and can.raw_samples == "never":
        absent["sample_token_logprobs"] = _SCALED
    needs_ids = _NEEDS_IDS if can.reasons and not can.tokenizes else ""
    if can.columns is None:
        reason = can.unsound or _NO_LOGPROBS
        if can.tells_logprobs:
            reason = _NO_ENTROPIES + needs_ids
        absent |= dict.fromkeys(("answer_token_entropies", "sample_token_entropies"), reason)
    reason = ""
    if can.columns is None:
        reason = f"{_NO_HIDDEN_STATES}: that needs the plugin cocoa-vllm{needs_ids}"
    elif can.columns.no_light:
        reason = f"{_NO_HIDDEN_STATES}: {can.columns.no_light}"
    elif can.columns.probes and not probes:
        reason = "the server's probes are not those that this deployment knows"
    if reason:  # else it could, and may have no such probe
        absent |= dict.fromkeys(PROBE_STATISTICS - probes.keys(), reason)
    if not can.reasons:
        absent |= dict.fromkeys(supplied_by("reasoning"), NO_REASONING)
    return absent


def told(can: Capabilities, dialect: Dialect) -> dict[str, str | int | bool | None]:
    """What `GET /version` says of the server."""
    method, num_probes, profile = "topk_bounds" if can.bounds_top else None, 0, can.profile
    if can.columns is not None:
        method, num_probes = "exact", len(can.columns.probes)
    renamed = [f"{name}={new}" for name, new in dialect.names.items() if new and new != name]
    return {
        "server": can.kind,
        "version": can.version or None,
        "endpoint": "completions" if can.completes else "chat completions",
        "token_ids": can.tokenizes,
        "max_logprobs": can.logprobs,
        "raw_logprobs_of_answers": can.raw_greedy,
        "raw_logprobs_of_samples": can.raw_samples,
        "samples_a_call": dialect.most_samples or "any",
        "temperature": dialect.takes("temperature"),
        "top_k": heeds(profile.heeds_top_k, dialect, "top_k", _NOT_KNOWN),
        "seed": heeds(profile.heeds_seed, dialect, "seed", _NOT_KNOWN),
        "end_of_answer_token": can.eos_id,
        "scoring_of_given_answers": can.scoring,
        "entropy_method": method,
        "plugin_probes": num_probes,
        "max_reasoning_tokens": not can.no_reasoning_limit,
        "response_format": _is_heeded(can.no_grammar),
        "response_format_logprobs": _is_heeded(can.unmasked),
        "tools": can.calls_tools or can.tokenizes,
        "strict_tools": not can.no_lark,
        "images": not can.no_images,
        "left_out": " ".join(sorted(n for n, new in dialect.names.items() if not new)) or None,
        "renamed": " ".join(sorted(renamed)) or None,
    }


def heeds(known: bool | None, dialect: Dialect, name: str, unknown: Any = None) -> Any:
    """Whether a server heeds a parameter of this name; `unknown` where nobody knows."""
    if not dialect.takes(name):
        return False
    return unknown if known is None else known


def _is_heeded(reason: str | None) -> bool | str:
    return _NOT_KNOWN if reason is None else not reason
