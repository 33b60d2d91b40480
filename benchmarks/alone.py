"""What is measured without the service: functions of a prompt, each in a process of its own.

A process that computes keeps its threads spinning for a while, so two of them in one process, or
one right after the other, slow each other. Here each side has a process, which sleeps while the
others are measured.
"""

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from random import Random
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from models.engines import inflight, sampling
from models.engines.protocol import EngineConfig
from models.engines.rows import RowCache
from models.engines.transformers import TransformersEngine
from models.records import GenerationRequest, SamplingParams
from models.similarity.cross_encoder import CrossEncoderModel
from models.similarity.nli import NliModel
from models.similarity.pairs import PairRules, answer_pairs
from models.similarity.protocol import NliConfig, SimilarityConfig
from models.threads import ModelThread
from models.units.sentences import sentence_spans
from workers.generation import GenerationWorker

# Milliseconds of a prompt, or of its parts by name.
Measure = Callable[[str], Any]
# The same of several prompts, in the other process.
Block = Callable[[Sequence[str]], list[Any]]

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

    def block(prompts: Sequence[str]) -> list[Any]:
        here.send(list(prompts))
        measured: list[Any] = here.recv()
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
    clock: Callable[[], float] = time.perf_counter,
) -> Measure:
    """Hugging Face's greedy `generate` in fp32; `num_samples` > 0 adds a call that draws."""
    torch.set_num_threads(threads)
    tokenizer = AutoTokenizer.from_pretrained(path)
    model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
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
    clock: Callable[[], float] = time.perf_counter,
) -> Measure:
    """The engine in a tight loop: prompt to texts and statistics."""
    torch.set_num_threads(threads)
    engine = TransformersEngine.load(EngineConfig(model=model))

    def measure(prompt: str) -> float:
        began_at = clock()
        job = engine.prepare(request_of(prompt, max_new_tokens, num_samples))
        report = engine.step([job])
        while not report.finished:
            report = engine.step([])
        engine.generation(job)
        return 1000 * (clock() - began_at)

    return measure


def sentences_alone(num_samples: int, clock: Callable[[], float] = time.perf_counter) -> Measure:
    """What the embedded pair models read for the sentences of a paragraph beside its samples."""
    torch.set_num_threads(1)
    nli = NliModel.load(NliConfig(model="embedded"))
    encoder = CrossEncoderModel.load(SimilarityConfig(model="embedded"))

    def measure(seed: str) -> float:
        random = Random(seed)
        answer, *samples = (_paragraph(random) for _ in range(1 + num_samples))
        began_at = clock()
        said = [answer[start:end] for start, end in sentence_spans(answer)]
        nli.token_ends([*said, *samples])
        nli.score([(sample, one) for sample in samples for one in said])
        encoder.score(answer_pairs(answer, samples, PairRules()))
        return 1000 * (clock() - began_at)

    return measure


def _paragraph(random: Random) -> str:
    """Eight sentences, some 150 tokens, as `embedded-long` might say them."""
    said = []
    for _ in range(4):
        place, other = random.sample(("Lima", "Callao", "Peru", "Chile", "Guinea", "Oslo"), 2)
        said.append(f"About {random.randint(2, 900)} million people live in {place}, not {other}.")
        said.append(
            f"{place} is said to lie south of {other}, and most people there speak Spanish."
        )
    return " ".join(said)


def steps_by_part(model: str, max_new_tokens: int, threads: int, num_samples: int) -> Measure:
    """Milliseconds of a request by part: forward passes, sampling, all in the loop, in a worker."""
    spent = {"forward": 0.0, "sampling": 0.0}
    # Timed where the engine calls them; this process does nothing else.
    RowCache._forward = _timed(RowCache._forward, spent, "forward")  # type: ignore[method-assign]
    inflight.next_tokens = _timed(sampling.next_tokens, spent, "sampling")  # type: ignore[attr-defined]
    alone = engine_alone(model, max_new_tokens, threads, num_samples)
    engine = TransformersEngine.load(EngineConfig(model=model))
    thread = ModelThread("generation", torch.set_num_threads, (threads,))
    worker = GenerationWorker(engine, model_thread=thread)
    loop = asyncio.new_event_loop()
    running = loop.create_task(worker.run())

    def measure(prompt: str) -> dict[str, float]:
        spent.update(forward=0.0, sampling=0.0)
        parts = {"engine": alone(prompt), **spent}
        request = request_of(prompt, max_new_tokens, num_samples)
        began_at = time.perf_counter()
        loop.run_until_complete(worker.generate(request))
        parts["worker"] = 1000 * (time.perf_counter() - began_at)
        if running.done():
            running.result()
        return parts

    return measure


def request_of(prompt: str, max_new_tokens: int, num_samples: int) -> GenerationRequest:
    """What the service asks of its engine for a prompt."""
    sampling = SamplingParams(num_samples=num_samples, max_new_tokens=max_new_tokens, seed=1)
    return GenerationRequest(prompt, sampling=sampling, statistics=_STATISTICS)


def _timed(function: Callable[..., Any], spent: dict[str, float], part: str) -> Callable[..., Any]:
    def timed(*args: Any, **kwargs: Any) -> Any:
        began_at = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            spent[part] += 1000 * (time.perf_counter() - began_at)

    return timed
