"""What a deployment says about its models: which ones, and in which process each of them is."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, Self

from annotated_types import Ge
from pydantic import SecretStr

from models.embedded import LANGUAGE_MODELS
from models.engines.protocol import EngineConfig
from models.errors import ModelNotLoaded
from models.probes.card import Target
from models.probes.protocol import ProbeConfig
from models.similarity.protocol import NliConfig, SimilarityConfig

# What a worker does, and the group of settings that says how.
Role = Literal["generation", "similarity"]


@dataclass(frozen=True)  # without slots, so that it can stand beside a config that has some
class UpstreamConfig:
    """Where a model is that another process holds, and how one gets in there.

    Attributes:
        url: of the server, or of several that hold the same model, separated by commas; "" where
            the model is in this process.
        api_key: sent as a bearer token; the secret of our own workers, or a server's API key.
        api_key_file: file that holds it, in place of `api_key`.
        tls_ca_file: authority of an `https://` server; the system's without it.
        tls_cert_file, tls_key_file: what this process shows for itself (mutual TLS).
    """

    url: str = ""
    api_key: SecretStr = field(default_factory=lambda: SecretStr(""))
    api_key_file: str = ""
    tls_ca_file: str = ""
    tls_cert_file: str = ""
    tls_key_file: str = ""

    @cached_property
    def urls(self) -> tuple[str, ...]:
        """All of them, without a slash at their end."""
        found = (one.strip().rstrip("/") for one in self.url.split(","))
        return tuple(dict.fromkeys(one for one in found if one))


@dataclass(frozen=True)
class GeneratorConfig(EngineConfig, UpstreamConfig):
    """The language model, in this process or at a `url`.

    Attributes:
        api: what answers at the url: our own worker, or any OpenAI-compatible server.
        max_request_tokens: of prompt, answer and samples that one request may ask such a server
            for; 0 for any number.
    """

    api: Literal["cocoa", "openai"] = "cocoa"
    max_request_tokens: Annotated[int, Ge(0)] = 0


@dataclass(frozen=True)
class ComparerConfig(SimilarityConfig, UpstreamConfig):
    """The similarity model, in this process or at a `url`.

    Attributes:
        api: what answers at the url: our own worker, vLLM's `/score`, or TEI's `/predict`.
    """

    api: Literal["cocoa", "vllm", "tei"] = "cocoa"


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """What a deployment says about all of its models."""

    generation: GeneratorConfig = field(default_factory=GeneratorConfig)
    similarity: ComparerConfig = field(default_factory=ComparerConfig)
    nli: NliConfig = field(default_factory=NliConfig)
    probes: ProbeConfig = field(default_factory=ProbeConfig)


@dataclass(frozen=True, slots=True)
class Beside:
    """What pair models are told of the language model whose answers they compare.

    Attributes:
        is_embedded: whether it ships with the project, so that the embedded NLI model serves
            without being asked for.
        is_foreign: whether the embedded pair models do not know its answers.
    """

    is_embedded: bool
    is_foreign: bool

    @classmethod
    def of(cls, generation: EngineConfig) -> Self:
        """Of a language model that a process loads."""
        is_ours = generation.model in LANGUAGE_MODELS
        return cls(
            is_embedded=generation.engine == "transformers" and is_ours,
            is_foreign=not is_ours,
        )

    @classmethod
    def of_id(cls, model_id: str) -> Self:
        """Of one that another process holds."""
        return cls(model_id in LANGUAGE_MODELS, model_id not in LANGUAGE_MODELS)

    def is_lost_on(self, pair_model: str) -> bool:
        """Whether the pair model of this id was made for other language models' answers only."""
        return self.is_foreign and pair_model == "embedded"


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """How `cocoa worker` lets gateways in.

    Attributes:
        api_key: bearer token that every caller must show; "" lets everybody in.
        api_key_file: file that holds it, in place of `api_key`.
        tls_cert_file, tls_key_file: what the worker shows for itself; "" speaks plain HTTP.
        tls_ca_file: authority of the certificates that callers must show; "" asks for none.
        max_body_bytes: of a call; gateways split what is larger.
    """

    api_key: SecretStr = field(default_factory=lambda: SecretStr(""))
    api_key_file: str = ""
    tls_cert_file: str = ""
    tls_key_file: str = ""
    tls_ca_file: str = ""
    max_body_bytes: Annotated[int, Ge(1_000_000)] = 67_108_864


def api_key(config: UpstreamConfig | ServerConfig, group: Role | Literal["worker"]) -> str:
    """The key itself, from where the settings say; "" for none.

    Args:
        config: names it, or its file.
        group: of the settings.

    Raises:
        ModelNotLoaded: both are set, or the file cannot be read or is empty; never quotes a key.
    """
    direct, file = config.api_key.get_secret_value(), config.api_key_file
    if not file:
        return direct
    if direct:
        message = f"{variable(f'{group}.api_key')} and {variable(f'{group}.api_key_file')} exclude"
        raise ModelNotLoaded(f"{message} each other")
    try:
        found = Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = f"cannot be read: {type(error).__name__}"
        raise ModelNotLoaded(f"{variable(f'{group}.api_key_file')} {reason}") from None
    if not found:
        raise ModelNotLoaded(f"{variable(f'{group}.api_key_file')} is empty")
    return found


def probe_folders(config: ProbeConfig) -> Sequence[tuple[Target, str, str]]:
    """What each kind of probe predicts, the setting of its folder, and the folder."""
    return (
        ("consistency", "probes.consistency", config.consistency),
        ("semantic_entropy", "probes.high_semantic_entropy", config.high_semantic_entropy),
    )


def variable(setting: str) -> str:
    """What a deployment sets: "generation.model" is COCOA_GENERATION__MODEL."""
    return f"COCOA_{setting.upper().replace('.', '__')}"
