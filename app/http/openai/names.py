"""Pure: what the served model is called."""

from app.spelling import closest, did_you_mean
from models.errors import UnknownModel
from models.statistics import PROBE_STATISTICS, SENTENCES_READ
from workers.protocol import GeneratorInfo

# Works at every deployment, whatever its model is called.
ALIAS = "cocoa"
_LIGHT = ":light"


def served_names(generator: GeneratorInfo) -> list[str]:
    """Names that requests may give, with those of light mode where a probe serves it."""
    names = [generator.model_id, ALIAS]
    if generator.statistics & (PROBE_STATISTICS - {SENTENCES_READ}):
        names += [generator.model_id + _LIGHT, ALIAS + _LIGHT]
    return names


def is_light(name: str, generator: GeneratorInfo) -> bool:
    """Whether a model's name asks for light mode.

    Raises:
        UnknownModel: this deployment does not serve it.
    """
    names = (generator.model_id, ALIAS)
    if name in names:
        return False
    if name.endswith(_LIGHT) and name.removesuffix(_LIGHT) in names:
        return True
    raise unknown_model(name, generator)


def unknown_model(name: str, generator: GeneratorInfo) -> UnknownModel:
    meant = did_you_mean(closest(name, served_names(generator))) or ";"
    return UnknownModel(
        f"this model is not served here{meant} GET /v1/models lists all", field="model"
    )
