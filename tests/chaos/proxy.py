"""A TCP proxy that a test makes slow, mute, absent or mad while connections run through it."""

import asyncio
from contextlib import asynccontextmanager

CHUNK_BYTES = 65_536


class Proxy:
    """Passes bytes on to a port of this machine.

    Attributes:
        delay_s: what each piece of a reply waits before it is passed on.
        mute: whether replies are lost, while connections stay and new ones are accepted.
        instead: command of Redis to what its replies are replaced by.
        num_asked: pieces that were asked so far.
    """

    def __init__(self, target_port):
        self.delay_s = 0.0
        self.mute = False
        self.instead = {}
        self.num_asked = 0
        self._target_port = target_port
        self._writers = set()
        self._server = None

    @property
    def port(self):
        return self._server.sockets[0].getsockname()[1]

    @property
    def url(self):
        return f"redis://localhost:{self.port}"

    def cut(self):
        """Reset every connection; new ones are accepted."""
        for writer in self._writers:
            writer.transport.abort()

    async def asked(self, work):
        """A task of this work, once it has asked."""
        before = self.num_asked
        task = asyncio.create_task(work)
        while self.num_asked == before:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        return task

    async def start(self):
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)

    async def close(self):
        self._server.close()
        self.cut()
        await self._server.wait_closed()

    async def _connect(self, reader, writer):
        target_reader, target_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        self._writers |= {writer, target_writer}
        asked = b""

        async def heard(piece):
            nonlocal asked
            asked = piece
            self.num_asked += 1
            return piece

        async def answer(piece):
            await asyncio.sleep(self.delay_s)
            replaced = [new for name, new in self.instead.items() if b"\r\n%b\r\n" % name in asked]
            return b"" if self.mute else b"".join(replaced) or piece

        requests = asyncio.create_task(_pass_on(reader, target_writer, heard))
        replies = asyncio.create_task(_pass_on(target_reader, writer, answer))
        await asyncio.wait({requests, replies})
        self._writers -= {writer, target_writer}


async def _pass_on(reader, writer, changed):
    """What is read is written as `changed` makes it."""
    try:
        while piece := await reader.read(CHUNK_BYTES):
            writer.write(await changed(piece))
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def proxy_to(port):
    """A running `Proxy`."""
    proxy = Proxy(port)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()
