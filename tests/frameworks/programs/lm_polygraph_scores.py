# /// script
# dependencies = ["lm-polygraph==0.7.0", "torch==2.13.0"]
# ///
"""LM-Polygraph's black box: it draws its samples itself, and the service none beside them."""

import os

from telling import QUESTION, URL, num_samples, spared, tell

os.environ["OPENAI_BASE_URL"] = URL

from lm_polygraph import BlackboxModel, estimate_uncertainty
from lm_polygraph.estimators import LexicalSimilarity, MaximumSequenceProbability
from lm_polygraph.utils.generation_parameters import GenerationParameters

parameters = GenerationParameters(max_new_tokens=24)
model = BlackboxModel.from_openai(
    "none", "cocoa", supports_logprobs=True, generation_parameters=parameters
)
chats = model.openai_api.chat.completions
create = chats.create
chats.create = lambda **asked: create(**asked, extra_body=spared())

before = num_samples()
by_samples = estimate_uncertainty(model, LexicalSimilarity("rougeL"), QUESTION)
assert num_samples() - before == 1 + 10
by_log_probs = estimate_uncertainty(model, MaximumSequenceProbability(), QUESTION)
assert num_samples() - before == 1 + 10 + 1
assert -1 <= by_samples.uncertainty < 0 < by_log_probs.uncertainty
tell(globals(), [], [repr(by_samples), repr(by_log_probs)])
