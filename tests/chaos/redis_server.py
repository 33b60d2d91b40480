"""A real redis-server as a process, for tests that lose it, stop it, fill it and bring it back."""

import secrets
import signal
import socket
import subprocess
import time
from contextlib import ExitStack, contextmanager, suppress

import pytest
import redis

from tests.binaries import binary

WITHIN_S = 30


class RedisServer:
    """One redis-server on a port of its own that it keeps over restarts; it saves nothing.

    Attributes:
        url: with the TLS port where the options name one.
    """

    def __init__(self, program, directory, options):
        tls = "--tls-port" in options
        self.port = int(options[options.index("--tls-port") + 1]) if tls else free_port()
        self.url = f"{'rediss' if tls else 'redis'}://localhost:{self.port}"
        listen = ["--port", "0"] if tls else ["--port", str(self.port)]
        self._command = [program, *listen, "--bind", "127.0.0.1", "--dir", str(directory)]
        self._command += ["--save", "", "--appendonly", "no", "--loglevel", "warning", *options]
        self._process = None
        self._log = directory / f"redis-{secrets.token_hex(4)}.log"

    def start(self):
        """Start the process and wait until it accepts connections."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        give_up_at = time.monotonic() + WITHIN_S
        while not self._accepts():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < give_up_at
            time.sleep(0.01)

    def kill(self):
        """SIGKILL; its memory is lost."""
        self._process.kill()
        self._process.wait()

    def restart(self):
        """Kill it and start it again, empty, on the same port."""
        self.kill()
        self.start()

    def stop(self):
        """SIGSTOP: it accepts connections, and answers nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def cont(self):
        self._process.send_signal(signal.SIGCONT)

    def client(self, **options):
        """A blocking client for what a test itself asks or sets; to be closed by the test."""
        return redis.Redis(host="localhost", port=self.port, socket_timeout=WITHIN_S, **options)

    def _accepts(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=WITHIN_S).close()
        except ConnectionRefusedError:
            return False
        return True


@contextmanager
def running_redis(directory, *options):
    """A running `RedisServer`, killed at the end.

    `options` are those of its command line, after the defaults.
    """
    server = RedisServer(binary("redis-server"), directory, options)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def running_cluster(directory, *options):
    """Three running `RedisServer` that are one cluster, and a replica of the first."""
    with ExitStack() as stack:
        servers = []
        for number in range(4):
            node = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"]
            node += ["--cluster-config-file", f"node-{number}.conf"]
            node += ["--cluster-port", str(free_port())]
            servers.append(stack.enter_context(running_redis(directory, *options, *node)))
        _join(servers)
        yield servers


def _join(servers):
    """Have the servers know one another, all slots be served, and the last one copy the first."""
    clients = [server.client() for server in servers]
    for number, client in enumerate(clients[:3]):
        bounds = [number * 16384 // 3, (number + 1) * 16384 // 3 - 1]
        client.execute_command("CLUSTER ADDSLOTSRANGE", *bounds)
    for server, client in zip(servers, clients, strict=True):
        bus = client.config_get("cluster-port")["cluster-port"]
        clients[0].execute_command("CLUSTER MEET", "127.0.0.1", server.port, bus)
    first = clients[0].execute_command("CLUSTER MYID").decode()
    _until(lambda: first in str(clients[3].execute_command("CLUSTER NODES")))
    clients[3].execute_command("CLUSTER REPLICATE", first)
    _until(lambda: clients[3].info("replication")["master_link_status"] == "up")
    for client in clients:
        _until(lambda client=client: client.cluster("INFO")["cluster_state"] == "ok")
        client.close()


def _until(condition):
    give_up_at = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < give_up_at
        time.sleep(0.02)


@pytest.fixture
def redis_server(tmp_path):
    with running_redis(tmp_path) as server:
        yield server


def free_port():
    """A port that nobody listens on, below those that systems give to outgoing connections.

    One of theirs may be given to a test beside this one before the server binds it.
    """
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
