"""A deployment of fakes."""

from models.similarity.protocol import NliConfig
from workers.config import GeneratorConfig, SimilaritySettings

# Of `Settings` and of `WorkerConfig`.
FAKES = {
    "generation": GeneratorConfig(engine="fake"),
    "similarity": SimilaritySettings(name="fake"),
    "nli": NliConfig(name="fake_nli", model="fake"),
}
