"""Pure: whether an answer is like any that was calibrated."""

from collections.abc import Collection, Mapping

from app.scoring.derive import NO_ANSWER
from app.scoring.plan import Plan
from models.calibration import Binding
from models.estimators import needs
from models.records import (
    FINISH_REASONS,
    PROMPT_OUT_OF_DOMAIN,
    SAMPLES_LEFT_OUT,
    ProbeReading,
    Sequence,
)
from models.units.reasoning import HARMONY, KNOWN_TAGS

# A larger limit changes nothing but the texts that ended at the smaller one: these may be so many.
MAX_SHARE_CUT = 0.01
# By the warning of a generation, or of what is scored.
_WARNED = {
    PROMPT_OUT_OF_DOMAIN: "no prompts like this one were calibrated",
    SAMPLES_LEFT_OUT: "no answers with fewer samples than were wanted were calibrated",
}
UNLIKE_TRAINING = "out_of_domain: the probe was not trained on answers like this one"


def why_unlike(
    answer: Sequence,
    plan: Plan,
    readings: Mapping[str, ProbeReading],
    binding: Binding,
    *,
    warned: Collection[str] = (),
) -> str | None:
    """Why an answer is unlike all that were calibrated: a code, and the reason in words."""
    text, no_answer = answer.compared_text, answer.no_answer
    if no_answer is None and any(text == tags.start for tags in (*KNOWN_TAGS, HARMONY)):
        no_answer = "reasoning_unfinished"
    if no_answer is not None:
        return f"{no_answer}: {NO_ANSWER[no_answer]}"
    if answer.is_withheld:
        return "answer_filtered: answers that a filter has cut were not calibrated"
    if answer.finish_reason not in FINISH_REASONS:
        return "finish_reason_unknown: nobody knows whether the answer is whole"
    if not text:
        return "empty_answer: an answer without text is neither right nor wrong"
    if answer.finish_reason == "length" and binding.share_cut <= MAX_SHARE_CUT:
        return "answer_truncated: answers that are cut at max_new_tokens were not calibrated"
    for code, reason in _WARNED.items():
        if code in warned:
            return f"{code}: {reason}"
    for name in needs([plan.primary]) & readings.keys():
        if readings[name].out_of_domain:
            return UNLIKE_TRAINING
    return None
