"""Settings of the models: which ones, and in which process each of them is.

The environment fills one flat group of settings for each model, of which some are for a model that
this process loads, and some for a server that holds it. One that is not heeded there is refused.
"""

import re
import ssl
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from annotated_types import Ge
from pydantic import AfterValidator, SecretStr

from models.embedded import LANGUAGE_MODELS, SHORT_LANGUAGE_MODELS
from models.engines.protocol import EngineConfig
from models.errors import ModelNotLoaded
from models.probes.protocol import ProbeConfig
from models.similarity.protocol import NliConfig, SimilarityConfig

# The role of a worker, which names its group of settings.
Role = Literal["generation", "similarity"]
# A group of settings with credentials.
Group = Literal["generation", "similarity", "worker"]


def _one_without_secrets(url: str) -> str:
    if "@" in url:
        raise ValueError("must name no user and no password: set the API key instead")
    if "?" in url:
        raise ValueError("must have no query: set the API key, or the version of the API, instead")
    if "," in url:
        raise ValueError("must be one URL: of a balancer or a router, if there are several servers")
    return url.strip()


# A password or a key in it would be logged, and paths of calls stand behind it.
Url = Annotated[str, AfterValidator(_one_without_secrets)]
_ENDPOINT = re.compile(r"(/v1)?(/(chat/)?completions|/embeddings)?/*$")


@dataclass(frozen=True)  # without slots, so that it can stand beside a config that has some
class Credentials:
    """The credentials of one end of a connection, and those that it trusts."""

    # Bearer token: the secret of our own workers, or a server's API key. A worker takes each of
    # several with commas between; "" lets everybody in.
    api_key: SecretStr = field(default_factory=lambda: SecretStr(""))
    api_key_file: str = ""  # file that holds it, in place of `api_key`
    # Authority of the other end. Without it a client believes the system's, and a worker asks for
    # no certificate.
    tls_ca_file: str = ""
    # What this process shows for itself; a worker without them speaks plain HTTP.
    tls_cert_file: str = ""
    tls_key_file: str = ""

    def keys(self, group: Group) -> tuple[str, ...]:
        """The keys themselves, from where the settings say; none where there is none.

        A bearer token has no comma (RFC 6750). Callers show the first, and workers take each, so
        that one text can change on both sides, one after the other.

        Raises:
            ModelNotLoaded: both are set, the file cannot be read, or there is no key; never quotes
                one.
        """
        direct, file = self.api_key.get_secret_value(), self.api_key_file
        if not file:
            return _keys_in(direct, f"{group}.api_key") if direct else ()
        if direct:
            both = f"{variable(f'{group}.api_key')} and {variable(f'{group}.api_key_file')}"
            raise ModelNotLoaded(f"{both} exclude each other")
        with _reading(f"{group}.api_key_file", file, "read"):
            text = Path(file).read_text()
        return _keys_in(text, f"{group}.api_key_file")

    def tls_context(self, group: Group) -> ssl.SSLContext:
        """The TLS context of a client: its authorities, and the certificate that it shows.

        Raises:
            ModelNotLoaded: a file cannot be read, or is of another kind.
        """
        with _reading(f"{group}.tls_ca_file", self.tls_ca_file, "used"):
            context = ssl.create_default_context(cafile=self.tls_ca_file or None)
        if self.tls_cert_file:
            with _reading(f"{group}.tls_cert_file", self.tls_cert_file, "used"):
                context.load_cert_chain(self.tls_cert_file, self.tls_key_file or None)
        return context


@dataclass(frozen=True)
class ServerAddress(Credentials):
    """The address of another process that holds a model, and the credentials for it."""

    # Of the server, or of what chooses among several that hold the same model; "" where the model
    # is in this process.
    url: Url = ""

    @property
    def base_url(self) -> str:
        """The url without the path of an endpoint, `/v1`, or a slash at its end."""
        return _ENDPOINT.sub("", self.url)


# "module:function" by the API that it connects with, beside our own: of plugins.
ADAPTERS: dict[str, str] = {}


@dataclass(frozen=True)
class GeneratorConfig(EngineConfig, ServerAddress):
    """The language model, in this process or at a `url`."""

    # What answers at the url: our own worker, or any OpenAI-compatible server, of which `model`
    # is asked, or by default the first model that it lists.
    api: Literal["cocoa", "openai"] = "cocoa"
    # Replicas stand behind the url, which come and go; a balancer or a router chooses among them.
    is_routed: bool = False
    # Tokens of prompt and answer that fit; 0 for what the server says.
    context: Annotated[int, Ge(0)] = 0
    server: str = ""  # its kind (`workers.openai.profiles`); "" for the one that it looks like
    # Text of the token that ends a base model's answer, if its server cannot be seen to end one.
    end_token: str = ""
    api_version: str = ""  # sent with each call as `api-version`, as Azure's older paths want it
    headers_file: str = ""  # file of further headers of each call, one a line; never logged

    def checked(self) -> Self:
        """These settings; refuse any that is not heeded where the model is.

        Raises:
            ModelNotLoaded: a setting is not, or the url is none.
        """
        _check_heeded("generation", self, EngineConfig)
        return self

    def further_headers(self) -> dict[str, str]:
        """Those of `headers_file`, one a line: a name, a colon, a value.

        Raises:
            ModelNotLoaded: the file cannot be read, or a line is no header; quotes none.
        """
        if not self.headers_file:
            return {}
        setting, headers = "generation.headers_file", {}
        with _reading(setting, self.headers_file, "read"):
            lines = Path(self.headers_file).read_text().splitlines()
        try:
            for line in filter(str.strip, lines):
                name, value = line.encode("ascii").decode().split(":", 1)
                headers[name.strip()] = value.strip()
        except ValueError:
            raise ModelNotLoaded(f"{variable(setting)} has a line that is no header") from None
        return headers


@dataclass(frozen=True)
class SimilaritySettings(SimilarityConfig, ServerAddress):
    """The similarity model, in this process or at a `url`."""

    # What answers at the url: our own worker, vLLM's `/score`, TEI's `/predict`, or the
    # `/v1/embeddings` of OpenAI, vLLM, TEI, Ollama, llama-server and others.
    api: Literal["cocoa", "vllm", "tei", "embeddings"] = "cocoa"

    def checked(self) -> Self:
        """These settings; raises as `GeneratorConfig.checked` does."""
        _check_heeded("similarity", self, SimilarityConfig)
        return self


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """Settings of all models."""

    generation: GeneratorConfig = field(default_factory=GeneratorConfig)
    similarity: SimilaritySettings = field(default_factory=SimilaritySettings)
    nli: NliConfig = field(default_factory=NliConfig)
    probes: ProbeConfig = field(default_factory=ProbeConfig)
    # Whose prompts others are compared with: a path, "auto" or "", as its setting.
    calibrator: str = ""


@dataclass(frozen=True)
class ServerConfig(Credentials):
    """The credentials and limits of `cocoa worker`."""

    # Of a call; gateways split what is larger.
    max_body_bytes: Annotated[int, Ge(1_000_000)] = 67_108_864


@contextmanager
def _reading(setting: str, file: str, done: str) -> Iterator[None]:
    """Raise `ModelNotLoaded` where the file of a setting cannot be read, or used, in the block."""
    try:
        yield
    except (OSError, UnicodeDecodeError) as error:  # ssl.SSLError is an OSError
        words = "it is no text"
        if isinstance(error, OSError):
            words = error.strerror or str(error)
        reason = f"cannot be {done}: {Path(file).absolute()}: {words}"
        raise ModelNotLoaded(f"{variable(setting)} {reason}") from None


def _keys_in(text: str, setting: str) -> tuple[str, ...]:
    keys = tuple(filter(None, map(str.strip, text.split(","))))
    if not keys:
        raise ModelNotLoaded(f"{variable(setting)} holds no key")
    return keys


def variable(setting: str) -> str:
    """The environment variable of a setting: "generation.model" is COCOA_GENERATION__MODEL."""
    return f"COCOA_{setting.upper().replace('.', '__')}"


def refuse_changes(group: str, config: ProbeConfig | NliConfig, role: Role) -> None:
    """Refuse settings of a group that belongs to the process that loads the model of this role."""
    for name in _changed(config):
        raise ModelNotLoaded(f"{variable(f'{group}.{name}')} {_elsewhere(role)}")


def _check_heeded(
    role: Role,
    config: GeneratorConfig | SimilaritySettings,
    loaded: type[EngineConfig | SimilarityConfig],
) -> None:
    """Refuse settings that nobody heeds; `loaded` has those of a model that this process loads."""
    if config.url and not config.url.startswith(("http://", "https://")):
        message = "must begin with http:// or https://"
        raise ModelNotLoaded(f"{variable(f'{role}.url')} {message}")
    heeded = {field.name for field in fields(loaded)}
    if config.url:
        of_address = {field.name for field in fields(ServerAddress)}
        heeded = {"api"} | of_address | _HEEDED[role, config.api]
    for name in _changed(config):
        if name in heeded:
            continue
        reason = _elsewhere(role)
        if not config.url:
            reason = f"is heeded with {variable(f'{role}.url')} only"
        elif name in _OF_OPENAI_SERVERS:
            reason = f"is heeded with {variable('generation.api')}=openai only"
        raise ModelNotLoaded(f"{variable(f'{role}.{name}')} {reason}")


# Settings of the group that no other place heeds.
_OF_OPENAI_SERVERS = frozenset(GeneratorConfig.__annotations__) - {"api"}
_OF_PAIR_SERVERS = frozenset({"name", "compare", "strip", "exact_match", "max_batch_pairs"})
# Settings that are heeded beside the fields of `ServerAddress`, by role and API of a url.
_HEEDED: Mapping[tuple[Role, str], frozenset[str]] = {
    ("generation", "cocoa"): frozenset({"admission_limit"}),
    ("generation", "openai"): _OF_OPENAI_SERVERS | {"model", "revision", "admission_limit"},
    ("similarity", "cocoa"): frozenset({"name"}),
    ("similarity", "tei"): _OF_PAIR_SERVERS,
    ("similarity", "vllm"): _OF_PAIR_SERVERS | {"model"},
    ("similarity", "embeddings"): _OF_PAIR_SERVERS | {"model"},
}


def _changed(config: Any) -> list[str]:
    """Names of the settings of a group that are not at their defaults."""
    default = type(config)()
    names = [field.name for field in fields(config)]
    return [name for name in names if getattr(config, name) != getattr(default, name)]


def _elsewhere(role: Role) -> str:
    return f"is for the process that loads the model; {variable(f'{role}.url')} is set"


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """The language model whose answers are compared."""

    name: str  # id, or the name of an embedded one
    # Whether it ships with the project, so that the embedded NLI model serves unrequested.
    is_embedded: bool

    @classmethod
    def of(cls, generation: EngineConfig) -> Self:
        is_ours = generation.model in LANGUAGE_MODELS and generation.engine == "transformers"
        return cls(generation.model, is_ours)

    @classmethod
    def of_id(cls, model_id: str) -> Self:
        return cls(model_id, model_id in LANGUAGE_MODELS)

    def is_unknown_to(self, pair_model: str, *, is_nli: bool) -> bool:
        """True where the pair model of this id was made for other language models' answers only.

        The embedded NLI model knows those of all embedded ones, the cross-encoder short ones alone.
        """
        known: Container[str] = LANGUAGE_MODELS if is_nli else SHORT_LANGUAGE_MODELS
        return pair_model == "embedded" and self.name not in known
