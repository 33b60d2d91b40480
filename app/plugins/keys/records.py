"""Keys as their file tells them: names, hashes and limits, never the keys themselves."""

import re
import secrets
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Le, MinLen
from pydantic import (
    AwareDatetime,
    BeforeValidator,
    ConfigDict,
    StrictInt,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)

from app.cache.protocol import Namespace
from app.plugin import PluginInvalid

Mode = Literal["full", "light"]
# What a line of the log, a label of a metric and a name in Redis can hold.
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
# More than anybody sends; sums of them stay exact in floating point.
Amount = Annotated[StrictInt, Ge(1), Le(10**12)]

MODES: tuple[Mode, ...] = ("full", "light")
_PREFIX = "cocoa_"  # by which people and scanners of repositories know a key
_NUM_BYTES = 32
_FIELD = re.compile(r"[a-z_]{1,32}|sha256")


class KeysFileInvalid(PluginInvalid):
    """The file of keys cannot be used; the message says why, and quotes no value."""


def _one_or_several(given: Any) -> Any:
    return (given,) if isinstance(given, str) else given


@dataclass(frozen=True, slots=True)
class KeysConfig:
    """The settings of keys."""

    file: str = ""  # path of a TOML file of hashes; "" needs no keys
    # Answers and samples that run at once while several keys have some, in equal parts.
    shared_rows: Annotated[int, Ge(1)] = 32


@dataclass(frozen=True, slots=True)
class Key:
    """One entry of the file."""

    # A limit that is misspelt must not be ignored in silence.
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: Name  # in logs and metrics
    # Of the key, in hexadecimal digits; several while a new key replaces an old one.
    sha256: Annotated[tuple[Digest, ...], MinLen(1), BeforeValidator(_one_or_several)]
    # Of what is cached and can be labelled; keys of one namespace share both. "" in the file is
    # the name.
    namespace: Namespace | Literal[""] = ""
    # Over HTTP, and each further item of a `/score` call; None for any number.
    requests_per_minute: Amount | None = None
    # That are computed: prompts, answers and samples; None for any number.
    tokens_per_minute: Amount | None = None
    max_concurrent: Amount | None = None  # requests under way; None for any number
    modes: Annotated[tuple[Mode, ...], MinLen(1)] = MODES
    expires: AwareDatetime | None = None  # when the key ends; None for never


_ADAPTER: TypeAdapter[Key] = TypeAdapter(Key)


def parse_keys(content: bytes) -> tuple[Key, ...]:
    """The entries of a file, `[[keys]]` each.

    Raises:
        KeysFileInvalid: it is no such file, has no key, or one name or hash twice.
    """
    try:
        document = tomllib.loads(content.decode())
    except UnicodeDecodeError:
        raise KeysFileInvalid("it is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        place = str(error).rpartition("(")[2].rstrip(")") or "an unknown place"
        raise KeysFileInvalid(f"it is not TOML, {place}") from None
    entries = document.pop("keys", None)
    if document:
        raise KeysFileInvalid("it may hold [[keys]] and nothing else")
    if not isinstance(entries, list) or not entries:
        raise KeysFileInvalid("it holds no [[keys]]")
    keys = tuple(_key(number, entry) for number, entry in enumerate(entries, start=1))
    _check_distinct("name", [key.name for key in keys])
    _check_distinct("sha256", [digest for key in keys for digest in key.sha256])
    return keys


def digest_of(key: str) -> str:
    """The hash of a key, as in the file. A key has 256 random bits, so that no salt is needed."""
    return sha256(key.encode(errors="surrogateescape")).hexdigest()


def new_key() -> str:
    return _PREFIX + secrets.token_urlsafe(_NUM_BYTES)


def _key(number: int, entry: Any) -> Key:
    if not isinstance(entry, dict):
        raise KeysFileInvalid(f"entry {number} is no table")
    try:
        key = _ADAPTER.validate_python(entry)
    except ValidationError as error:
        raise KeysFileInvalid(f"entry {number}: {_fault(error)}") from None
    return replace(key, namespace=key.namespace or key.name)


def _fault(error: ValidationError) -> str:
    """The first fault, which quotes no value, and no name of a field that may be a value."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    field = str(first["loc"][0])
    return f"{field if _FIELD.fullmatch(field) else 'a field'}: {first['msg']}"


def _check_distinct(what: str, values: Sequence[str]) -> None:
    if len(set(values)) < len(values):
        raise KeysFileInvalid(f"a {what} stands in it twice")
