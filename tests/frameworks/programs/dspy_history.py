# /// script
# dependencies = ["dspy==3.4.1", "litellm==1.108.14"]
# ///
"""DSPy: the response as it came is in the history, in the form of the engine that asked."""

import dspy
from telling import QUESTION, SCORED, URL, tell


def history_of(**settings):
    """The last entry of a language model that was asked."""
    lm = dspy.LM("openai/cocoa", api_base=URL, api_key="none", cache=False, **settings)
    assert lm(QUESTION, max_tokens=24) in (["Paris"], [{"text": "Paris"}])
    return lm.history[-1]


plain = history_of()
by_litellm = history_of(extra_body=SCORED)
responses = history_of(extra_body=SCORED, model_type="responses")
kept = ["plain['response'].provider_data['choices'][0]['uncertainty']"]
kept += ["by_litellm['response'].choices[0].provider_specific_fields['uncertainty']"]
tell(globals(), [*kept, "responses['response'].uncertainty"])
