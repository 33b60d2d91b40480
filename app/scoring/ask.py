"""The question to the core: one frozen record, whichever endpoint or command asks it."""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from app.scoring.selection import AnswerStrategy
from models.images import PARTS as IMAGE_PARTS
from models.records import EFFORT, GivenAnswer, Grammar, SamplingParams
from models.units.unit import Kind
from models.warnings import Warned

OnReject = Literal["answer", "abstain"]
Units = Literal["answer", "fields", "sentences", "claims"]
OnUnitReject = Literal["keep", "remove", "abstain"]
# The confidence below which an answer that does not pass is not worth a second look.
HAND_OVER_BELOW = 0.5
# The longest deadline that an ask may have.
MAX_TIMEOUT_S = 600.0
# The kind of the parts that an ask wants.
PARTS: Mapping[Units | None, Kind] = {"fields": "field", "sentences": "sentence", "claims": "claim"}


class Charge(Protocol):
    """Counts what a request turned out to cost."""

    def __call__(self, tokens: int = 0, requests: int = 0) -> None: ...


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller on whose behalf is asked; by default nobody in particular."""

    name: str = ""  # of the key; callers with the same name share turns
    namespace: str = ""  # of cached entries, and of answers that can be labelled
    modes: tuple[str, ...] = ("full", "light")
    # Called with each number of tokens computed for the caller, as soon as it is known, and with
    # that of requests beyond the one that came.
    charge: Charge = field(default=lambda tokens=0, requests=0: None, compare=False)


NOBODY = Caller()
# Set around each request that comes with a key. An ask takes its caller from here, so that no
# endpoint can forget it and show one caller entries of another caller's asks.
current_caller: ContextVar[Caller] = ContextVar("caller", default=NOBODY)


@dataclass(frozen=True, slots=True)
class GivenSample:
    """A sample that was drawn elsewhere."""

    text: str
    token_logprobs: tuple[float, ...] | None = None  # (T,) nats; None where they are not known


@dataclass(frozen=True, slots=True)
class GivenClaim:
    """A claim of an answer, in words that need not be the answer's."""

    text: str  # understandable without the answer
    # The words of the answer that state it, in their order; empty where not known.
    quotes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """A prompt or an answer, and what is to be scored and returned of it.

    Endpoints check shapes and bounds, `app.scoring.check` what this deployment can do. Its errors
    name these fields, which an endpoint translates into its own.
    """

    prompt: str | None = None  # raw text; exclusive with `messages`. With neither no model answers.
    prompt_ids: tuple[int, ...] = ()  # of its tokens, where the client sends these
    echo: bool = False  # the prompt's own tokens are returned; such a result is never cached
    # Chat messages {"role", "content"}; see `models.records.GenerationRequest`.
    messages: tuple[Mapping[str, Any], ...] | None = None
    # That the model may call; the fields of an answer that calls some are its calls'.
    tools: tuple[Mapping[str, Any], ...] = ()
    # Variables of the model's chat template, `reasoning_effort` among them.
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    grammar: Grammar | None = None  # that what the model writes is held to; None for any text
    format_grammar: Grammar | None = None  # the same as if there were no tools
    answer: GivenAnswer | None = None  # an existing one; None lets the model answer
    # (T,) nats, by the model that wrote the given answer; None lets the model here read it.
    answer_token_logprobs: tuple[float, ...] | None = None
    # Existing ones; None lets the model draw them where any are read.
    samples: tuple[GivenSample, ...] | None = None
    # Each {"doc_id", "title", "text"}, in which the answer is looked up. The model is shown them by
    # its chat template, or because the prompt holds them. None where it is looked up in none.
    documents: tuple[Mapping[str, str], ...] | None = None
    # "tools": they are what tools have given in the messages, which may be nothing yet.
    documents_in: Literal["template", "prompt", "tools"] = "template"
    by_rules: bool = False  # a given answer is held to its documents alone: no model is asked
    # The law of the samples, and bounds of the texts.
    sampling: SamplingParams = field(default_factory=SamplingParams)
    # Which text is scored, where the model answers; see `SamplingParams.answer_temperature`, too.
    strategy: AnswerStrategy = "greedy"
    # What the caller's request calls fields of this record, where it is another name.
    names: Mapping[str, str] = field(default_factory=dict)
    light: bool = False  # no samples may be drawn; a probe stands for them
    estimators: tuple[str, ...] | None = None  # names to score; None for the default ones
    of_tokens: bool = False  # the default estimators are those that read no samples
    primary: str | None = None  # the one whose value is *the* uncertainty; None for the default one
    # Name of the similarity function; None for the deployment's default.
    similarity: str | None = None
    return_samples: bool = False
    return_tokens: bool = False
    num_tops: int = 0  # likeliest tokens that are returned for each token of the shown texts
    num_shown: int = 1  # texts that are shown: the scored one, then the first samples
    # The parts of the answer that are scored by themselves; "answer" for it alone.
    units: Units | None = None
    # Of the given answer, where units are claims, and only there.
    claims: tuple[GivenClaim, ...] | None = None
    # That an answer with fields follows; it says how their values are compared.
    json_schema: Mapping[str, Any] | bool = True
    explain: bool = False  # the samples are returned in groups by meaning
    # Largest wanted share of wrong answers among those that pass; None for no decision.
    target_error: float | None = None
    # The fate of an answer that does not pass: it is returned all the same, or held back.
    on_reject: OnReject = "answer"
    # Confidence below which an answer that does not pass is to be handed over, and from which on
    # it is to be verified; None for `HAND_OVER_BELOW`.
    hand_over_below: float | None = None
    # The fate of parts that do not pass: they are kept, or removed from the text, or the whole
    # answer is held back.
    on_unit_reject: OnUnitReject = "keep"
    calibration: str | None = None  # group of the calibrator; None for that of all labels
    cache: bool = True  # earlier results may serve, and this one may be stored
    # Seconds within which a result is of use; None for as long as it takes.
    timeout_s: float | None = None
    caller: Caller = field(default_factory=current_caller.get)
    in_background: bool = False  # the caller's other asks go first
    is_admitted: bool = False  # as one of several of a request, which holds one place
    # Codes of what was sent and is shown to no model, or not as it was sent; reported as
    # warnings.
    unheeded: tuple[Warned, ...] = ()

    @property
    def tool_names(self) -> list[str]:
        """Names of the tools that the model may call."""
        return [tool["function"]["name"] for tool in self.tools]

    def without_texts(self) -> "Ask":
        """The ask without the words of prompt, documents and variables, fit to be kept."""
        messages: tuple[Mapping[str, Any], ...] | None = None
        if self.messages is not None:
            messages = tuple(dict.fromkeys(message) for message in self.messages)
        kwargs, prompt = self.chat_template_kwargs, self.prompt and ""
        kwargs = {name: kwargs[name] for name in kwargs.keys() & {EFFORT}}
        kept = replace(self, prompt=prompt, messages=messages, chat_template_kwargs=kwargs)
        return replace(kept, prompt_ids=(), documents=None)

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

    def without_tools(self) -> "Ask":
        """The ask as if it had not offered any tools, for models whose template takes none."""
        sampling, units = self.sampling, self.units
        if self.of_tokens:  # so that as many samples as by default were not asked for
            num_samples = max(sampling.num_samples, SamplingParams().num_samples)
            sampling = replace(sampling, num_samples=num_samples)
        if units == "fields" and self.json_schema is True:
            units = None
            if self.documents is not None:
                units = "sentences"
        plain = replace(self, tools=(), of_tokens=False, sampling=sampling, units=units)
        unheeded = (*self.unheeded, Warned.TOOLS_LEFT_OUT)
        return replace(plain, grammar=self.format_grammar, unheeded=unheeded)

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
    def documents_to_show(self) -> tuple[Mapping[str, str], ...]:
        """Those that the model is yet to be shown: it reads the others in its prompt."""
        if self.documents_in == "template":
            return self.documents or ()
        return ()

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
        return not self.by_rules and (self.prompt is not None or self.messages is not None)
