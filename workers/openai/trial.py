"""Trying a server out: what it is and can, by what it does, and whether it is still the same."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from models.engines.protocol import EngineConfig
from workers.calls import Calls, listed_model
from workers.client import Client
from workers.config import OpenAIServers
from workers.openai.capabilities import Fingerprint, OpenAIServer
from workers.openai.columns import check_revision, probes_read, prompts_read, read_columns
from workers.openai.declared import declared
from workers.openai.experiments import Experiments
from workers.openai.self_description import as_said, version_of
from workers.protocol import ProbeInfo

logger = logging.getLogger(__name__)

# Of a server whose capabilities are declared.
_UNASKED = Fingerprint((), ())
# What of a model's entry says what it is; the rest is of the moment.
_TELLING = ("id", "root", "max_model_len", "meta", "context_length", "context_window")


class GeneratorTrial:
    """How an OpenAI-compatible server is tried out: see `workers.standing.Trial`.

    Attributes:
        unknown_fingerprints: `system_fingerprint`s of replies that nobody knows yet.

    Args:
        servers: what the deployment says of it; without a model the first that it lists is asked.
        probes: that this deployment knows, by the statistic that each predicts.
        prompts: sha256 of its calibration's prompts; "" for none.

    Raises:
        ModelNotLoaded: what the deployment declares of the server makes no sense.
    """

    def __init__(
        self, servers: OpenAIServers, probes: Mapping[str, ProbeInfo], prompts: str
    ) -> None:
        self.unknown_fingerprints: frozenset[str] = frozenset()
        self._declared: Mapping[str, Any] | None = None
        if servers.capabilities:
            self._declared = declared(servers.capabilities)
        is_default = servers.model == EngineConfig().model
        self._model = "" if is_default else servers.model
        self._servers = servers
        self._probes = probes
        self._prompts = prompts

    async def look_up(self, client: Client) -> Mapping[str, Any]:
        entry = await listed_model(Calls(client, is_trial=True), self._model)
        return {name: entry.get(name) for name in _TELLING}

    async def try_out(self, client: Client, said: Mapping[str, Any]) -> OpenAIServer:
        can = as_said(said, await version_of(client))
        if self._servers.context:
            can = replace(can, max_context_tokens=self._servers.context)
        revision, is_routed = self._servers.revision, self._servers.routing == "upstream"
        if self._declared is not None:
            can = replace(can, **self._declared)
            return OpenAIServer(can, _UNASKED, revision=revision, is_routed=is_routed)
        tried = Experiments(client, can)
        await tried.endpoints()
        await tried.set_prompts()
        await tried.logprobs()
        fingerprint = await tried.fingerprint()
        await tried.sampling()
        await tried.raw_logprobs()
        await tried.rest()
        if tried.can.columns is None:  # else its mark tells weights
            # Some servers answer one prompt now so, now otherwise: that tells nothing of weights.
            fingerprint = fingerprint.common(await tried.fingerprint())
        known, prompts = {}, ""
        if tried.can.columns is not None:
            known = probes_read(tried.can.columns, self._probes)
            prompts = prompts_read(tried.can.columns, self._prompts)
            check_revision(tried.can.columns, self._servers.revision)
        told, calls = frozenset(tried.calls.system_fingerprints), tried.calls
        price = calls.num_posts, calls.num_tokens
        logger.info("the language model's server was tried out by %d calls of %d tokens", *price)
        return OpenAIServer(tried.can, fingerprint, told, known, prompts, revision, is_routed)

    async def ask_again(self, client: Client, known: OpenAIServer) -> OpenAIServer | None:
        if self._declared is not None:
            return known
        tried = Experiments(client, known.capabilities)
        await tried.set_prompts()
        if not known.fingerprint.agrees(await tried.fingerprint()):
            return None
        told = frozenset(tried.calls.system_fingerprints)
        can = tried.can
        if can.columns and await read_columns(tried.calls, can, tried.prompt) != can.columns:
            return None
        told |= known.system_fingerprints | self.unknown_fingerprints
        self.unknown_fingerprints = frozenset()
        return replace(known, system_fingerprints=told)
