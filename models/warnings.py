"""Every warning that a response can carry: one table of codes, meanings, and what to do.

Documentation is made from it (docs/reference/errors.md). A new warning is a row here, a line of the
page's `run.js`, and the code that notices it: in `app.scoring.result`, in the `warnings` of a
generation or of an answer's parts, or in an ask's `unheeded`.
"""

from enum import StrEnum, auto


class Warned(StrEnum):
    """What a response warns of. Of each: what was noticed, and behind "Do:" what to do about it."""

    # What was asked.
    NAMES_NOT_SHOWN = auto()
    """Messages name their speakers, and the chat template leaves a name out. Do: Write the names
    into the messages."""
    REASONING_NOT_SHOWN = auto()
    """The chat template, or the model's server, leaves out the reasoning of an earlier answer."""
    TEXT_BESIDE_CALLS_NOT_SHOWN = auto()
    """The chat template shows the calls of an earlier answer, and not the text beside them."""
    SYSTEM_MERGED = auto()
    """The chat template takes no system message: it went before the first of the user."""
    TOOLS_LEFT_OUT = auto()
    """Tools are shown to no model: they are a platform's, as `web_search`, or the chat template
    takes none and `COCOA_LEAVE_OUT_TOOLS` is set. Do: Expect no calls of them."""
    DOCUMENTS_IN_MESSAGE = auto()
    """The chat template is not known to show documents: they went before the user's last message.
    Do: Write them into messages yourself ([documents.md](documents.md))."""
    IGNORE_EOS_LEFT_OUT = auto()
    """`ignore_eos` is not heeded: a text ends where the model ends it. Do: Count its tokens by
    `usage`."""
    ONE_OF_AS_ANY_OF = auto()
    """A `oneOf` is held as `anyOf` ([structured.md](structured.md#what-a-schema-may-say)). Do:
    Validate the answer where it must be valid under one branch only."""
    MAX_NEW_TOKENS_CLAMPED = auto()
    """Fewer new tokens fit beside the prompt than `max_tokens` asks for at `/v1`, or than the
    default. Do: Shorten the prompt, or give the model a longer context."""
    PROMPT_AS_MESSAGE = auto()
    """The model's server takes no raw prompt: it was sent as a message of the user. Do: Send
    `messages`, or use [another server](servers.md)."""
    # The texts, and how they end.
    ANSWER_REFUSED = auto()
    """The model's server refused to answer: all scores are null."""
    ANSWER_FILTERED = auto()
    """The filter of the model's server cut the answer: without any text all scores are null."""
    EMPTY_ANSWER = auto()
    """Nothing was said, which may look sure."""
    ANSWER_TRUNCATED = auto()
    """The answer was cut at its limit of tokens. Do: Raise `max_new_tokens`."""
    SAMPLES_TRUNCATED = auto()
    """Samples were cut at their limit of tokens. Do: Raise `max_new_tokens`."""
    SAMPLES_LEFT_OUT = auto()
    """The model's server refused samples, or its filter cut them: `provenance` counts them."""
    FINISH_REASON_UNKNOWN = auto()
    """The model's server ended a text for a reason that is not known here. Do: Look whether the
    answer is whole: `finish_reason` has the server's word."""
    REASONING_EXCLUDED = auto()
    """The answer or a sample came behind a reasoning, which is not scored."""
    REASONING_UNFINISHED = auto()
    """The model was cut off before it gave an answer: all scores are null. Do: Raise
    `max_new_tokens`."""
    REASONING_NOT_TOLD = auto()
    """The model's server does not show the reasoning, which is then empty."""
    # What an existing server lacks.
    NO_EOS_LOGPROB = auto()
    """The model's server does not tell the log-prob of the answer's end, which is left out. Do:
    Compare such scores with those of the same server only."""
    TEMPERATURE_NOT_HEEDED = auto()
    """The model's server does not heed `temperature` or `top_p`. Do: Leave them out, or use
    [another server](servers.md)."""
    TOP_K_NOT_HEEDED = auto()
    """The model's server does not heed `top_k`. Do: Leave it out, or use [another
    server](servers.md)."""
    SEED_NOT_HEEDED = auto()
    """The model's server does not heed `seed`: the same request may draw other samples."""
    DRAWS_REPEAT = auto()
    """Samples repeat that cannot be draws: what they would tell is null. Do: Have the server sample
    ([servers.md](servers.md#draws-that-are-none))."""
    ANSWER_IS_DRAWN = auto()
    """The model's server has no greedy answer: the answer is a draw, as the samples are."""
    # Comparing.
    SIMILARITY_TRUNCATED = auto()
    """Texts were cut that are longer than the similarity model reads. Do: Use a similarity model
    that reads longer texts."""
    SIMILARITY_OUT_OF_DOMAIN = auto()
    """An embedded pair model compared answers that it does not know: of another language model, or
    samples that were brought along. What means the same is then not known. Do: Set
    `COCOA_SIMILARITY__MODEL`, or `COCOA_NLI__MODEL`."""
    # Calibration and probes.
    CALIBRATION_SHIFT = auto()
    """What is served lately is unlike what was calibrated. Do: [Calibrate](calibration.md) anew,
    with prompts as they come now."""
    PROMPT_OUT_OF_DOMAIN = auto()
    """The prompt is unlike all that were calibrated. Do: Do not rely on the confidence, or
    [calibrate](calibration.md) with such prompts."""
    OUT_OF_DOMAIN = auto()
    """The answer, or a sentence of it, is unlike those that the probe was trained on. Do: Do not
    rely on light scores: ask with `mode: full`."""
    ONE_TOKEN_ANSWER = auto()
    """The answer is one token: its probe had only the prompt's last state to read."""
    # The parts of an answer.
    ANSWER_NOT_JSON = auto()
    """The answer is no JSON, and has no fields. Do: Hold the answer to a schema by
    `json_schema`."""
    UNITS_CUT = auto()
    """The answer has more parts than are told. Do: Raise `COCOA_LIMITS__MAX_UNITS`."""
    NO_SENTENCES = auto()
    """The answer has no sentences."""
    SENTENCES_SHORTENED = auto()
    """A sentence is longer than the NLI model reads: only its beginning was compared."""
    CLAIMS_SHORTENED = auto()
    """A claim is longer than the NLI model reads: only its beginning was compared. Do: Shorten the
    claim."""
    QUOTES_NOT_FOUND = auto()
    """A claim's quote does not occur in the answer: the claim has no tokens. Do: Quote the answer
    word for word ([units.md](units.md#claims))."""
