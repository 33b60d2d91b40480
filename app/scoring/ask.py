"""The question to the core: one frozen record, whichever endpoint or command asks it."""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from app.scoring.selection import Strategy
from models.images import PARTS as IMAGE_PARTS
from models.records import EFFORT, GivenAnswer, Grammar, SamplingParams
from models.units.unit import Kind
from models.warnings import Warned

OnReject = Literal["answer", "abstain"]
Units = Literal["answer", "fields", "sentences", "claims"]
OnUnitReject = Literal["keep", "remove", "abstain"]
# The confidence below which an answer that does not pass is not worth a second look.
HAND_OVER_BELOW = 0.5
# The kind of the parts that an ask wants.
PARTS: Mapping[Units | None, Kind] = {"fields": "field", "sentences": "sentence", "claims": "claim"}


class Charge(Protocol):
    """Counts what a request turned out to cost."""

    def __call__(self, tokens: int = 0, requests: int = 0) -> None: ...


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller on whose behalf is asked; by default nobody in particular.

    Attributes:
        name: of the key; callers with the same name share turns.
        namespace: of cached entries, and of answers that can be labelled.
        charge: called with each number of tokens computed for the caller, as soon as it is known,
            and with that of requests beyond the one that came.
    """

    name: str = ""
    namespace: str = ""
    modes: tuple[str, ...] = ("full", "light")
    charge: Charge = field(default=lambda tokens=0, requests=0: None, compare=False)


NOBODY = Caller()
# Set around each request that comes with a key. An ask takes its caller from here, so that no
# endpoint can forget it and show one caller entries of another caller's asks.
current_caller: ContextVar[Caller] = ContextVar("caller", default=NOBODY)


@dataclass(frozen=True, slots=True)
class GivenSample:
    """A sample that was drawn elsewhere.

    Attributes:
        token_logprobs: (T,) nats; None where they are not known.
    """

    text: str
    token_logprobs: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class GivenClaim:
    """A claim of an answer, in words that need not be the answer's.

    Attributes:
        text: understandable without the answer.
        quotes: the words of the answer that state it, in their order; empty where not known.
    """

    text: str
    quotes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """A prompt or an answer, and what is to be scored and returned of it.

    Endpoints check shapes and bounds, `app.scoring.check` what this deployment can do. Its errors
    name these fields, which an endpoint translates into its own.

    Attributes:
        prompt: raw text; exclusive with `messages`. With neither no model answers.
        messages: chat messages {"role", "content"}; see `models.records.GenerationRequest`.
        tools: that the model may call; the fields of an answer that calls some are its calls'.
        chat_template_kwargs: variables of the model's chat template, `reasoning_effort` among them.
        grammar: that what the model writes is held to; None for any text.
        answer: an existing one; None lets the model answer.
        answer_token_logprobs: (T,) nats, by the model that wrote the given answer; None lets the
            model here read it.
        samples: existing ones; None lets the model draw them where any are read.
        sampling: the law of the samples, and bounds of the texts.
        strategy: which text is scored; heeded where the model answers.
        greedy_by: what the caller of an endpoint sends for the greedy answer, in its words, where a
            temperature has made the answer a drawn one; None where `strategy` did.
        names: what the caller's request calls fields of this record, where it is another name.
        light: no samples may be drawn; a probe stands for them.
        estimators: names to score; None for the default ones.
        of_tokens: the default estimators are those that read no samples.
        primary: the one whose value is *the* uncertainty; None for the default one.
        similarity: name of the similarity function; None for the deployment's default.
        explain: the samples are returned in groups by meaning.
        num_tops: likeliest tokens that are returned for each token of the shown texts.
        num_shown: texts that are shown: the scored one, then the first others of its law.
        units: the parts of the answer that are scored by themselves; "answer" for it alone.
        claims: of the given answer, where units are claims, and only there.
        json_schema: that an answer with fields follows; it says how their values are compared.
        target_error: largest wanted share of wrong answers among those that pass; None for no
            decision.
        on_reject: the fate of an answer that does not pass: it is returned all the same, or held
            back.
        hand_over_below: confidence below which an answer that does not pass is to be handed over,
            and from which on it is to be verified; None for `HAND_OVER_BELOW`.
        on_unit_reject: the fate of parts that do not pass: they are kept, or removed from the
            text, or the whole answer is held back.
        calibration: group of the calibrator; None for that of all labels.
        cache: earlier results may serve, and this one may be stored.
        timeout_s: seconds within which a result is of use; None for as long as it takes.
        in_background: the caller's other asks go first.
        unheeded: codes of what was sent and is shown to no model, or not as it was sent; reported
            as warnings.
        renamed: codes of old names that were sent; reported as warnings.
    """

    prompt: str | None = None
    messages: tuple[Mapping[str, Any], ...] | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    grammar: Grammar | None = None
    answer: GivenAnswer | None = None
    answer_token_logprobs: tuple[float, ...] | None = None
    samples: tuple[GivenSample, ...] | None = None
    sampling: SamplingParams = field(default_factory=SamplingParams)
    strategy: Strategy = "greedy"
    greedy_by: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    light: bool = False
    estimators: tuple[str, ...] | None = None
    of_tokens: bool = False
    primary: str | None = None
    similarity: str | None = None
    return_samples: bool = False
    return_tokens: bool = False
    num_tops: int = 0
    num_shown: int = 1
    units: Units | None = None
    claims: tuple[GivenClaim, ...] | None = None
    json_schema: Mapping[str, Any] | bool = True
    explain: bool = False
    target_error: float | None = None
    on_reject: OnReject = "answer"
    hand_over_below: float | None = None
    on_unit_reject: OnUnitReject = "keep"
    calibration: str | None = None
    cache: bool = True
    timeout_s: float | None = None
    caller: Caller = field(default_factory=current_caller.get)
    in_background: bool = False
    unheeded: tuple[Warned, ...] = ()
    renamed: tuple[Warned, ...] = ()

    def without_texts(self) -> "Ask":
        """The ask without the words of prompt, messages and template variables, fit to be kept."""
        messages: tuple[Mapping[str, Any], ...] | None = None
        if self.messages is not None:
            messages = tuple(dict.fromkeys(message) for message in self.messages)
        kwargs, prompt = self.chat_template_kwargs, self.prompt and ""
        kwargs = {name: kwargs[name] for name in kwargs.keys() & {EFFORT}}
        return replace(self, prompt=prompt, messages=messages, chat_template_kwargs=kwargs)

    def with_system_merged(self) -> "Ask | None":
        """The ask with system messages put before the first user message; None without them.

        For models whose chat template has no place for them.
        """
        messages = self.messages or ()
        system = [one for one in messages if one["role"] == "system"]
        others = [one for one in messages if one["role"] != "system"]
        users = [number for number, one in enumerate(others) if one["role"] == "user"]
        if not system or not users:
            return None
        first, lead = dict(others[users[0]]), "".join(f"{one['content']}\n\n" for one in system)
        first["content"] = lead + first["content"]
        if IMAGE_PARTS in first:
            first[IMAGE_PARTS] = [{"type": "text", "text": lead}, *first[IMAGE_PARTS]]
        others[users[0]] = first
        unheeded = (*self.unheeded, Warned.SYSTEM_MERGED)
        return replace(self, messages=tuple(others), unheeded=unheeded)

    @property
    def mode(self) -> Literal["full", "light"]:
        if self.light:
            return "light"
        return "full"

    @property
    def input(self) -> Literal["prompt", "messages", "images"]:
        """The form of the prompt; images are in messages."""
        if self.has_images:
            return "images"
        if self.prompt is None:
            return "messages"
        return "prompt"

    @property
    def has_images(self) -> bool:
        return any(IMAGE_PARTS in message for message in self.messages or ())

    @property
    def how_it_reasons(self) -> dict[str, int | str]:
        """The options of its reasoning, by name; empty for none."""
        sampling, effort = self.sampling, self.chat_template_kwargs.get(EFFORT)
        options = {
            "max_reasoning_tokens": sampling.max_reasoning_tokens,
            "max_sample_reasoning_tokens": sampling.max_sample_reasoning_tokens,
            EFFORT: None if effort is None else str(effort),
        }
        return {name: value for name, value in options.items() if value is not None}

    @property
    def shown(self) -> tuple[int, ...]:
        """The texts that are shown: 0 for the greedy answer, i for the i-th sample."""
        first = int(self.strategy == "sample")
        return tuple(range(first, first + self.num_shown))

    @property
    def schema_use(self) -> str:
        """The use of a schema: to hold texts to it, or only to compare values of fields.

        The fields of calls follow the schemas of their tools.
        """
        if self.grammar is not None and self.tools:
            return "called and followed"
        if self.grammar is not None:
            return "followed"
        if self.tools:
            return "called"
        if self.json_schema is True:
            return "none"
        return "compared"

    @property
    def requires_call(self) -> bool:
        """True where the model may write nothing but a call of a tool."""
        return bool(self.tools) and self.grammar is not None and self.grammar.kind == "json_schema"

    @property
    def has_prompt(self) -> bool:
        return self.prompt is not None or self.messages is not None
