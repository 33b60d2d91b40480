"""The contract of every cache: bytes by key.

tests/contract/test_caches.py runs on each implementation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, Protocol
from urllib.parse import quote, urlsplit

from annotated_types import Ge, Gt, Le
from pydantic import AfterValidator, FilePath, SecretStr, StringConstraints


def _check_url(url: SecretStr) -> SecretStr:
    """The URL as it is; the error never quotes it.

    Options that could weaken TLS or the time limits are refused.
    """
    text = url.get_secret_value()
    if text and not (text.startswith(("redis://", "rediss://")) and _is_server(text)):
        raise ValueError("must be redis:// or rediss://[user:password@]host[:port][/database]")
    return url


def _is_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        database = parts.path.removeprefix("/")
        has_options = parts.query or parts.fragment
        return (
            bool(parts.hostname)
            and parts.port != 0
            and not has_options
            and (not database or database.isdecimal())
        )
    except ValueError:  # of the port, or of brackets
        return False


RedisUrl = Annotated[SecretStr, AfterValidator(_check_url)]
# Of the breaker before Redis (app/cache/breaker.py).
State = Literal["closed", "suspect", "open"]
Namespace = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]


@dataclass(frozen=True)  # without slots, so that a config can have some
class RedisServer:
    """The address of a Redis, and its credentials."""

    url: RedisUrl | None = None  # with user and password where it needs them
    # As it is, in place of that in the url, where `/`, `#`, `@` and `%` are escaped.
    password: SecretStr = field(default_factory=lambda: SecretStr(""))
    password_file: FilePath | None = None  # that holds it, in place of `password`
    # PEM file of the authority that signed a rediss:// server's certificate; None trusts the
    # system's.
    ca_file: FilePath | None = None

    def __post_init__(self) -> None:
        self.whole_url()

    def whole_url(self) -> str:
        """The url with the password; "" where there is none.

        Raises:
            ValueError: the password is given twice, without a url, or by a file that has none.
        """
        url = self.url.get_secret_value() if self.url else ""
        password = self.password.get_secret_value()
        if self.password_file:
            if password:
                raise ValueError("password and password_file exclude each other")
            password = _password_in(self.password_file)
        if not password:
            return url
        parts = urlsplit(url)
        if not url or parts.password:
            raise ValueError("a password wants a url, and one that has none")
        user, _, host = parts.netloc.rpartition("@")
        return parts._replace(netloc=f"{user}:{quote(password, safe='')}@{host}").geturl()


def _password_in(file: FilePath) -> str:
    try:
        password = file.read_text().strip()
    except (OSError, UnicodeDecodeError):
        password = ""
    if not password:
        raise ValueError("password_file is empty, or cannot be read")
    return password


@dataclass(frozen=True, slots=True)
class CacheConfig(RedisServer):
    """The settings of the cache; without a url, entries stay in this process."""

    enabled: bool = True  # without it nothing is looked up and nothing stored
    # Prefix of every key, so that several deployments can share one Redis.
    namespace: Namespace = "cocoa"
    ttl_s: Annotated[int, Ge(1)] = 3600  # an entry is forgotten this long after it was stored
    max_entry_bytes: Annotated[int, Ge(1)] = 1_000_000  # a larger entry is not stored
    # Bound of the cache in this process; what was not used for longest goes first.
    memory_bytes: Annotated[int, Ge(0)] = 67_108_864
    # The longest that a lookup in Redis may take; from then on all is a miss until Redis is well
    # again.
    timeout_s: Annotated[float, Gt(0), Le(1)] = 0.025


class Cache(Protocol):
    """Bytes by key. Never raises and never blocks for long: any failure is a miss."""

    async def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """The entries in the order of the keys, None for a miss; one round trip."""

    def put(self, entries: Mapping[str, bytes]) -> None:
        """Store the entries some time after the call, or not at all; returns at once.

        They are forgotten after `ttl_s`.
        """

    async def run(self) -> None:
        """Serve `get_many` and `put` until cancelled, then free what is held.

        Before and after that, every lookup is a miss.
        """
