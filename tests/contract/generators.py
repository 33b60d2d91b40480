"""Every generator that the contract of engines is tried on, and requests for it.

An engine is tried behind the worker that owns it, which is how everybody else meets it: the suite
is that of `workers.protocol.Generator`, too.
"""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from models.engines import ENGINES
from models.engines.protocol import EngineConfig
from models.engines.transformers import TransformersEngine
from models.errors import PromptTooLong
from models.probes.protocol import ProbeConfig
from models.records import GenerationRequest, SamplingParams
from models.statistics import supplied_by
from tests.contract.thirty import ThirtyLines
from tests.openai_server import encode, openai_server
from tests.tiny_models import byte_tokenizer, random_model
from workers.config import GeneratorConfig
from workers.generation import GenerationWorker
from workers.hooks import Hooks
from workers.loading import resolve
from workers.openai.generator import connect_generator

REQUEST = GenerationRequest(
    prompt="What is the capital of France?",
    sampling=SamplingParams(num_samples=4, max_new_tokens=12, seed=7),
    statistics=supplied_by("answer", "samples"),
)
FIRST_TOKEN = replace(REQUEST, sampling=SamplingParams(num_samples=0, max_new_tokens=1))
GROUPS = [["True", " True"], ["False", " False"], []]


def tiny(architecture):
    def build():
        model = random_model(architecture)
        config = EngineConfig()
        return TransformersEngine(model, byte_tokenizer(), config, model_id="tiny", revision="1")

    return build


def loaded(name):
    return lambda: resolve(ENGINES[name]).load(EngineConfig(engine=name))


# Every engine of the table, so that a new one cannot skip the suite; of the real one two further
# architectures; and one that is not in the table.
BUILDERS = {name: loaded(name) for name in ENGINES} | {
    "tiny llama": tiny("llama"),
    "tiny hybrid": tiny("hybrid"),
    "thirty lines": ThirtyLines,
}


@asynccontextmanager
async def running(build):
    """A generator over the engine, while its loop runs."""
    worker = GenerationWorker(build())
    loop = asyncio.create_task(worker.run())
    await asyncio.sleep(0)
    try:
        yield worker
    finally:
        await worker.close()
        await asyncio.gather(loop, return_exceptions=True)


def asked(generator, sampling=None, **changes):
    """REQUEST with changes, for as many of its statistics as the generator supplies."""
    request = replace(REQUEST, **changes)
    known = request.statistics & generator.info.statistics
    changed = replace(request.sampling, **(sampling or {}))
    return replace(request, statistics=known, sampling=changed)


def needs(generator, *statistics):
    """Skip a test of what the engine does not claim to supply."""
    if missing := set(statistics) - generator.info.statistics:
        pytest.skip(f"does not supply {', '.join(sorted(missing))}")


def needs_of_server(generator, **wanted):
    """Skip a test of what the server behind an adapter cannot do."""
    can = generator.info.capabilities
    for name, values in wanted.items():
        if can and can[name] not in values:
            pytest.skip(f"{name} is {can[name]}")


def samples_of(generation):
    return [(sample.text, sample.num_tokens, sample.token_ids) for sample in generation.samples]


# Those that are tried behind HTTP, too: one that streams while it computes, and one that does not.
REMOTE = {f"{name} over HTTP": BUILDERS[name] for name in ("fake", "tiny llama")}


# What existing servers may be like, all behind `workers.openai`; see `tests.openai_server`.
SERVERS = {
    "vLLM": {"images": "heeded"},
    "vLLM with its plugin": {"probes": ()},
    "an OpenAI-compatible server": {"tokenizes": False, "max_logprobs": 5, "images": "heeded"},
    "one of chats without end": {
        "tokenizes": False,
        "completes": False,
        "draws_several": False,
        "shows_end": False,
    },
}
# The same of models that reason.
_THOUGHTS = {"budget": "heeded", "num_thoughts": 2}
_CHATS = _THOUGHTS | {"tokenizes": False, "completes": False, "tags": "tokens"}
SERVERS |= {
    "vLLM with tags in halves": _THOUGHTS,
    "vLLM with tags as tokens": _THOUGHTS | {"tags": "tokens"},
    "vLLM with tags that no text shows": _THOUGHTS | {"tags": "special", "probes": ()},
    "chats with tags in their text": _CHATS,
    "chats with reasoning": _CHATS | {"parser": "reasoning"},
    "chats with reasoning_content": _CHATS | {"parser": "reasoning_content"},
}


@asynccontextmanager
async def over_server(**traits):
    """A generator over a server that is like that."""
    async with openai_server(**traits) as server:
        servers = GeneratorConfig(url=server.url, api="openai").checked()
        generator = await connect_generator(servers, Hooks(), ProbeConfig("", ""))
        loop = asyncio.create_task(generator.run())
        generator.engine = SimpleNamespace(prepare=lambda request: check_length(request, server))
        try:
            yield generator
        finally:
            await generator.close()
            await asyncio.gather(loop, return_exceptions=True)


def check_length(request, server):
    if len(encode(request.prompt)) >= server.context:
        raise PromptTooLong("in the test's own words")


def values_of(values, num_tokens):
    """One value a token; None for what was not wanted."""
    return [None] * num_tokens if values is None else values.tolist()
