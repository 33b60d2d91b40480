"""Peak memory of a generation: it does not grow with vocabulary times steps, as kept logits would.

For each vocabulary and number of steps a fresh process makes a small Llama with random weights and
no EOS, generates once briefly, and then measures how far memory rises above that while it generates
a greedy answer and 10 samples with every statistic. The same is measured of Hugging Face's
`generate(output_logits=True)` with as many rows, which keeps all logits.

On a CPU the peak is the kernel's of the resident set (VmHWM), reset just before: `ru_maxrss` cannot
be reset, and starts from the parent process's.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import product
from multiprocessing import get_context
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from report import Figure, Values, reporting
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from models.engines.protocol import EngineConfig
from models.engines.transformers import TransformersEngine
from models.records import GenerationRequest, SamplingParams
from workers.generation import GenerationWorker

ROWS = 11
PROMPT = "w1 w2 w3 w4 w5 w6 w7 w8"
STEPS = (32, 256)
VOCABULARIES = (4096, 32_768, 131_072, 262_144)
MIB = 2**20
# Of the bytes of the logits of all steps. Not 0, because allocators keep pages.
MAX_SHARE = 0.02
_STATUS, _CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")

Generate = Callable[[int], None]  # generates this many tokens in every row
Make = Callable[[int], AbstractContextManager[Generate]]  # for a vocabulary of this size


@dataclass(frozen=True, slots=True)
class Growth:
    """Bytes by which memory rises during one generation, at its peak."""

    vocabulary: int
    steps: int
    service: int
    keeping_logits: int


def main(
    quick: Annotated[
        bool, typer.Option("--quick", help="Leave out the largest vocabulary.")
    ] = False,
    threads: Annotated[int, typer.Option(min=1, help="Threads of torch.")] = 2,
) -> None:
    """Measure, print and store; the exit code is 0 whatever the figures."""
    growths: list[Growth] = []
    with reporting("memory", cores=threads) as report:
        for vocabulary, steps in product(VOCABULARIES[:-1] if quick else VOCABULARIES, STEPS):

            def measure(number: int, sizes: tuple[int, int] = (vocabulary, steps)) -> Values:
                found = {"service": engine, "generate(output_logits)": keeps_logits}
                return {name: measured_apart(make, *sizes, threads) for name, make in found.items()}

            part = f"vocabulary {vocabulary}, {steps} steps"
            [sizes] = report.measure(part, 1, partial(nullcontext, measure), _mebibytes)
            growths.append(Growth(vocabulary, steps, *map(int, sizes.values())))
    for one in _figures(growths):
        typer.echo(one)


def _mebibytes(rounds: Sequence[Values]) -> list[Figure]:
    return [Figure(name, size / MIB, "MiB") for name, size in rounds[0].items()]


def measured_apart(make: Make, vocabulary: int, steps: int, threads: int) -> int:
    """`growth` in a process of its own, which has no freed memory of earlier ones to reuse."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(growth, make, vocabulary, steps, threads).result()


def growth(make: Make, vocabulary: int, steps: int, threads: int) -> int:
    """Bytes by which memory rises while a warmed-up process generates `steps` tokens a row."""
    torch.set_num_threads(threads)
    with make(vocabulary) as generate:
        generate(4)  # warm up
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            generate(steps)
            return torch.cuda.max_memory_allocated() - before
        _CLEAR_REFS.write_text("5")  # sets the peak to the current resident set
        before = _status_bytes("VmRSS")
        generate(steps)
        return _status_bytes("VmHWM") - before


@contextmanager
def engine(vocabulary: int) -> Iterator[Generate]:
    """The service's engine, asked for every statistic."""
    model, tokenizer = _model(vocabulary), _tokenizer(vocabulary)
    config = EngineConfig()
    made = TransformersEngine(model, tokenizer, config, model_id="random", revision="random")
    with asyncio.Runner() as runner:
        worker = GenerationWorker(made)
        loop = runner.get_loop().create_task(worker.run())

        def generate(steps: int) -> None:
            sampling = SamplingParams(num_samples=ROWS - 1, max_new_tokens=steps, seed=0)
            statistics = made.info.statistics
            request = GenerationRequest(PROMPT, sampling=sampling, statistics=statistics)
            generation = runner.run(worker.generate(request))
            rows = (generation.answer, *generation.samples)
            if loop.done() or any(row.num_tokens != steps for row in rows):
                raise RuntimeError("a row ended early")

        yield generate
        runner.run(worker.close())


@contextmanager
def keeps_logits(vocabulary: int) -> Iterator[Generate]:
    """Hugging Face's `generate` with as many rows, which returns the logits of every step."""
    model = _model(vocabulary)
    tokenizer = _tokenizer(vocabulary)
    inputs = tokenizer(PROMPT, return_tensors="pt", return_token_type_ids=False).to(model.device)

    def generate(steps: int) -> None:
        output: Any = model.generate(
            **inputs,
            do_sample=True,
            num_return_sequences=ROWS,
            max_new_tokens=steps,
            output_logits=True,
            return_dict_in_generate=True,
            pad_token_id=0,
        )
        if len(output.logits) != steps:
            raise RuntimeError("the rows ended early")

    yield generate


def _model(vocabulary: int) -> PreTrainedModel:
    """Two narrow layers, so that the vocabulary dominates memory."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
    )
    return LlamaForCausalLM(config).eval().to("cuda" if torch.cuda.is_available() else "cpu")


def _tokenizer(vocabulary: int) -> PreTrainedTokenizerFast:
    backend = Tokenizer(WordLevel({f"w{i}": i for i in range(vocabulary)}, unk_token="w0"))
    backend.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=backend)


def _status_bytes(name: str) -> int:
    lines = _STATUS.read_text("utf-8").splitlines()
    line = next(line for line in lines if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024  # "VmRSS:   1234 kB"


def _figures(growths: list[Growth]) -> list[Figure]:
    """Bytes added by a larger vocabulary and more steps together, as a share of the logits'.

    Every vocabulary is compared with the smallest, so that what grows with steps alone cancels out.
    """
    few, many = STEPS
    served, kept = attrgetter("service"), attrgetter("keeping_logits")
    by_size = {(growth.vocabulary, growth.steps): growth for growth in growths}
    smallest, *others = dict.fromkeys(growth.vocabulary for growth in growths)

    def rise(vocabulary: int, size: Callable[[Growth], int]) -> int:
        return size(by_size[vocabulary, many]) - size(by_size[vocabulary, few])

    figures = []
    for vocabulary in others:
        sizes = f"vocabulary {smallest} to {vocabulary}, {few} to {many} steps"
        logits = ROWS * (many - few) * (vocabulary - smallest) * 4  # of every step, in float32
        service = rise(vocabulary, served) - rise(smallest, served)
        keeping_logits = rise(vocabulary, kept) - rise(smallest, kept)
        figures.append(Figure(f"service, {sizes}", service / logits, "", MAX_SHARE))
        figures.append(Figure(f"output_logits, {sizes}", keeping_logits / logits, ""))
    return figures


if __name__ == "__main__":
    typer.run(main)
