"""Settings of a deployment: the only reader of the environment (`COCOA_*`, nested with `__`)."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from typing import Annotated, Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from app.cache.protocol import CacheConfig
from models.engines.protocol import EngineConfig
from models.probes.protocol import ProbeConfig
from models.similarity.protocol import NliConfig, SimilarityConfig
from workers.build import WorkerConfig

_PREFIX = "COCOA_"
# Variables of the test suite, which the service does not read.
_FOREIGN = ("COCOA_TEST_",)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a request that do not depend on a model.

    Attributes:
        max_body_bytes: a larger body is refused with 413.
    """

    max_body_bytes: Annotated[int, Field(ge=1024)] = 1_000_000


class Settings(BaseSettings):
    """Everything a deployment can set; `load_settings` refuses an unknown `COCOA_*` variable."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        env_nested_delimiter="__",
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
    )

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["json", "text"] = "json"
    drain_s: Annotated[float, Field(ge=0)] = 20.0
    # As long as the largest timeout_s: whoever waited for a call that takes longer has had an error
    # by now.
    stall_s: Annotated[float, Field(ge=0)] = 600.0
    generation: EngineConfig = EngineConfig()
    similarity: SimilarityConfig = SimilarityConfig()
    nli: NliConfig = NliConfig()
    probes: ProbeConfig = ProbeConfig()
    cache: CacheConfig = CacheConfig()
    limits: Limits = Limits()

    @property
    def workers(self) -> WorkerConfig:
        """The settings of all models."""
        return WorkerConfig(self.generation, self.similarity, self.nli, self.probes)


def load_settings() -> Settings:
    """Settings from the environment.

    Raises:
        ValueError: an unknown variable, named, or a value out of its bounds.
    """
    if unknown := unknown_variables(os.environ):
        raise ValueError(f"unknown settings: {', '.join(unknown)}")
    return Settings()


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Names that begin like settings and are none.

    A misspelt variable must not be ignored in silence.
    """
    unknown = []
    for name in environment:
        is_ours = name.upper().startswith(_PREFIX) and not name.upper().startswith(_FOREIGN)
        if is_ours and not _is_setting(name.upper().removeprefix(_PREFIX).lower()):
            unknown.append(name)
    return sorted(unknown)


def _is_setting(name: str) -> bool:
    """Whether the name is a field, or one below a group.

    Pydantic refuses unknown fields of a group itself.
    """
    field, nested, _ = name.partition("__")
    if field not in Settings.model_fields:
        return False
    return not nested or is_dataclass(Settings.model_fields[field].annotation)
