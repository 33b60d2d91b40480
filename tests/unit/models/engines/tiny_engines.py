"""Engines over tiny random models, the workers that own them, and what is asked of them."""

import asyncio
from contextlib import asynccontextmanager

import torch

from models.engines.protocol import EngineConfig
from models.engines.transformers import TransformersEngine
from models.records import GenerationRequest, SamplingParams
from models.statistics import supplied_by
from models.threads import ModelThread
from tests.tiny_models import byte_tokenizer
from workers.generation import GenerationWorker

ALL = supplied_by("answer", "samples")
ARCHITECTURES = ["llama", "gpt2", "qwen2", "sliding"]
PROMPTS = ["Hi", "What is the capital of France?", "12 + 30 ="]
PROMPTS += ["A prompt that is a good deal longer than the others, é"]


def ignore(num_rows):
    """For whoever does not watch the steps."""


def engine_of(model, tokenizer=None, *, model_id="tiny", revision="1", pass_tokens=None, **config):
    """An engine, which reads so many tokens of prompts in a pass, or as many as is usual."""
    engine = TransformersEngine(
        model,
        tokenizer or byte_tokenizer(),
        EngineConfig(**config),
        model_id=model_id,
        revision=revision,
    )
    if pass_tokens is not None:
        engine._cache.pass_tokens = pass_tokens
    return engine


def worker_of(engine, on_step=ignore):
    thread = ModelThread("generation", initializer=torch.set_num_threads, initargs=(1,))
    return GenerationWorker(engine, model_thread=thread, on_step=on_step)


@asynccontextmanager
async def running(engine, on_step=ignore):
    """The worker that owns the engine, while its loop runs."""
    worker = worker_of(engine, on_step)
    loop = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        await worker.close()
        await asyncio.gather(loop, return_exceptions=True)


async def generated(worker, requests, *, return_exceptions=False):
    """What the worker makes of requests that come at once."""
    waiting = [worker.generate(request) for request in requests]
    return await asyncio.gather(*waiting, return_exceptions=return_exceptions)


def request_for(prompt, *, max_new_tokens=24, num_samples=4, seed=1, statistics=ALL, **kwargs):
    sampling = SamplingParams(num_samples=num_samples, max_new_tokens=max_new_tokens, seed=seed)
    return GenerationRequest(
        prompt=prompt, sampling=sampling, statistics=frozenset(statistics), **kwargs
    )


@torch.inference_mode()
def teacher_forced(model, prompt_ids, token_ids):
    """Log-probs and entropies (T,) of token_ids after the prompt, in one pass."""
    ids = torch.tensor([list(prompt_ids) + list(token_ids)])
    logprobs = model(ids).logits[0, len(prompt_ids) - 1 : -1].log_softmax(-1)
    chosen = logprobs.gather(1, torch.tensor(token_ids)[:, None])[:, 0]
    return chosen.numpy(), -(logprobs.exp() * logprobs).sum(-1).numpy()


@torch.inference_mode()
def next_logprobs(model, ids):
    """Log-probs (V,) of the token after these."""
    return model(torch.tensor([list(ids)])).logits[0, -1].log_softmax(-1)


def sequences(generation):
    return (generation.answer, *generation.samples)


class Fault:
    """Raises `error` in the model's forward pass where `when(input_ids)` holds."""

    def __init__(self, model, error, when):
        self.armed = True

        def hook(_, args, kwargs):
            if self.armed and when(kwargs["input_ids"]):
                raise error

        model.register_forward_pre_hook(hook, with_kwargs=True)
