"""What pair models are told of the language model whose answers they compare."""

from collections.abc import Container
from dataclasses import dataclass
from typing import Self

from models.embedded import LANGUAGE_MODELS, SHORT_LANGUAGE_MODELS
from models.engines.protocol import EngineConfig


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """Whose answers are compared.

    Attributes:
        name: id, or the name of an embedded one.
        is_embedded: whether it ships with the project, so that the embedded NLI model serves
            without being asked for.
    """

    name: str
    is_embedded: bool

    @classmethod
    def of(cls, generation: EngineConfig) -> Self:
        is_ours = generation.model in LANGUAGE_MODELS and generation.engine == "transformers"
        return cls(generation.model, is_ours)

    @classmethod
    def of_id(cls, model_id: str) -> Self:
        return cls(model_id, model_id in LANGUAGE_MODELS)

    def is_unknown_to(self, pair_model: str, *, is_nli: bool) -> bool:
        """Whether the pair model of this id was made for other language models' answers only.

        The embedded NLI model knows those of all embedded ones, the cross-encoder short ones alone.
        """
        known: Container[str] = LANGUAGE_MODELS if is_nli else SHORT_LANGUAGE_MODELS
        return pair_model == "embedded" and self.name not in known
