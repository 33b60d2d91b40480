"""A `Result` made by hand, for tests of whoever reads one."""

from dataclasses import replace

import numpy as np

from app.scoring.ask import Ask
from app.scoring.deployment import UNBOUNDED, Deployment, Models
from app.scoring.derive import Evidence, token_statistics
from app.scoring.plan import Plan
from app.scoring.questions import Subject
from app.scoring.result import Result
from models.records import Generation, Sequence
from models.similarity.pairs import PairRules
from workers.protocol import GeneratorInfo, ProbeInfo, SimilarityInfo

PROBES = {
    "predicted_dissimilarity": ProbeInfo("abc", "prompts.jsonl", 2, "abcdef"),
    "sentence_dissimilarity": ProbeInfo("def", "prompts.jsonl", 3, "defabc"),
}


def sequence(text, num_tokens=2, **fields):
    """A sequence of tokens of log-prob -0.5 each."""
    values = {
        "token_ids": tuple(range(num_tokens)),
        "token_logprobs": np.full(num_tokens, -0.5),
        "finish_reason": "stop",
    }
    return Sequence(text, text.strip(), num_tokens, **values | fields)


def generation(answer=" Paris", samples=(" Paris", " Rome"), **fields):
    """A generation of texts or sequences."""
    made = [one if isinstance(one, Sequence) else sequence(one) for one in (answer, *samples)]
    values = {"prompt_tokens": 7, "seed": 3, "model_id": "fake", "revision": "1"}
    return Generation(made[0], tuple(made[1:]), **values | fields)


def similarity_info(**fields):
    """The fake similarity scorer, with changes."""
    values = {
        "identity": "fake pairs",
        "model_id": "fake",
        "revision": "1",
        "labels": ("similarity",),
        "max_pair_tokens": 512,
        "rules": PairRules(),
    }
    return SimilarityInfo(**values | fields)


def a_plan(statistics=(), **fields):
    """The plan of `sp`, with changes."""
    values = {
        "estimators": ("sp",),
        "ask": Ask(prompt="Capital of France?"),
        "primary": "sp",
        "strategy": "greedy",
        "similarity": "fake",
        "statistics": frozenset(statistics),
        "read": frozenset(statistics),
    }
    return Plan(**values | fields)


def a_deployment(
    statistics=(), *, nli=None, similarity_scorers=None, limits=UNBOUNDED, calibrator=None, **info
):
    """A generator that supplies these statistics beside the fake similarity scorer."""
    values = {
        "identity": "fake",
        "model_id": "fake",
        "revision": "1",
        "dtype": "float64",
        "statistics": frozenset(statistics),
        "max_context_tokens": 512,
    }
    named = {"fake": similarity_info(identity="fake pairs")}
    similarity_scorers = named | (similarity_scorers or {})
    models = Models(GeneratorInfo(**values | info), similarity_scorers, "fake", nli)
    return Deployment(models, limits, calibrator)


def a_result(written=None, *, statistics=None, answer_sample=None, truncated=False, **fields):
    """A result of a generation, with changes; `written=None` is that of `generation`."""
    written = generation() if written is None else written
    answer = written.answer if answer_sample is None else written.samples[answer_sample]
    subject = Subject(answer, answer_sample, written.samples)
    known = token_statistics(subject) | (statistics or {})
    plan = fields.pop("plan", a_plan(known.keys()))
    values = {
        "plan": replace(plan, ask=fields.pop("ask", plan.ask)),
        "evidence": Evidence(subject, known, {}, truncated, written),
        "scores": {"sp": 1.0},
        "reasons": {},
        "source": "computed",
        "similarity_scorer": similarity_info(),
        "nli": None,
        "generator": a_deployment(probes=PROBES).models.generator,
        "stage_s": {
            "queue": written.queue_s,
            "generate": written.generate_s,
            "similarity": 0.03,
            "score": 0.004,
        },
        "total_s": 2.035,
    }
    return Result(**values | fields)


# A generator that does all that can be asked of one, for whatever is decided of other grounds.
ABLE = {"no_grammar": "", "no_reasoning_limit": "", "no_images": ""}
