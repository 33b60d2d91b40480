"""The servers behind one name: each address that the name has, found again and again."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

import httpx

# The addresses of a host, which raises OSError where it has none.
Resolve = Callable[[str], Awaitable[list[str]]]


async def addresses(host: str) -> list[str]:
    """What the system's resolver says: of a headless Service the addresses of its ready pods."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return sorted({str(address[0]) for *_, address in found})


async def urls_of(url: str, resolve: Resolve) -> list[str]:
    """The url once for each address of its host; none where the host has none.

    >>> async def resolve(host): return ["10.0.0.7", "fd00::1"]
    >>> asyncio.run(urls_of("http://vllm-pods:8000/v", resolve))
    ['http://10.0.0.7:8000/v', 'http://[fd00::1]:8000/v']
    """
    named = httpx.URL(url)
    try:
        found = await resolve(named.host)
    except OSError:
        return []
    return [str(named.copy_with(host=address)) for address in found]
