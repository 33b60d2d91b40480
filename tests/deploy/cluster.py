"""As little of a cluster as the chart needs to be started as it is rendered.

Deployments become pods (`podman play kube`); this file is what a cluster would do about them:

- a Service has an address of its own on this machine (`10.96.0.0/24`), its name is known in every
  pod, and a connection to it goes to one of its ready pods;
- a pod is ready while its own readiness probe says so;
- a rolling update follows the strategy of the Deployment, `preStop` and
  `terminationGracePeriodSeconds` included.

A container that ends is started anew by podman.
"""

import asyncio
import copy
import itertools
import json
import random
import threading
import time
from dataclasses import dataclass, field

import httpx
import yaml

from tests.deploy.chart import run
from tests.deploy.containers import ENVIRONMENT, podman

NETWORK = "cocoa-deploy"
_PROBE_S = 0.5
_FAILURES = 3  # of a readiness probe in a row: the default of `failureThreshold`
_numbers = itertools.count(1)


@dataclass
class Pod:
    """One started pod.

    Attributes:
        name: of the pod, and the beginning of its container's name.
        component: of the chart.
        address: in the network.
        container: name of its only container.
        template: the Deployment's template.
        num_failed: probes in a row.
    """

    name: str
    component: str
    address: str
    container: str
    template: dict
    is_ready: bool = False
    is_leaving: bool = False
    num_failed: int = 0


@dataclass
class Service:
    """Connections to one address, each passed on to a ready pod."""

    name: str
    address: str
    port: int
    component: str
    pods: list[Pod] = field(default_factory=list)
    server: asyncio.Server | None = None
    # The event loop refers to its tasks weakly: one that waits would be collected as garbage.
    connections: set[asyncio.Task] = field(default_factory=set)

    def endpoints(self):
        return [pod for pod in self.pods if pod.is_ready and not pod.is_leaving]

    async def pass_on(self, reader, writer):
        connection = asyncio.current_task()
        self.connections.add(connection)
        connection.add_done_callback(self.connections.discard)
        try:
            pod = random.choice(self.endpoints())
            other = await asyncio.open_connection(pod.address, self.port)
        except (IndexError, OSError):
            writer.transport.abort()  # as a cluster refuses a Service without endpoints
            return
        try:
            await asyncio.gather(copy_stream(reader, other[1]), copy_stream(other[0], writer))
        finally:
            other[1].close()
            writer.close()


async def copy_stream(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.transport.abort()


async def end_connections():
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


class Cluster:
    """Pods of rendered objects; use as a context."""

    def __init__(self, objects):
        self.objects = objects
        self.services = {}
        self.pods = []
        self.loop = asyncio.new_event_loop()
        self.stopped = threading.Event()
        self.threads = [threading.Thread(target=self.loop.run_forever, daemon=True)]
        self.threads += [threading.Thread(target=self.probe_forever, daemon=True)]

    def __enter__(self):
        run("podman", "network", "create", NETWORK, env=ENVIRONMENT)
        for thread in self.threads:
            thread.start()
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        for (kind, name), one in self.objects.items():
            if kind == "Service":
                self.open_service(name, one["spec"])
        for kind, name in self.objects:
            if kind == "Deployment":
                for _ in range(self.deployment(name)["spec"].get("replicas", 1)):
                    self.start_pod(name)

    def __exit__(self, *_):
        self.stopped.set()
        for pod in self.pods:
            podman("pod", "rm", "-f", "-t", "0", pod.name, check=False)
        for service in self.services.values():
            self.loop.call_soon_threadsafe(service.server.close)
            run("ip", "address", "delete", f"{service.address}/32", "dev", "lo")
        self.loop.call_soon_threadsafe(self.loop.stop)
        for thread in self.threads:
            thread.join()
        self.loop.run_until_complete(end_connections())
        self.loop.close()
        podman("network", "rm", "-f", NETWORK, check=False)

    # What the control plane does.

    def deployment(self, name):
        return self.objects["Deployment", name]

    def open_service(self, name, spec):
        (port,) = spec["ports"]
        address = f"10.96.0.{10 + len(self.services)}"
        run("ip", "address", "add", f"{address}/32", "dev", "lo")
        component = spec["selector"]["app.kubernetes.io/component"]
        service = Service(name, address, port["port"], component)
        listening = asyncio.start_server(service.pass_on, address, port["port"])
        service.server = asyncio.run_coroutine_threadsafe(listening, self.loop).result(10)
        self.services[name] = service

    def start_pod(self, name):
        """A further pod of a Deployment; it is not ready yet."""
        unique = f"{name}-{next(_numbers)}"
        deployment = copy.deepcopy(self.deployment(name))
        template = self.deployment(name)["spec"]["template"]
        document = [one for (kind, _), one in self.objects.items() if kind == "ConfigMap"]
        document.append(adapted(deployment, unique, self.services.values()))
        played = yaml.safe_dump_all(document)
        podman("play", "kube", "--network", NETWORK, "-", input=played)
        component = template["metadata"]["labels"]["app.kubernetes.io/component"]
        pod_name, container = f"{unique}-pod-0", f"{unique}-pod-0-{component}"
        infra = json.loads(podman("pod", "inspect", pod_name))["InfraContainerID"]
        (found,) = json.loads(podman("container", "inspect", infra))
        address = found["NetworkSettings"]["Networks"][NETWORK]["IPAddress"]
        pod = Pod(pod_name, component, address, container, template)
        self.pods.append(pod)
        for service in self.services.values():
            if service.component == component:
                service.pods.append(pod)
        return pod

    def stop_pod(self, pod):
        """End a pod as a cluster does: no new connections, `preStop`, SIGTERM, and the grace."""
        pod.is_leaving = True
        spec = pod.template["spec"]
        (container,) = spec["containers"]
        hook = container["lifecycle"]["preStop"]["exec"]["command"]
        podman("exec", pod.container, *hook)
        # Not the pod: with it podman would take the network from requests under way.
        podman("stop", "-t", spec["terminationGracePeriodSeconds"], pod.container)
        code = podman("container", "inspect", "--format", "{{.State.ExitCode}}", pod.container)
        podman("pod", "rm", "-f", pod.name)
        self.pods.remove(pod)
        for service in self.services.values():
            if pod in service.pods:
                service.pods.remove(pod)
        return int(code)

    def restart(self, name):
        """`kubectl rollout restart`: one new pod becomes ready, then one old one leaves."""
        component = self.deployment(name)["spec"]["template"]["metadata"]["labels"]
        old = [
            one for one in self.pods if one.component == component["app.kubernetes.io/component"]
        ]
        codes = []
        for one in old:
            self.wait_ready([self.start_pod(name)])
            codes.append(self.stop_pod(one))
        return codes

    # What the nodes do.

    def probe_forever(self):
        with httpx.Client(timeout=5) as client:
            while not self.stopped.wait(_PROBE_S):
                for pod in list(self.pods):
                    pod.num_failed = 0 if self.probe(pod, client) else pod.num_failed + 1
                    pod.is_ready = (
                        pod.num_failed < _FAILURES if pod.is_ready else not pod.num_failed
                    )

    def probe(self, pod, client):
        (container,) = pod.template["spec"]["containers"]
        probe = container["readinessProbe"]
        if "exec" in probe:
            command = ("podman", "exec", pod.container, *probe["exec"]["command"])
            return pod.is_ready or run(*command, env=ENVIRONMENT).returncode == 0
        port = probe["httpGet"]["port"]
        number = container["ports"][0]["containerPort"] if port == "http" else port
        try:
            path = probe["httpGet"]["path"]
            return client.get(f"http://{pod.address}:{number}{path}").status_code == 200
        except httpx.HTTPError:
            return False

    def wait_ready(self, pods=None, timeout_s=400):
        pods = self.pods if pods is None else pods
        end = time.monotonic() + timeout_s
        while not all(pod.is_ready for pod in pods):
            if time.monotonic() > end:
                logs = [podman("logs", "--tail", "5", pod.container, check=False) for pod in pods]
                raise AssertionError(f"not ready: {logs}")
            time.sleep(0.2)

    def process(self, pod):
        """Number of the first process of a pod's container; 0 while it is not running."""
        return int(podman("inspect", "--format", "{{.State.Pid}}", pod.container))

    def wait_started_anew(self, pod, first, timeout_s=400):
        """Wait until a pod runs another process than `first`, and all pods pass their probes.

        Whether pods were not ready meanwhile says nothing: a quick start ends before the third
        probe has failed.
        """
        end = time.monotonic() + timeout_s
        with httpx.Client(timeout=5) as client:
            while self.process(pod) in (0, first) or not self.all_pass(client):
                assert time.monotonic() < end, f"{pod.name} is not started anew"
                time.sleep(0.2)

    def all_pass(self, client):
        return all(self.probe(pod, client) for pod in self.pods)

    def url(self, name):
        service = self.services[name]
        return f"http://{service.address}:{service.port}"

    def of(self, component):
        return [pod for pod in self.pods if pod.component == component]


def adapted(deployment, name, services):
    """The Deployment as podman takes it.

    One pod, of images of this machine, that knows the addresses of Services. Its ports are not
    published, podman's volumes are not shared by name, and it does without probes, which podman
    leaves to systemd.
    """
    deployment["metadata"]["name"] = name
    deployment["spec"]["replicas"] = 1
    spec = deployment["spec"]["template"]["spec"]
    spec["hostAliases"] = [{"ip": one.address, "hostnames": [one.name]} for one in services]
    (container,) = spec["containers"]
    if container["image"].startswith("cocoa-"):
        container["image"] = f"localhost/{container['image']}"
    for key in ("ports", "startupProbe", "livenessProbe", "readinessProbe", "lifecycle"):
        container.pop(key, None)
    for one in (*spec["volumes"], *container["volumeMounts"]):
        one["name"] = f"{name}-{one['name']}"
    return deployment
