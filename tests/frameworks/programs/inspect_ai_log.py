# /// script
# dependencies = ["inspect-ai==0.3.285", "openai==3.57.0"]
# ///
"""inspect-ai by both endpoints: the response as it came is in the log of each call."""

import os
import tempfile

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log
from inspect_ai.model import GenerateConfig, get_model
from inspect_ai.scorer import includes
from telling import QUESTION, SCORED, URL, tell

os.environ |= {"COCOA_BASE_URL": URL, "COCOA_API_KEY": "none"}


def event_of(**endpoint):
    """The event of the model, from the log that is written."""
    config = GenerateConfig(max_tokens=24, extra_body=SCORED)
    model = get_model("openai-api/cocoa/cocoa", config=config, **endpoint)
    task = Task([Sample(QUESTION, target="Paris")], scorer=includes())
    with tempfile.TemporaryDirectory() as folder:
        (log,) = eval(task, model=model, log_dir=folder, display="none")
        (sample,) = read_eval_log(log.location).samples
    assert sample.scores["includes"].value == "C"
    return next(event for event in sample.events if event.event == "model")


chat, responses = event_of(), event_of(responses_api=True)
kept = ["chat.call.response['choices'][0]['uncertainty']"]
tell(globals(), [*kept, "responses.call.response['uncertainty']"], [repr(chat.output)])
