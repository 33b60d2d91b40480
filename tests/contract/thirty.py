"""An engine in thirty lines: what it takes to stand behind the service."""

import random

import numpy as np

from models.engines.protocol import EngineInfo, Job, StepReport, check_hidden_layers, fitted
from models.engines.texts import ended
from models.errors import ChatTemplateError
from models.records import Generation, Sequence

KNOWN = frozenset({"answer_token_logprobs", "sample_texts", "sample_token_logprobs"})
INFO = EngineInfo("thirty", "thirty", "1", "none", KNOWN, max_context_tokens=512)
TEXTS = (" Rome", " It is Paris")


class ThirtyLines:
    info, is_idle = INFO, True

    @classmethod
    def load(cls, config):
        return cls()

    def prepare(self, request, *, streams=False):
        check_hidden_layers(request, INFO.num_layers)
        if request.messages is not None:
            raise ChatTemplateError("this model takes no messages", field="messages")
        request = fitted(len(request.prompt.split()), 0, request, {"the context": 512})
        return Job(request, streams)

    def step(self, incoming):
        return StepReport(finished=list(incoming), num_rows=len(incoming))

    def abandon(self):
        pass

    def generation(self, job):
        request, seed = job.request, job.request.sampling.seed or 0
        drawn = random.Random(f"{seed}/{request.prompt}").choices(TEXTS, k=request.num_samples)
        answer = sequence(" It is Paris", request, "answer")
        samples = tuple(sequence(text, request, "sample") for text in drawn)
        return Generation(answer, samples, 1, seed, "thirty", "1")


def sequence(text, request, role):
    given = request.answer if role == "answer" else None
    text, finish = (given.text, "given") if given else (text, "")
    tokens = [f" {word}" for word in text.split()] + [""] * (not given or given.append_eos)
    if not given:
        tokens, text, finish = ended(tokens, request.sampling)
    known = f"{role}_token_logprobs" in request.statistics
    logprobs = np.full(len(tokens), -0.5) if known else None
    return Sequence(text, text.strip(), len(tokens), finish, token_logprobs=logprobs)
