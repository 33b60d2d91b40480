"""A deployment of fakes."""

from models.similarity.protocol import NliConfig
from workers.config import ComparerConfig, GeneratorConfig

# Of `Settings` and of `WorkerConfig`.
FAKES = {
    "generation": GeneratorConfig(engine="fake"),
    "similarity": ComparerConfig(name="fake"),
    "nli": NliConfig(name="fake_nli", model="fake"),
}
