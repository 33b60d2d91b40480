"""Pure: what the served model is called."""

from models.errors import UnknownModel
from models.statistics import PROBE_STATISTICS
from workers.protocol import GeneratorInfo

# Whatever is served, for clients that are set up once.
ALIAS = "cocoa"
_LIGHT = ":light"


def served_names(generator: GeneratorInfo) -> list[str]:
    """Names of models that requests may have; those of light mode where it has its probe."""
    names = [generator.model_id, ALIAS]
    if generator.statistics & PROBE_STATISTICS:
        names += [f"{name}{_LIGHT}" for name in names]
    return names


def is_light(name: str, generator: GeneratorInfo) -> bool:
    """Whether a model's name asks for light mode.

    Raises:
        UnknownModel: it is none of this deployment's.
    """
    names = (generator.model_id, ALIAS)
    if name in names:
        return False
    if name.endswith(_LIGHT) and name.removesuffix(_LIGHT) in names:
        return True
    raise UnknownModel("this model is not served here; GET /v1/models lists all", field="model")
