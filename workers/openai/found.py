"""One server by its profile and its trial, and the abilities that follow from them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import filterfalse
from typing import Any

from models.digests import digest_of
from models.engines.tags import Tags
from models.locations import public_name
from models.records import MAX_TOPS, GenerationRequest
from models.statistics import supplied_by
from workers.openai.logprobs import Columns
from workers.openai.profiles import UNMASKED, Profile
from workers.protocol import GeneratorInfo, ProbeInfo
from workers.remote.refusals import Rejected

_NO_REASONING = "the model of the server is not known to reason"
# Of an ability that is not tried out before a request needs it.
_NOT_KNOWN = "not known yet"
# Groups of spellings are looked for among so many likeliest first tokens.
_LEAST_FIRST_TOKENS = 5
# Of a server that states none: it refuses by itself what is too long.
UNKNOWN_CONTEXT = 1_048_576

# Of weights: the greedy answer to a fixed prompt, and the mean log-prob of its tokens, None where
# these have none.
Fingerprint = tuple[str, float | None]
# Nats between the means of two answers of the same weights, at most.
_MEANS_APART = 0.02


@dataclass(slots=True)
class OpenAIServer:
    """One server, as far as it is known by now; None is what no request has needed yet."""

    model_id: str  # as it calls the model
    profile: Profile  # of its kind, as its refusals have changed it
    # The same as its trial has left it, and the monotonic second of that.
    tried: Profile | None = None
    tried_at: float = 0.0
    kind: str = ""  # its profile's name
    root: str = ""  # the source of the model that it names; "" for none. Never shown to anybody.
    version: str = ""  # of the server's program
    max_context_tokens: int = UNKNOWN_CONTEXT  # of prompt and new tokens
    unsound: str = ""  # why the log-probs of its trial were invalid; "" otherwise
    # A greedy answer's log-probs, and those of samples, are those of the untouched distribution.
    raw_greedy: bool = False
    raw_samples: bool = False
    draws_repeat: bool = False  # draws that cannot be alike are
    counts_one: bool = False  # its `usage` is of one choice of several
    special_prefix: tuple[int, ...] = ()  # ids that every prompt begins with
    eos_id: int | None = None  # of the token that ends an answer; None where none was seen
    columns: Columns | None = None  # of the plugin
    reasons: bool | None = None  # its model reasoned in its trial; None until then
    # `reasoning_effort: "none"` has chats answered without a reasoning.
    heeds_no_effort: bool = False
    tags: Tags | None = None  # around its reasonings, where its texts show them
    no_images: str = ""  # why it reads no images in chats; "" where it does
    # None where the same weights answer now so, now otherwise.
    fingerprint: Fingerprint | None = None
    # By the statistic that each predicts, those that its plugin reads.
    probes: Mapping[str, ProbeInfo] = field(default_factory=dict)
    # Of its weights, as the deployment says; None where it leaves that to the server.
    revision: str | None = None
    # The errors by which it does not take a body.
    refusals: tuple[type[Exception], ...] = (Rejected,)
    # Replicas stand behind it, which come and go; a router may hide some fields of their replies.
    is_routed: bool = False

    def learn(self, **known: Any) -> None:
        """Remember more of how it is spoken to."""
        self.profile = replace(self.profile, **known)

    def draws_at_most(self, num: int) -> None:
        """Remember that one call draws no more samples than these."""
        self.learn(max_samples=min(self.profile.max_samples or num, num))

    def forget(self) -> None:
        """Forget what it has refused since its trial: it may take that by now."""
        then, now = self.tried or self.profile, self.profile
        if now.no_grammar == "" and now.unmasked in ("", UNMASKED):
            then = replace(then, no_grammar="", unmasked=now.unmasked)
        self.profile = then

    def lacks(self, kind: Profile) -> frozenset[str]:
        """What servers of its kind have, and its trial has not shown: another one may show it."""
        has = self.tried or self.profile
        shown = {
            "completes": has.completes == kind.completes,
            "chats": has.chats == kind.chats,
            "tokenizes": has.tokenizes == kind.tokenizes,
            "logprobs": kind.logprobs is None or (has.logprobs or 0) >= kind.logprobs,
            "raw_samples": kind.logprobs is None or self.raw_samples,
            "draws": not self.draws_repeat,
            "fingerprint": kind.is_hosted or self.fingerprint is not None,
            "columns": not kind.tokenizes or self.columns is not None,
            "eos_id": not kind.tokenizes or self.eos_id is not None,
        }
        for name, new in has.names.items():
            shown[name] = bool(new) or not kind.takes(name)
        return frozenset(filterfalse(shown.get, shown))

    @property
    def reads_given(self) -> bool:
        """True where it returns log-probs of a text that exists already."""
        return self.profile.tokenizes and not self.no_logprobs()

    @property
    def calls_tools(self) -> bool:
        """True where the server itself shows tools, and parts calls from text."""
        return self.profile.chats and not self.profile.tokenizes

    @property
    def no_reasoning_limit(self) -> str:
        """The reason why it heeds no `max_reasoning_tokens`; "" where it may."""
        if not self.reasons:
            return _NO_REASONING
        if not self.profile.bounds_reasoning:
            return "the server of the model takes no such bound"
        return ""

    @property
    def no_greedy(self) -> str:
        """The reason why each of its answers is a draw; "" where it answers greedily."""
        if not self.profile.takes("temperature"):
            return "the server of the model fixes the temperature"
        return ""

    def no_logprobs(self, *, of_draws: bool = False) -> str:
        """The reason for no log-probs of the untouched distribution; "" where there are."""
        if self.profile.logprobs is None:
            return self.unsound or _NO_LOGPROBS
        is_raw = self.raw_greedy
        if of_draws:
            is_raw = self.raw_samples
        if not is_raw:
            return SCALED
        return ""

    @property
    def heeds_seed(self) -> bool | None:
        """True where the same seed draws the same; None where that is not known."""
        return self.profile.takes("seed") and self.profile.heeds_seed

    def holds_calls(self, request: GenerationRequest) -> bool:
        """True where the answer has to be a call of a tool, and a parameter requires that."""
        grammar = request.grammar
        is_required = request.tools and grammar is not None and grammar.kind == "json_schema"
        return self.calls_tools and bool(is_required)

    @property
    def identity(self) -> str:
        """Digest of all that decides its answers, as far as it can be known from outside.

        Of replicas: of what each of them shows through any router, by the plugin's mark where there
        is one, so that a calibration holds behind all of them.
        """
        text, mean = self.fingerprint or (None, None)
        if mean is not None:
            mean = round(mean, 2) + 0.0
        answers = text, mean
        parts: list[Any] = [self.model_id, self.revision, self.raw_samples, self.raw_greedy]
        parts.append(sorted(probe.sha256 for probe in self.probes.values()))
        if self.is_routed:
            return digest_of("routed", *parts, self.columns or answers)
        parts += [self.root, self.max_context_tokens, self.profile.completes]
        return digest_of(*parts, self.profile.tokenizes, self.eos_id, self.columns, answers)

    @property
    def info(self) -> GeneratorInfo:
        """The record of it for the service."""
        absent, revision = self.absent, self.revision or self.identity[:12]
        if self.columns is not None:
            revision = self.columns.revision or revision
        no_given = NOT_READ
        if self.reads_given:
            no_given = ""
        max_tops = 0
        if self.columns is None and not self.no_logprobs():
            max_tops = min(self.profile.logprobs or 0, MAX_TOPS)
        return GeneratorInfo(
            identity=self.identity,
            model_id=public_name(self.model_id),
            revision=revision,
            dtype="",
            statistics=(_STATISTICS | self.probes.keys()) - absent.keys(),
            max_context_tokens=self.max_context_tokens,
            probes=self.probes,
            absent=absent,
            capabilities=self.capabilities,
            no_reasoning_limit=self.no_reasoning_limit,
            max_tops=max_tops,
            no_grammar=self.profile.no_grammar or "",
            no_images=self.no_images,
            no_greedy=self.no_greedy,
            no_given=no_given,
            parts_calls=self.calls_tools,
            no_grammar_logprobs=self.profile.unmasked or "",
        )

    @property
    def absent(self) -> dict[str, str]:
        """The reason for each statistic that it cannot supply."""
        none, columns = self.no_logprobs(), self.columns
        absent: dict[str, str] = {}  # the last reason counts
        if not self.profile.tokenizes and (self.profile.logprobs or 0) < _LEAST_FIRST_TOKENS:
            absent["p_true_logprob"] = "the server tells too few likeliest tokens"
        if no_draws := self.no_logprobs(of_draws=True):
            absent["sample_token_logprobs"] = no_draws
        if none:
            absent |= dict.fromkeys(_LOGPROBS, none)
        no_probes = ""
        if columns is None:
            absent |= dict.fromkeys(_ENTROPIES, none or _NO_ENTROPIES)
            no_probes = f"{_NO_HIDDEN_STATES}: that needs the plugin cocoa-vllm, {_BY_IDS_ALONE}"
        elif columns.no_light:
            no_probes = f"{_NO_HIDDEN_STATES}: {columns.no_light}"
        elif columns.probes and not self.probes:
            no_probes = "the server's probes are not those that this deployment knows"
        if no_probes:
            absent |= dict.fromkeys(supplied_by("probe") - self.probes.keys(), no_probes)
        if not self.reasons:
            absent |= dict.fromkeys(supplied_by("reasoning"), _NO_REASONING)
        if self.draws_repeat:
            absent |= dict.fromkeys(supplied_by("samples"), REPEATED)
        return absent

    @property
    def capabilities(self) -> dict[str, str | int | bool | None]:
        """The fields of the server in `GET /version`."""
        profile, columns = self.profile, self.columns
        renamed, left_out = [], []
        for name, new in profile.names.items():
            if new:
                renamed.append(f"{name}={new}")
            else:
                left_out.append(name)
        endpoint = "chat completions"
        if profile.completes:
            endpoint = "completions"
        seed: str | bool | None = self.heeds_seed
        if seed is None:
            seed = _NOT_KNOWN
        num_probes = None
        if columns is not None:
            num_probes = len(columns.probes)
        return {
            "server": self.kind,
            "version": self.version or None,
            "endpoint": endpoint,
            "token_ids": profile.tokenizes,
            "max_logprobs": profile.logprobs,
            "raw_logprobs_of_answers": self.raw_greedy,
            "raw_logprobs_of_samples": self.raw_samples,
            "samples_a_call": profile.max_samples or "any",
            "temperature": profile.takes("temperature") and not self.draws_repeat,
            "top_k": profile.takes("top_k"),
            "seed": seed,
            "end_of_answer_token": self.eos_id,
            "scoring_of_given_answers": self.reads_given,
            "plugin_probes": num_probes,
            "max_reasoning_tokens": not self.no_reasoning_limit,
            "response_format": _works(profile.no_grammar),
            "response_format_logprobs": _works(profile.unmasked),
            "tools": profile.chats or profile.tokenizes,
            "strict_tools": profile.tokenizes,
            "images": not self.no_images,
            "left_out": " ".join(sorted(left_out)) or None,
            "renamed": " ".join(sorted(renamed)) or None,
        }


def _works(reason: str | None) -> str | bool:
    """True where there is no reason, "", why it does not; `_NOT_KNOWN` for None."""
    if reason is None:
        return _NOT_KNOWN
    return not reason


def agree(one: Fingerprint, other: Fingerprint) -> bool:
    """True where the same weights may have given both."""
    if one[1] is None or other[1] is None:
        return one == other
    return one[0] == other[0] and abs(one[1] - other[1]) <= _MEANS_APART


NOT_READ = "the server of the model cannot read an answer that is given"
SCALED = "the server's log-probs may be those after temperature or truncation"
REPEATED = "the draws of the model's server repeat what is too unlikely to repeat: they are none"
_STATISTICS = supplied_by("answer", "samples", "reasoning", "question")
_LOGPROBS = (
    "answer_token_logprobs", "answer_token_texts", "sample_token_logprobs", "sample_token_texts",
    "p_true_logprob", "closed_book_token_logprobs",
)  # fmt: skip
_ENTROPIES = ("answer_token_entropies", "sample_token_entropies")
_NO_LOGPROBS = "the server of the model tells no log-probs"
_BY_IDS_ALONE = "which prompts of token ids alone reach"
_NO_ENTROPIES = (
    f"the server of the model tells no entropies: they need the plugin cocoa-vllm, {_BY_IDS_ALONE}"
)
_NO_HIDDEN_STATES = "the server of the model shows no hidden states to probes"
