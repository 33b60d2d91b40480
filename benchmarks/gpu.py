r"""A language model of a billion parameters or eight on one GPU: Light and full beside greedy.

    python benchmarks/gpu.py --shape 1b
    python benchmarks/gpu.py --shape 8b

Weights are random and in bfloat16, so any answer is as long as it may be: prompts of 512 tokens,
128 new ones. The engine runs in this process behind its worker, as in the service; what is asked
at once decodes in one batch. With `--vllm-url` a vLLM server with the plugin is asked the same:
greedy, Light, and full as greedy and M samples at once.

    python benchmarks/gpu.py --shape 8b --save FOLDER
    VLLM_USE_V2_MODEL_RUNNER=0 vllm serve FOLDER --generation-config vllm \
      --gpu-memory-utilization 0.5 --additional-config '{"cocoa": {"layer": 16}}'
    python benchmarks/gpu.py --shape 8b --vllm-url http://localhost:8000

Further rows: a forward pass of one row and of eleven, the similarity model of roberta-large's shape
on 20 pairs, and the peak of the GPU's memory. `--shape tiny --device cpu` tries the program.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Annotated, Any

import httpx
import torch
import typer
from report import Figure, figure_records, figures_table, machine, publish
from transformers import (
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    RobertaConfig,
    RobertaForSequenceClassification,
)

from models.embedded import LANGUAGE_MODEL_DIR
from models.engines.protocol import EngineConfig
from models.engines.transformers import TransformersEngine
from models.records import GenerationRequest, SamplingParams
from workers.generation import GenerationWorker

M = 10
_RESULTS = Path(__file__).parent / "results" / "gpu.json"
_ATTENTION = {"num_key_value_heads": 8, "max_position_embeddings": 8192}
SHAPES: dict[str, dict[str, int]] = {
    # As Llama 3.2 1B and Llama 3.1 8B.
    "1b": _ATTENTION
    | {
        "vocab_size": 128_256,
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
    },
    "8b": _ATTENTION
    | {
        "vocab_size": 128_256,
        "hidden_size": 4096,
        "intermediate_size": 14_336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
    },
    "tiny": {
        "vocab_size": 4096,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "max_position_embeddings": 1024,
    },
}
# What each mode asks for: samples, and hidden states in the middle of the model.
MODES = {"greedy": (0, False), "light": (0, True), "full": (M, False)}

# Answers one request in a mode; the number makes its prompt another one than those before.
Answer = Callable[[str, int], Awaitable[None]]


def main(
    shape: Annotated[str, typer.Option(help=f"One of {', '.join(SHAPES)}.")] = "1b",
    device: Annotated[str, typer.Option(help="Where the model is.")] = "cuda",
    prompt_tokens: Annotated[int, typer.Option(min=2)] = 512,
    new_tokens: Annotated[int, typer.Option(min=2)] = 128,
    concurrency: Annotated[str, typer.Option(help="Requests at once.")] = "1,8,32",
    rounds: Annotated[int, typer.Option(min=1, help="Times that each is measured.")] = 3,
    vllm_url: Annotated[str | None, typer.Option(help="vLLM with the same model.")] = None,
    save: Annotated[Path | None, typer.Option(help="Only write the model there.")] = None,
    json_path: Annotated[Path, typer.Option("--json", help="Where the report goes.")] = _RESULTS,
) -> None:
    """Measure, print each figure as it is known and a table at the end, write JSON.

    The exit code is 0 whatever the figures.
    """
    model, tokenizer = language_model(shape, device)
    if save is not None:
        model.save_pretrained(save)
        tokenizer.save_pretrained(save)
        return
    counts = [int(count) for count in concurrency.split(",")]
    figures: list[Figure] = []
    if vllm_url is None:
        figures += asyncio.run(
            _in_process(model, tokenizer, prompt_tokens, new_tokens, counts, rounds)
        )
        figures += forward_passes(model, prompt_tokens)
        figures.append(similarity(shape, device))
        if torch.cuda.is_available():
            peak = torch.cuda.max_memory_allocated() / 2**30
            figures.append(Figure("peak of allocated memory", peak, "GiB"))
    else:
        del model  # the memory is vLLM's
        figures += asyncio.run(_vllm(vllm_url, prompt_tokens, new_tokens, counts, rounds))
    report = {"machine": machine(1), "shape": shape, "figures": figure_records(figures)}
    title = f"{shape} on {machine(1)['cuda'] or device}"
    publish([figures_table(title, figures)], report, json_path)


def language_model(shape: str, device: str) -> tuple[Any, Any]:
    """A model of the shape with random weights, and a tokenizer; nothing ends its sequences."""
    tokenizer = AutoTokenizer.from_pretrained(LANGUAGE_MODEL_DIR)
    tokenizer.eos_token = None
    torch.manual_seed(0)
    config = LlamaConfig(**SHAPES[shape], bos_token_id=None, eos_token_id=None)
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = LlamaForCausalLM(config).eval()
    torch.set_default_dtype(dtype)
    model.generation_config.eos_token_id = None
    return model, tokenizer


async def _in_process(
    model: Any,
    tokenizer: Any,
    prompt_tokens: int,
    new_tokens: int,
    counts: list[int],
    rounds: int,
) -> list[Figure]:
    config = EngineConfig(max_rows=(M + 1) * max(counts), max_cache_tokens=2**20)
    engine = TransformersEngine(model, tokenizer, config, model_id="random", revision="1")
    worker = GenerationWorker(engine)
    loop = asyncio.create_task(worker.run())

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

    figures = await _measured("engine", answer, counts, rounds)
    await worker.close()
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)
    return figures


async def _vllm(
    url: str, prompt_tokens: int, new_tokens: int, counts: list[int], rounds: int
) -> list[Figure]:
    async with httpx.AsyncClient(base_url=url, timeout=600) as client:
        models = (await client.get("/v1/models")).raise_for_status().json()

        async def complete(number: int, **fields: Any) -> None:
            ids = [Random(number).randrange(1000, 4000) for _ in range(prompt_tokens)]
            body = {"model": models["data"][0]["id"], "prompt": ids, "max_tokens": new_tokens}
            response = await client.post("/v1/completions", json=body | {"logprobs": 1} | fields)
            response.raise_for_status()

        async def answer(mode: str, number: int) -> None:
            # Light's columns: the entropy's, and of no probe any.
            xargs = {"cocoa": "light" if mode == "light" else "entropy"}
            calls = [complete(number, temperature=0, vllm_xargs=xargs)]
            if mode == "full":
                calls.append(complete(number, temperature=1, top_k=50, n=M, seed=number))
            await asyncio.gather(*calls)

        return await _measured("vLLM", answer, counts, rounds)


async def _measured(side: str, answer: Answer, counts: list[int], rounds: int) -> list[Figure]:
    """Seconds until all of so many requests are answered, by mode, and their ratios to greedy."""
    number, figures = 0, []
    for count in counts:
        seconds: dict[str, list[float]] = {mode: [] for mode in MODES}
        for turn in range(rounds + 1):
            for mode, values in seconds.items():
                numbers = range(number, number + count)
                number += count
                began_at = time.perf_counter()
                await asyncio.gather(*(answer(mode, one) for one in numbers))
                if turn:  # the first round warms up
                    values.append(time.perf_counter() - began_at)
        medians = {mode: statistics.median(values) for mode, values in seconds.items()}
        of = f"{side}, {count} at once"
        found = [Figure(f"{of}: greedy", medians["greedy"], "s")]
        for mode in ("light", "full"):
            found.append(Figure(f"{of}: {mode} / greedy", medians[mode] / medians["greedy"], "x"))
        for figure in found:
            print(f"{figure.name} {figure.value:.4g} {figure.unit}", flush=True)
        figures += found
    return figures


@torch.inference_mode()
def forward_passes(model: Any, prompt_tokens: int, repetitions: int = 30) -> list[Figure]:
    """Milliseconds of one decoding step's pass with one row, and with eleven of one prompt."""
    from models.engines.rows import RowCache

    figures = []
    for num_rows in (1, M + 1):
        cache = RowCache(model)
        cache.recompose([], cache.prefill([[7] * prompt_tokens]))
        cache.keep(num_rows * [0])
        times = []
        for _ in range(repetitions):
            began_at = time.perf_counter()
            cache.forward(list(range(num_rows)))
            cache.logits.sum().item()  # waits for the device
            times.append(1000 * (time.perf_counter() - began_at))
        name = f"forward pass, {num_rows} rows after {prompt_tokens} tokens"
        figures.append(Figure(name, statistics.median(times), "ms"))
    return figures


@torch.inference_mode()
def similarity(shape: str, device: str, pairs: int = 20, tokens: int = 64) -> Figure:
    """Milliseconds of 20 pairs by a model of roberta-large's shape in bfloat16."""
    sizes = {"hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16}
    layers = 2 if shape == "tiny" else 24
    config = RobertaConfig(**sizes, num_hidden_layers=layers, vocab_size=50_265, num_labels=1)
    model = RobertaForSequenceClassification(config).to(device, torch.bfloat16).eval()
    ids = torch.randint(10, 50_000, (pairs, tokens), device=device)
    times = []
    for _ in range(10):
        began_at = time.perf_counter()
        model(input_ids=ids).logits.sum().item()
        times.append(1000 * (time.perf_counter() - began_at))
    return Figure(f"similarity, {pairs} pairs of {tokens} tokens", statistics.median(times), "ms")


def _words(number: int, count: int) -> list[str]:
    """Words of one token each, nearly all; other ones for another number."""
    random = Random(number)
    return [random.choice(("the", "of", "is", "and", "in", "a")) for _ in range(count - 1)]


if __name__ == "__main__":
    typer.run(main)
