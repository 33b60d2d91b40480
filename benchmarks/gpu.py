r"""A language model of a billion parameters or eight on one GPU: Light and full beside greedy.

    python benchmarks/gpu.py --shape 1b
    python benchmarks/gpu.py --shape 8b

Weights are random and in bfloat16, so any answer is as long as it may be: prompts of 512 tokens,
128 new ones. The engine runs in this process behind its worker, as in the service; what is asked
at once decodes in one batch. With `--vllm-url` a vLLM server with the plugin is asked the same:
greedy, Light with a probe of random weights, and full as greedy and M samples at once; greedy and
full also without the plugin's columns.

    python benchmarks/gpu.py --shape 8b --save FOLDER
    VLLM_USE_V2_MODEL_RUNNER=0 vllm serve FOLDER --generation-config vllm \
      --additional-config '{"cocoa": {"probes": ["FOLDER/probe"]}}'
    python benchmarks/gpu.py --shape 8b --vllm-url http://localhost:8000

It ends within ten minutes; the same command goes on where it stopped. `--shape tiny --device cpu`
tries the program.
"""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Annotated, Any

import httpx
import torch
import typer
from report import Figure, Round, Values, figure, in_turn, ratio, reporting
from safetensors.torch import load_file, save_file
from transformers import (
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    RobertaConfig,
    RobertaForSequenceClassification,
)

from models.embedded import LANGUAGE_MODEL_DIR, PROBES_DIR
from models.engines.protocol import EngineConfig
from models.engines.rows import RowCache
from models.engines.transformers import TransformersEngine
from models.probes.probe import CARD, WEIGHTS
from models.records import GenerationRequest, SamplingParams
from models.threads import ModelThread
from workers.generation import GenerationWorker

M = 10
# Top log-probs that hold the columns of Light with one probe.
NUM_COLUMNS = 4
_SIZES = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
)
# As Llama 3.2 1B and Llama 3.1 8B, and one to try the program with.
SHAPES = {
    "1b": (128_256, 2048, 8192, 16, 32, 8),
    "8b": (128_256, 4096, 14_336, 32, 32, 8),
    "tiny": (4096, 128, 256, 4, 4, 2),
}
# What each mode asks for: samples, and hidden states in the middle of the model.
MODES = {"greedy": (0, False), "light": (0, True), "full": (M, False)}
# The same of vLLM: samples, and the plugin's columns; and without any.
VLLM_MODES = {
    "greedy": (0, "entropy"),
    "light": (0, "light"),
    "full": (M, "entropy"),
    "bare greedy": (0, None),
    "bare full": (M, None),
}
# What is compared, the first by the second.
RATIOS = [("light", "greedy"), ("full", "greedy")]
VLLM_RATIOS = [*RATIOS, ("greedy", "bare greedy"), ("full", "bare full")]

# Answers one request in a mode; the number makes its prompt another one than those before.
Answer = Callable[[str, int], Awaitable[None]]


def main(
    shape: Annotated[str, typer.Option(help=f"One of {', '.join(SHAPES)}.")] = "1b",
    device: Annotated[str, typer.Option(help="Where the model is.")] = "cuda",
    prompt_tokens: Annotated[int, typer.Option(min=2)] = 512,
    new_tokens: Annotated[int, typer.Option(min=2)] = 128,
    concurrency: Annotated[str, typer.Option(help="Requests at once.")] = "1,8,32",
    rounds: Annotated[int, typer.Option(min=1, help="Times that each is measured.")] = 3,
    minutes: Annotated[float, typer.Option(help="It ends after these.")] = 10.0,
    vllm_url: Annotated[str | None, typer.Option(help="vLLM with the same model.")] = None,
    save: Annotated[Path | None, typer.Option(help="Only write the model there.")] = None,
) -> None:
    """Measure, print and store each figure as it is known; the exit code is 0 whatever they are."""
    loaded = cache(partial(language_model, shape, device))
    if save is not None:
        model, tokenizer = loaded()
        model.save_pretrained(save)
        tokenizer.save_pretrained(save)
        save_probe(save / "probe", model.config)
        return
    counts = [int(count) for count in concurrency.split(",")]
    tokens = prompt_tokens, new_tokens
    side, ratios = ("engine", RATIOS) if vllm_url is None else ("vLLM", VLLM_RATIOS)

    def start(count: int) -> AbstractContextManager[Round]:
        if vllm_url is not None:
            return vllm(vllm_url, *tokens, count)
        return in_process(*loaded(), *tokens, count)

    settings = {"shape": shape, "device": device, "tokens": tokens, "side": side}
    with reporting("gpu", minutes, len(os.sched_getaffinity(0)), **settings) as report:
        for count in counts:
            of = f"{side}, {count} at once"
            report.measure(of, rounds, partial(start, count), partial(_figures, of, ratios))
        if vllm_url is None:
            passes = partial(forward_passes, loaded, prompt_tokens)
            report.measure("forward passes", rounds, passes, _each_ms)
            report.measure("similarity", rounds, partial(similarity, shape, device), _each_ms)


def language_model(shape: str, device: str) -> tuple[Any, Any]:
    """A model of the shape with random weights, and a tokenizer; nothing ends its sequences."""
    tokenizer = AutoTokenizer.from_pretrained(LANGUAGE_MODEL_DIR)
    tokenizer.eos_token = None
    torch.manual_seed(0)
    sizes = dict(zip(_SIZES, SHAPES[shape], strict=True)) | {"max_position_embeddings": 8192}
    config = LlamaConfig(**sizes, bos_token_id=None, eos_token_id=None)
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = LlamaForCausalLM(config).eval()
    torch.set_default_dtype(dtype)
    model.generation_config.eos_token_id = None
    return model, tokenizer


def save_probe(folder: Path, config: Any) -> None:
    """A probe of random weights, as large as the embedded one, that reads the middle layer."""
    source = PROBES_DIR / "inconsistency"
    card, weights = json.loads((source / CARD).read_bytes()), load_file(source / WEIGHTS)
    learned, size = card["dimension"], config.hidden_size
    sized = {}
    for name, tensor in weights.items():
        shape = list(tensor.shape)
        if shape and shape[-1] == learned + len(card["token_features"]):
            shape[-1] += size - learned
            tensor = torch.rand(shape)
        sized[name] = tensor
    folder.mkdir(parents=True, exist_ok=True)
    save_file(sized, folder / WEIGHTS)
    card["sha256"] = sha256((folder / WEIGHTS).read_bytes()).hexdigest()
    middle = config.num_hidden_layers // 2
    card |= {"revision": "", "dimension": size, "layer": middle}
    (folder / CARD).write_text(json.dumps(card))


@contextmanager
def in_process(
    model: Any, tokenizer: Any, prompt_tokens: int, new_tokens: int, count: int
) -> Iterator[Round]:
    """Requests to the engine behind its worker."""
    config = EngineConfig(max_rows=(M + 1) * count, max_cache_tokens=2**20)
    thread = ModelThread("generation")
    load = partial(TransformersEngine, model_id="random", revision="1")
    engine = thread.submit(load, model, tokenizer, config).result()
    worker = GenerationWorker(engine, model_thread=thread)

    async def answer(mode: str, number: int) -> None:
        num_samples, is_light = MODES[mode]
        names = {"answer_token_logprobs", "answer_token_entropies", "sample_token_logprobs"}
        request = GenerationRequest(
            " ".join(_words(number, prompt_tokens)),
            sampling=SamplingParams(num_samples, new_tokens, seed=number),
            statistics=frozenset(names),
            hidden_layers=(model.config.num_hidden_layers // 2,) if is_light else (),
        )
        await worker.generate(request)

    with asyncio.Runner() as runner:
        loop = runner.get_loop().create_task(worker.run())
        yield _together(runner, MODES, answer, count)
        runner.run(worker.close())
        loop.cancel()


@contextmanager
def vllm(url: str, prompt_tokens: int, new_tokens: int, count: int) -> Iterator[Round]:
    """Requests to a vLLM server."""
    client = httpx.AsyncClient(base_url=url, timeout=600)
    models = httpx.get(f"{url}/v1/models").raise_for_status().json()

    async def complete(number: int, **fields: Any) -> None:
        ids = [Random(number).randrange(1000, 4000) for _ in range(prompt_tokens)]
        body = {"model": models["data"][0]["id"], "prompt": ids, "max_tokens": new_tokens}
        body |= {"logprobs": NUM_COLUMNS, "ignore_eos": True}
        response = await client.post("/v1/completions", json=body | fields)
        response.raise_for_status()

    async def answer(mode: str, number: int) -> None:
        num_samples, columns = VLLM_MODES[mode]
        xargs = {} if columns is None else {"vllm_xargs": {"cocoa": columns}}
        calls = [complete(number, temperature=0, **xargs)]
        if num_samples:
            law = {"temperature": 1, "top_k": 50, "n": num_samples, "seed": number}
            calls.append(complete(number, logprobs=0, **law))
        await asyncio.gather(*calls)

    with asyncio.Runner() as runner:
        yield _together(runner, VLLM_MODES, answer, count)
        runner.run(client.aclose())


def _together(runner: asyncio.Runner, modes: Iterable[str], answer: Answer, count: int) -> Round:
    """Seconds until all of so many requests are answered, by mode; a first round warms up."""
    number = 0

    async def all_answered(mode: str, first: int) -> float:
        began_at = time.perf_counter()
        await asyncio.gather(*(answer(mode, first + i) for i in range(count)))
        return time.perf_counter() - began_at

    def side(mode: str) -> float:
        nonlocal number
        number += count
        took = runner.run(all_answered(mode, number))
        print(f"  {mode}, {count} at once: {took:.2f} s", flush=True)
        return took

    sides = {mode: partial(side, mode) for mode in modes}
    in_turn(sides, 0, rest_s=0)
    return partial(in_turn, sides, rest_s=0)


def _figures(of: str, ratios: Sequence[tuple[str, str]], rounds: Sequence[Values]) -> list[Figure]:
    figures = []
    for mode, other in ratios:
        figures.append(ratio(rounds, mode, other, name=f"{of}: {mode} / {other}"))
    figures.append(figure(f"{of}: greedy", [values["greedy"] for values in rounds], "s"))
    if torch.cuda.is_available():
        peak = torch.cuda.max_memory_allocated() / 2**30
        figures.append(Figure("peak of allocated memory so far", peak, "GiB"))
    return figures


@contextmanager
def forward_passes(
    loaded: Callable[[], tuple[Any, Any]], prompt_tokens: int, repetitions: int = 30
) -> Iterator[Round]:
    """Milliseconds of one decoding step's pass with one row, and with eleven of one prompt."""
    rows = RowCache(loaded()[0])

    def ms(num_rows: int) -> float:
        rows.clear()
        rows.join(rows.prefill([[7] * prompt_tokens]) * num_rows)
        began_at = time.perf_counter()
        for _ in range(repetitions):
            rows.forward(list(range(num_rows)))
            rows.logits.sum().item()  # waits for the device
        return 1000 * (time.perf_counter() - began_at) / repetitions

    with torch.inference_mode():
        sides = {f"forward pass, {rows} rows": partial(ms, rows) for rows in (1, M + 1)}
        yield partial(in_turn, sides, rest_s=0)


@contextmanager
def similarity(shape: str, device: str, pairs: int = 20, tokens: int = 64) -> Iterator[Round]:
    """Milliseconds of 20 pairs by a model of roberta-large's shape in bfloat16."""
    sizes = {"hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16}
    layers = 2 if shape == "tiny" else 24
    config = RobertaConfig(**sizes, num_hidden_layers=layers, vocab_size=50_265, num_labels=1)
    model = RobertaForSequenceClassification(config).to(device, torch.bfloat16).eval()
    ids = torch.randint(10, 50_000, (pairs, tokens), device=device)

    def measure(number: int) -> Values:
        began_at = time.perf_counter()
        model(input_ids=ids).logits.sum().item()
        name = f"similarity, {pairs} pairs of {tokens} tokens"
        return {name: 1000 * (time.perf_counter() - began_at)}

    with torch.inference_mode():
        measure(0)
        yield measure


def _each_ms(rounds: Sequence[Values]) -> list[Figure]:
    return [figure(name, [values[name] for values in rounds], "ms") for name in rounds[0]]


def _words(number: int, count: int) -> list[str]:
    """Words of one token each, nearly all; other ones for another number."""
    random = Random(number)
    return [random.choice(("the", "of", "is", "and", "in", "a")) for _ in range(count - 1)]


if __name__ == "__main__":
    typer.run(main)
