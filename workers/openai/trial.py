"""Trying a server out: what it is and can, by what it does, and whether it is still the same."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import httpx

from models.engines.protocol import EngineConfig
from workers.calls import Calls, listed_model
from workers.config import OpenAIServers
from workers.openai.capabilities import OpenAIServer
from workers.openai.columns import check_revision, probes_read, prompts_read, read_columns
from workers.openai.experiments import Experiments
from workers.openai.self_description import as_said, version_of
from workers.protocol import ProbeInfo

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
    """

    def __init__(
        self, servers: OpenAIServers, probes: Mapping[str, ProbeInfo], prompts: str
    ) -> None:
        self.unknown_fingerprints: frozenset[str] = frozenset()
        is_default = servers.model == EngineConfig().model
        self._model = "" if is_default else servers.model
        self._servers = servers
        self._probes = probes
        self._prompts = prompts

    async def look_up(self, client: httpx.AsyncClient) -> Mapping[str, Any]:
        entry = await listed_model(Calls(client, is_trial=True), self._model)
        return {name: entry.get(name) for name in _TELLING}

    async def try_out(self, client: httpx.AsyncClient, said: Mapping[str, Any]) -> OpenAIServer:
        can = as_said(said, await version_of(client))
        if self._servers.context:
            can = replace(can, max_context_tokens=self._servers.context)
        tried = Experiments(client, can)
        await tried.endpoints()
        await tried.set_first_prompt()
        await tried.logprobs()
        await tried.sampling()
        await tried.raw_logprobs()
        await tried.rest()
        fingerprint = await tried.fingerprint()
        if tried.can.columns is None:  # else its mark tells weights
            # Some servers answer one prompt now so, now otherwise: that tells nothing of weights.
            fingerprint = fingerprint.common(await tried.fingerprint())
        known, prompts = {}, ""
        if tried.can.columns is not None:
            known = probes_read(tried.can.columns, self._probes)
            prompts = prompts_read(tried.can.columns, self._prompts)
            check_revision(tried.can.columns, self._servers.revision)
        told = frozenset(tried.calls.system_fingerprints)
        revision, is_routed = self._servers.revision, self._servers.routing == "upstream"
        return OpenAIServer(tried.can, fingerprint, told, known, prompts, revision, is_routed)

    async def ask_again(
        self, client: httpx.AsyncClient, known: OpenAIServer
    ) -> OpenAIServer | None:
        tried = Experiments(client, known.capabilities)
        if not known.fingerprint.agrees(await tried.fingerprint()):
            return None
        told = frozenset(tried.calls.system_fingerprints)
        if tried.can.columns is not None:
            await tried.set_first_prompt()
            if await read_columns(tried.calls, tried.can, tried.prompt) != tried.can.columns:
                return None
        told |= known.system_fingerprints | self.unknown_fingerprints
        self.unknown_fingerprints = frozenset()
        return replace(known, system_fingerprints=told)
