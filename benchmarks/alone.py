"""What is measured without the service: functions of a prompt, each in a process of its own.

A process that computes keeps its threads spinning for a while, so two of them in one process, or
one right after the other, slow each other. Here each side has a process, which sleeps while the
others are measured.
"""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from models.engines.protocol import EngineConfig
from models.engines.transformers import TransformersEngine
from models.records import GenerationRequest, SamplingParams

# Milliseconds of a prompt.
Measure = Callable[[str], float]
# The same of several prompts, in the other process.
Block = Callable[[Sequence[str]], list[float]]

# What the default estimators read of a generation.
_STATISTICS = frozenset(
    {"answer_token_logprobs", "answer_token_entropies", "sample_token_logprobs"}
)


@contextmanager
def in_own_process(make: Callable[..., Measure], *arguments: Any) -> Iterator[Block]:
    """What `make(*arguments)` measures, made and called in a process of its own."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, make, arguments), daemon=True)
    process.start()
    there.close()  # so that its end is told here
    here.recv()  # it is made

    def block(prompts: Sequence[str]) -> list[float]:
        here.send(list(prompts))
        measured: list[float] = here.recv()
        return measured

    try:
        yield block
    finally:
        process.terminate()
        process.join()


def _serve(there: Connection, make: Callable[..., Measure], arguments: tuple[Any, ...]) -> None:
    measure = make(*arguments)
    there.send(None)
    with suppress(EOFError):  # the benchmark ended
        while True:
            there.send([measure(prompt) for prompt in there.recv()])


def greedy_generate(
    path: str,
    max_new_tokens: int,
    threads: int,
    num_samples: int = 0,
    dtype: str = "float32",
    clock: Callable[[], float] = time.perf_counter,
) -> Measure:
    """Hugging Face's greedy `generate`; `num_samples` > 0 adds a call that draws."""
    torch.set_num_threads(threads)
    tokenizer = AutoTokenizer.from_pretrained(path)
    model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=getattr(torch, dtype)).eval()
    options = {"max_new_tokens": max_new_tokens, "pad_token_id": tokenizer.pad_token_id or 0}

    def measure(prompt: str) -> float:
        inputs = tokenizer(prompt, return_tensors="pt", return_token_type_ids=False)
        began_at = clock()
        model.generate(**inputs, **options, do_sample=False)
        if num_samples:
            drawn = {"do_sample": True, "num_return_sequences": num_samples, "top_k": 50}
            model.generate(**inputs, **options, **drawn)
        return 1000 * (clock() - began_at)

    return measure


def engine_alone(
    model: str,
    max_new_tokens: int,
    threads: int,
    num_samples: int,
    dtype: str = "float32",
    clock: Callable[[], float] = time.perf_counter,
) -> Measure:
    """The engine in a tight loop: prompt to texts and statistics."""
    torch.set_num_threads(threads)
    engine = TransformersEngine.load(EngineConfig(model=model, dtype=dtype))

    def measure(prompt: str) -> float:
        began_at = clock()
        job = engine.prepare(_request_of(prompt, max_new_tokens, num_samples))
        report = engine.step([job])
        while not report.finished:
            report = engine.step([])
        engine.generation(job)
        return 1000 * (clock() - began_at)

    return measure


def save_endless_model(path: str, folder: str) -> None:
    """Write a model shaped as that at `path`, of random weights; nothing ends its sequences."""
    tokenizer = AutoTokenizer.from_pretrained(path)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(path))
    model.config.eos_token_id = model.generation_config.eos_token_id = None
    model.save_pretrained(folder)
    tokenizer.eos_token = None
    tokenizer.save_pretrained(folder)


def _request_of(prompt: str, max_new_tokens: int, num_samples: int) -> GenerationRequest:
    sampling = SamplingParams(num_samples=num_samples, max_new_tokens=max_new_tokens, seed=1)
    return GenerationRequest(prompt, sampling=sampling, statistics=_STATISTICS)
