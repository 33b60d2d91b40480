"""Settings of a deployment: the only reader of the environment (`COCOA_*`, nested with `__`)."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, ValidationError, create_model
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from app.cache.protocol import CacheConfig
from app.installed import installed
from app.plugin import Plugin, PluginInvalid
from app.scoring.ask import MAX_TIMEOUT_S
from app.scoring.deployment import AskLimits
from app.spelling import closest, did_you_mean
from models.probes.protocol import ProbeConfig
from models.similarity.protocol import NliConfig
from workers.config import GeneratorConfig, ServerConfig, SimilaritySettings, WorkerConfig

_PREFIX = "COCOA_"
# Variables of the test suite and of `cocoa ask`, which the service does not read.
_FOREIGN = ("COCOA_TEST_", "COCOA_ASK_")
# What Kubernetes sets in each pod for a Service named SERVICE: SERVICE_PORT=tcp://10.0.0.1:8000,
# and the variables that a Service with such a port comes with.
_LINK = re.compile(r"(?P<service>COCOA(_\w+)?)_PORT")
_LINK_VALUE = re.compile(r"(tcp|udp|sctp)://")
_LINK_SUFFIX = re.compile(
    r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)


def _separated(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    return tuple(part.strip() for part in given.split(",") if part.strip())


# As browsers spell them in `Origin`: without a path, and without the port that is the default.
_ORIGIN = r"^(\*|https?://[^/?#@\s,]+)$"
Origins = Annotated[
    tuple[Annotated[str, StringConstraints(pattern=_ORIGIN)], ...],
    BeforeValidator(_separated),
    NoDecode,
]
# Names in `Host`, without a port.
Hosts = Annotated[
    tuple[Annotated[str, StringConstraints(pattern=r"^(\*|[^/?#@:\s,*]+)$")], ...],
    BeforeValidator(_separated),
    NoDecode,
]


@dataclass(frozen=True, slots=True)
class Limits(AskLimits):
    """Bounds of a request that do not depend on a model; see `AskLimits` for the others."""

    timeout_s: Annotated[float, Field(gt=0, le=MAX_TIMEOUT_S)] = 60.0  # of one that names none
    max_body_bytes: Annotated[int, Field(ge=1024)] = 1_000_000  # a larger body is refused with 413
    # Items that run at once: of a `/score` call, and of all in the background of a key together.
    max_concurrent_items: Annotated[int, Field(ge=1)] = 2
    # A body that takes longer to come is refused with 408.
    max_body_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 30.0
    # Of the target and the headers of a request; more is refused with 431.
    max_head_bytes: Annotated[int, Field(ge=1024)] = 32_768
    max_headers: Annotated[int, Field(ge=1)] = 100  # of a request; more are refused with 431
    # A head that takes longer to come is refused with 408; a connection without one is closed.
    max_head_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 10.0
    # Beyond them the oldest that waits is closed; at most as many as the process may open files.
    max_connections: Annotated[int, Field(ge=1)] = 1000


class Settings(BaseSettings):
    """What any deployment can set, without its plugins; see `settings_class`."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        env_nested_delimiter="__",
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
    )

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    # Health, metrics and documentation are at `port`, or at a port of their own.
    ops_host: str | None = None
    ops_port: Annotated[int, Field(ge=0, le=65535)] | None = None
    cors_origins: Origins = ()
    allowed_hosts: Hosts = ()
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "json", "text"] = "auto"
    # Of the sources, for GET /version; images set it, and git says it of a checkout.
    git_revision: str = ""
    drain_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 20.0
    # Whoever waited for a call that takes longer has had an error by now.
    stall_s: Annotated[float, Field(ge=0)] = MAX_TIMEOUT_S
    generation: GeneratorConfig = GeneratorConfig()
    similarity: SimilaritySettings = SimilaritySettings()
    nli: NliConfig = NliConfig()
    probes: ProbeConfig = ProbeConfig()
    # "auto" is the one that ships with the embedded models, beside them only; "" is none.
    calibrator: str = "auto"
    # Whether an answer may pass whose prompt is unlike those of the calibrator.
    prompt_out_of_domain: Literal["reject", "warn"] = "reject"
    # Whether system messages go before the first user message where a template takes none.
    merge_system: bool = True
    # Whether tools are left out where the chat template takes none, unless one must be called.
    leave_out_tools: bool = False
    # Whether readiness needs each capability that is configured: probes, a calibrator.
    require_configured: bool = False
    cache: CacheConfig = CacheConfig()
    limits: Limits = Limits()
    worker: ServerConfig = ServerConfig()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then the environment without what Kubernetes put there."""
        environment = EnvSettingsSource(settings_cls)
        links = service_links(os.environ)
        kept: dict[str, str | None] = {}
        for name, text in environment.env_vars.items():
            if name.upper() not in links:
                kept[name.lower()] = text
        environment.env_vars = kept
        return init_settings, environment

    @property
    def workers(self) -> WorkerConfig:
        return WorkerConfig(
            self.generation, self.similarity, self.nli, self.probes, self.calibrator
        )


@cache
def settings_class(plugins: tuple[Plugin, ...]) -> type[Settings]:
    """The class of settings that a deployment with these plugins has.

    Raises:
        PluginInvalid: a plugin has a setting of a name that is taken.
    """
    added: dict[str, Any] = {}
    for plugin in plugins:
        for name, setting in plugin.settings().items():
            if name in added or name in Settings.model_fields:
                raise PluginInvalid(f"the plugin {plugin.name} has a setting {name}, as others do")
            added[name] = setting
    return create_model("Settings", __base__=Settings, **added)


def completed(settings: Settings, plugins: tuple[Plugin, ...]) -> Settings:
    """The settings, and those of plugins that they lack by their defaults."""
    whole = settings_class(plugins)
    if isinstance(settings, whole):
        return settings
    return whole.model_construct(**vars(settings))


def load_settings() -> Settings:
    """Settings from the environment, those of all installed plugins among them.

    Raises:
        ValueError: unknown variables, or values out of their bounds, a line each; or a plugin that
            cannot be used.
    """
    if unknown := unknown_variables(os.environ):
        raise ValueError("\n".join(map(_of_unknown, unknown)))
    try:
        return settings_class(installed())()
    except ValidationError as error:
        raise ValueError("\n".join(map(_line_of, error.errors()))) from None


def _of_unknown(name: str) -> str:
    return f"{name} is no setting{did_you_mean(closest(name.upper(), variables()))}"


def variables() -> Iterator[str]:
    """The name of each setting, and of each group of them."""
    for name, field in settings_class(installed()).model_fields.items():
        yield f"{_PREFIX}{name}".upper()
        if is_dataclass(field.annotation):
            for nested in fields(field.annotation):
                yield f"{_PREFIX}{name}__{nested.name}".upper()


def _line_of(fault: Mapping[str, Any]) -> str:
    """One of pydantic's errors, by the name of its variable; a value may be a key."""
    name = _PREFIX + "__".join(map(str, fault["loc"])).upper()
    return f"{name}: {fault['msg'].removeprefix('Value error, ')}"


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Names that begin like settings and are none.

    A misspelt variable must not be ignored in silence.
    """
    known = service_links(environment).union(variables())
    unknown = []
    for name in environment:
        is_ours = name.upper().startswith(_PREFIX) and not name.upper().startswith(_FOREIGN)
        if is_ours and name.upper() not in known:
            unknown.append(name)
    return sorted(unknown)


def service_links(environment: Mapping[str, str]) -> frozenset[str]:
    """Names, in capitals, that Kubernetes sets for Services whose names begin with "cocoa".

    They look like settings, `COCOA_PORT` is even spelt like a setting, and are none. Values such as
    tcp://10.0.0.1:8000 give them away.
    """
    names = {name.upper() for name in environment}
    links: set[str] = set()
    for name, value in environment.items():
        link = _LINK.fullmatch(name.upper())
        if link is None or _LINK_VALUE.match(value) is None:
            continue
        service = link["service"]
        for other in names:
            if other.startswith(service) and _LINK_SUFFIX.fullmatch(other.removeprefix(service)):
                links.add(other)
    return frozenset(links)
