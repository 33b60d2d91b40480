"""Bodies of responses to operators: shapes, no logic."""

from app.http.described import ABSENT, Described
from app.http.schemas import EntropySplit, ModelInfo


class EstimatorInfo(Described):
    """One estimator; the higher its value, the less sure."""

    name: str
    """as requests name it"""
    title: str
    """what people read"""
    formula: str
    """what it computes"""
    range: tuple[float | None, float | None]
    """between which values it lies, real numbers; null for no end"""
    unit: str
    """nats, tokens or meanings; empty for a share"""
    cost: str
    """beyond the answer: samples, and passes of other models"""
    source: str
    """who published it"""
    needs: list[str]
    """the statistics that it reads"""
    available: bool
    """whether this deployment supplies them all"""
    reason: str | None
    """what is missing; null where it is available"""
    split: EntropySplit | None
    """of high_semantic_entropy_light, where it is known"""


class EstimatorList(Described):
    """All estimators of the registry."""

    default: list[str]
    """computed where a request names none"""
    light: list[str]
    """the default in light mode"""
    estimators: list[EstimatorInfo]
    """all there are"""


class LoadedProbe(Described):
    """A probe that serves light mode; `layer` is k of Hugging Face's hidden_states[k]."""

    id: str
    """changes with the probe"""
    training_set: str
    """name of what it was trained on"""
    layer: int
    """k of Hugging Face's hidden_states[k], ≥ 0"""


class LoadedThreshold(Described):
    """Up to which uncertainty answers pass, so that few of them are wrong."""

    target_error: float
    """largest wanted share of wrong answers among those that pass, 0 to 1"""
    uncertainty: float | None
    """an answer passes up to here, a real number; null where the labels allow no threshold"""
    share_accepted: float
    """of the labelled answers, 0 to 1: what passes"""
    labels_missing: int | None
    """about so many more labels like the calibrator's would allow a threshold, ≥ 1; null where
    there is one, or where no number of them would"""


class LoadedCalibrator(Described):
    """The calibrator that is served."""

    id: str
    """changes with the file"""
    source: str
    """what its labels were"""
    groups: list[str]
    """that a request may name"""
    estimators: list[str]
    """calibrated on all labels"""
    target_errors: list[float]
    """that a request may ask for, 0 to 1 each"""
    compares_prompts: bool
    """whether prompts unlike those of its labels are told"""
    thresholds: dict[str, list[LoadedThreshold]]
    """by estimator, of those that are reported as `uncertainty` where none is named"""
    units: dict[str, list[LoadedThreshold]]
    """by kind of the parts of answers that are calibrated, of the estimator that is reported"""


class Version(Described):
    """What runs here, and the limits it holds."""

    version: str
    """of the service"""
    git_revision: str | None = None
    """of its sources; null where neither its image nor git knows it"""
    model: ModelInfo | None = None
    """the language model; null until it is loaded"""
    model_capabilities: dict[str, str | int | bool | None] = {}  # noqa: RUF012 - pydantic copies it for each body
    """of an OpenAI-compatible server behind the service, as they were tried out, numbers ≥ 0;
    "not tried yet" until a request needs it; empty where there is none"""
    model_takes_turns: bool = True
    """false where its chat template is known to take one message alone"""
    model_self_test_tokens: int | None = None
    """tokens, ≥ 0, on which the model, as it is served, agreed at its start with its own full
    forward pass; null for a server behind the service"""
    similarity_models: dict[str, ModelInfo] = {}  # noqa: RUF012 - pydantic copies it for each body
    """by similarity function"""
    default_similarity: str | None = None
    """the one that a request gets without naming one; null until it is loaded"""
    nli_model: ModelInfo | None = None
    """null where there is none, or until it is loaded"""
    probes: dict[str, LoadedProbe] = {}  # noqa: RUF012 - pydantic copies it for each body
    """by the statistic that they predict"""
    calibrator: LoadedCalibrator | None = None
    """null where there is none, or until it is loaded"""
    unmet: dict[str, str] = {}  # noqa: RUF012 - pydantic copies it for each body
    """by setting that asks for something by name, why that cannot be had"""
    limits: dict[str, int | float | None]
    """by name, ≥ 0 each, those of the settings and of the models, in the unit that the name ends
    in; null where there is none, or until it is known"""


class Status(Described):
    """Liveness or readiness."""

    status: str
    """`alive` or `ready`"""
    details: list[str] = ABSENT
    """of a ready service: target errors at which its calibrator lets nothing pass"""
