"""Where scores come from, in a response: shapes, no logic. What is not known is absent."""

from typing import Literal

from app.http.described import ABSENT, Described
from models.records import AnswerForm
from models.selection import Strategy


class ModelInfo(Described):
    """Which weights spoke: id, and a revision that changes with them."""

    id: str
    """id or last part of the path that the weights were loaded from"""
    revision: str | None
    """changes with the weights; null for a function without weights"""


class ProbeInfo(Described):
    """The probe behind the light scores, and how far this answer lies from its training set."""

    id: str
    """changes with the probe"""
    training_set: str
    """name of what it was trained on"""
    distance_percentile: float
    """among held-out answers of the training set, 0 to 100"""
    out_of_domain: bool
    """farther than 99 of 100 of them: do not trust the light scores"""


class EntropySplit(Described):
    """What `high_semantic_entropy_light` is the probability of: more entropy than the split."""

    nats: float
    """semantic entropy, ≥ 0, above which it is high"""
    base_rate: float | None
    """share of held-out answers of the probe's training set above the split, 0 to 1; null where
    unknown"""


class Provenance(Described):
    """What stands behind the scores, for whoever checks or repeats them."""

    model: ModelInfo = ABSENT
    """that wrote or read the answer; absent where none was asked"""
    mode: Literal["full", "light"]
    """`light` drew no samples"""
    strategy: Strategy
    """how the answer was chosen; `given` where the client brought it"""
    answer_sample: int = ABSENT
    """index of the answer, ≥ 0, among the samples, where it is one"""
    retokenized: bool = ABSENT
    """of a given answer: whether its text was tokenised again"""
    answer_form: AnswerForm = ABSENT
    """of a given answer that a model read: how it continues the prompt, as it stands or after a
    blank, whichever is likelier"""
    samples_source: Literal["model", "client"] = ABSENT
    """who drew the samples; absent where there are none"""
    num_samples: int = ABSENT
    """how many samples there are, 1 to 64; with `auto`, were drawn; absent where there are none"""
    samples_left_out: int = ABSENT
    """how many further samples the model's server refused or its filter cut, 1 to 64; absent where
    none"""
    num_distinct_samples: int = ABSENT
    """different texts among the samples, 1 to 64; absent where there are none"""
    stopped_by: Literal["found_mass", "agreement", "max_samples"] = ABSENT
    """what ended the waves of samples, where num_samples was auto"""
    seed: int = ABSENT
    """≥ 0, repeats the samples that a model drew"""
    similarity: str = ABSENT
    """similarity function, where one was asked"""
    similarity_model: ModelInfo = ABSENT
    """behind the similarity"""
    nli_model: ModelInfo = ABSENT
    """behind the NLI estimators and the support of sentences and claims, where one is asked for"""
    unit_pairs: int = ABSENT
    """with `units` sentences or claims: pairs of a part of a sample and one of them that the NLI
    model reads, ≥ 0, be it from the cache"""
    consistency_std_error: float = ABSENT
    """how far the samples pin consistency down, 0 to 1, where they were compared"""
    found_mass: float = ABSENT
    """probability of the answer and the distinct samples together, 0 to 1, where an estimator reads
    what it is made of"""
    degraded: bool
    """whether the uncertainty is `consistency` in place of a better one, as no log-probs are
    known"""
    probe: ProbeInfo = ABSENT
    """that predicted the light scores, where it could read the answer"""
    sentence_probe: ProbeInfo = ABSENT
    """that predicted the light scores of sentences; its distance is that of the farthest one"""
    entropy_split: EntropySplit = ABSENT
    """with high_semantic_entropy_light"""
    percentile: float = ABSENT
    """percentage of the calibrator's answers that are surer, 0 to 100; with a confidence"""
    calibrator: str = ABSENT
    """id of the calibrator behind the confidence"""
