"""Every warning that a response can carry: one table of codes, meanings, and what to do.

Documentation is made from it (docs/errors.md). A new warning is a row here, and the code that
raises it where it is noticed: in a generation's or an ask's `warnings`, in those of an answer's
parts, or in `app.scoring.result`.
"""

from enum import StrEnum


class Warned(StrEnum):
    """What a response warns of, by the code that it has.

    Attributes:
        meaning: what was noticed.
        remedy: what to do, where anything can be done.
    """

    meaning: str
    remedy: str

    def __new__(cls, code: str, meaning: str = "", remedy: str = "") -> "Warned":
        member = str.__new__(cls, code)
        member._value_, member.meaning, member.remedy = code, meaning, remedy
        return member

    # What was asked.
    NAMES_NOT_SHOWN = (
        "names_not_shown",
        "Messages name their speakers, and chat templates show names to no model.",
        "Write the names into the messages.",
    )
    SYSTEM_MERGED = (
        "system_merged",
        "The chat template takes no system message: it went before the first of the user.",
    )
    RENAMED_TO_INCONSISTENCY = (
        "renamed_to_inconsistency",
        "A score was asked for by its old name: `consistency` is called `inconsistency`.",
        "Send the new name ([upgrading.md](upgrading.md)).",
    )
    RENAMED_TO_HAND_OVER_BELOW = (
        "renamed_to_hand_over_below",
        "`escalate_below` is called `hand_over_below`.",
        "Send the new name ([upgrading.md](upgrading.md)).",
    )
    ONE_OF_AS_ANY_OF = (
        "one_of_as_any_of",
        "A `oneOf` is held as `anyOf` ([structured.md](structured.md#what-a-schema-may-say)).",
        "Validate the answer where it must be valid under one branch only.",
    )
    MAX_NEW_TOKENS_CLAMPED = (
        "max_new_tokens_clamped",
        "Beside the prompt fewer new tokens fit than there are without `max_new_tokens`.",
        "Shorten the prompt, or give the model a longer context.",
    )
    PROMPT_AS_MESSAGE = (
        "prompt_as_message",
        "The model's server takes no raw prompt: it was sent as a message of the user.",
        "Send `messages`, or use [another server](servers.md).",
    )
    # The texts, and how they end.
    ANSWER_REFUSED = (
        "answer_refused",
        "The model's server refused to answer: all scores are null.",
    )
    ANSWER_FILTERED = (
        "answer_filtered",
        "The filter of the model's server cut the answer: without any text all scores are null.",
    )
    EMPTY_ANSWER = "empty_answer", "Nothing was said, which may look sure."
    ANSWER_TRUNCATED = (
        "answer_truncated",
        "The answer was cut at its limit of tokens.",
        "Raise `max_new_tokens`.",
    )
    SAMPLES_TRUNCATED = (
        "samples_truncated",
        "Samples were cut at their limit of tokens.",
        "Raise `max_new_tokens`.",
    )
    SAMPLES_LEFT_OUT = (
        "samples_left_out",
        "The model's server refused samples, or its filter cut them: `provenance` counts them.",
    )
    FINISH_REASON_UNKNOWN = (
        "finish_reason_unknown",
        "The model's server ended a text for a reason that is not known here.",
        "Look whether the answer is whole: `finish_reason` has the server's word.",
    )
    REASONING_EXCLUDED = (
        "reasoning_excluded",
        "The answer or a sample came behind a reasoning, which is not scored.",
    )
    REASONING_UNFINISHED = (
        "reasoning_unfinished",
        "The model was cut off before it gave an answer: all scores are null.",
        "Raise `max_new_tokens`.",
    )
    REASONING_NOT_TOLD = (
        "reasoning_not_told",
        "The model's server does not show the reasoning, which is then empty.",
    )
    # What an existing server lacks.
    NO_EOS_LOGPROB = (
        "no_eos_logprob",
        "The model's server does not tell the log-prob of the answer's end, which is left out.",
        "Compare such scores with those of the same server only.",
    )
    TEMPERATURE_NOT_HEEDED = (
        "temperature_not_heeded",
        "The model's server does not heed `temperature` or `top_p`.",
        "Leave them out, or use [another server](servers.md).",
    )
    TOP_K_NOT_HEEDED = (
        "top_k_not_heeded",
        "The model's server does not heed `top_k`.",
        "Leave it out, or use [another server](servers.md).",
    )
    SEED_NOT_HEEDED = (
        "seed_not_heeded",
        "The model's server does not heed `seed`: the same request may draw other samples.",
    )
    DRAWS_REPEAT = (
        "draws_repeat",
        "Samples repeat that cannot be draws: what they would tell is null.",
        "Have the server sample ([servers.md](servers.md#draws-that-are-none)).",
    )
    ANSWER_IS_DRAWN = (
        "answer_is_drawn",
        "The model's server has no greedy answer: the answer is a draw, as the samples are.",
    )
    # Comparing.
    SIMILARITY_TRUNCATED = (
        "similarity_truncated",
        "Texts were cut that are longer than the similarity model reads.",
        "Use a similarity model that reads longer texts.",
    )
    SIMILARITY_OUT_OF_DOMAIN = (
        "similarity_out_of_domain",
        "An embedded pair model compared answers that it does not know: of another language model, "
        "or samples that were brought along. What means the same is then not known.",
        "Set `COCOA_SIMILARITY__MODEL`, or `COCOA_NLI__MODEL`.",
    )
    # Calibration and probes.
    CALIBRATION_SHIFT = (
        "calibration_shift",
        "What is served lately is unlike what was calibrated.",
        "[Calibrate](calibration.md) anew, with prompts as they come now.",
    )
    PROMPT_OUT_OF_DOMAIN = (
        "prompt_out_of_domain",
        "The prompt is unlike all that were calibrated.",
        "Do not rely on the confidence, or [calibrate](calibration.md) with such prompts.",
    )
    OUT_OF_DOMAIN = (
        "out_of_domain",
        "The answer, or a sentence of it, is unlike those that the probe was trained on.",
        "Do not rely on light scores: ask with `mode: full`.",
    )
    ONE_TOKEN_ANSWER = (
        "one_token_answer",
        "The answer is one token: its probe had only the prompt's last state to read.",
    )
    # The parts of an answer.
    ANSWER_NOT_JSON = (
        "answer_not_json",
        "The answer is no JSON, and has no fields.",
        "Hold the answer to a schema by `json_schema`.",
    )
    UNITS_CUT = (
        "units_cut",
        "The answer has more parts than are told.",
        "Raise `COCOA_LIMITS__MAX_UNITS`.",
    )
    NO_SENTENCES = "no_sentences", "The answer has no sentences."
    SENTENCES_SHORTENED = (
        "sentences_shortened",
        "A sentence is longer than the NLI model reads: only its beginning was compared.",
    )
    CLAIMS_SHORTENED = (
        "claims_shortened",
        "A claim is longer than the NLI model reads: only its beginning was compared.",
        "Shorten the claim.",
    )
    QUOTES_NOT_FOUND = (
        "quotes_not_found",
        "A claim's quote does not occur in the answer: the claim has no tokens.",
        "Quote the answer word for word ([units.md](units.md#claims)).",
    )
