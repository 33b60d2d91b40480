"""Pure: whether an answer is like any that was calibrated."""

from collections.abc import Collection, Mapping

from app.scoring.plan import Plan
from models.calibration import Binding
from models.estimators import needs
from models.records import PROMPT_OUT_OF_DOMAIN, ProbeReading, Sequence
from models.units.reasoning import HARMONY, KNOWN_TAGS

# A larger limit changes nothing but the texts that ended at the smaller one: these may be so many.
MAX_SHARE_CUT = 0.01
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
    text = answer.compared_text
    if answer.is_unfinished or any(text == tags.start for tags in (*KNOWN_TAGS, HARMONY)):
        return "reasoning_unfinished: the model was cut off before it gave an answer"
    if not text:
        return "empty_answer: an answer without text is neither right nor wrong"
    if answer.finish_reason == "length" and binding.share_cut <= MAX_SHARE_CUT:
        return "answer_truncated: answers that are cut at max_new_tokens were not calibrated"
    if PROMPT_OUT_OF_DOMAIN in warned:
        return f"{PROMPT_OUT_OF_DOMAIN}: no prompts like this one were calibrated"
    for name in needs([plan.primary]) & readings.keys():
        if readings[name].out_of_domain:
            return UNLIKE_TRAINING
    return None
