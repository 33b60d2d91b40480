"""Peak memory of a generation, which does not grow with vocabulary times steps.

It would if logits were kept.

For each vocabulary and number of steps a fresh process makes a small Llama with random weights and
no EOS, generates once briefly, and then measures how far memory rises above that while it generates
a greedy answer and 10 samples with every statistic. Beside it stands Hugging Face's
`generate(output_logits=True)` with as many rows, which does keep them.

On a GPU the peak is `torch.cuda.max_memory_allocated`; on a CPU it is the kernel's own peak of the
resident set, reset just before: `ru_maxrss` cannot be reset, and starts from that of the parent
process.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from report import Figure, figure_records, figures_table, machine, publish
from rich.table import Table
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from models.engines.protocol import EngineConfig
from models.engines.transformers import TransformersEngine
from models.records import GenerationRequest, SamplingParams

ROWS = 11
PROMPT = "w1 w2 w3 w4 w5 w6 w7 w8"
STEPS = (32, 256)
VOCABULARIES = (4096, 32_768, 131_072)
MIB = 2**20
# Of the bytes that logits of all steps add with vocabulary x steps. Not 0: allocators keep pages.
MAX_SHARE = 0.02
_RESULTS = Path(__file__).parent / "results" / "memory.json"
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
    json_path: Annotated[Path, typer.Option("--json", help="Where the report goes.")] = _RESULTS,
) -> None:
    """Measure, print a table, write JSON; the exit code is 0 whatever the figures."""
    growths = [
        Growth(
            vocabulary,
            steps,
            *(measured_apart(make, vocabulary, steps, threads) for make in (engine, keeps_logits)),
        )
        for vocabulary in (VOCABULARIES[:-1] if quick else VOCABULARIES)
        for steps in STEPS
    ]
    figures = _figures(growths)
    report = {
        "machine": machine(threads),
        "rows": ROWS,
        "growths_bytes": [asdict(growth) | {"logits": _logits_bytes(growth)} for growth in growths],
        "figures": figure_records(figures),
    }
    title = "Bytes that grow with vocabulary x steps, as a share of the logits'"
    publish([_growth_table(growths), figures_table(title, figures)], report, json_path)


def measured_apart(make: Make, vocabulary: int, steps: int, threads: int) -> int:
    """`growth` in a process of its own, so that nothing which another one freed is reused."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(growth, make, vocabulary, steps, threads).result()


def growth(make: Make, vocabulary: int, steps: int, threads: int) -> int:
    """Bytes by which memory rises while `steps` tokens are generated in every row.

    They count from the level of a warmed-up process.
    """
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
    served = TransformersEngine(
        _model(vocabulary), _tokenizer(vocabulary), EngineConfig(), model_id="random"
    )
    with asyncio.Runner() as runner:
        loop = runner.get_loop().create_task(served.run())

        def generate(steps: int) -> None:
            sampling = SamplingParams(num_samples=ROWS - 1, max_new_tokens=steps, seed=0)
            request = GenerationRequest(PROMPT, sampling=sampling, statistics=served.statistics)
            generation = runner.run(served.generate(request))
            if {len(row.token_ids) for row in (generation.answer, *generation.samples)} != {
                steps
            } or loop.done():
                raise RuntimeError("a row ended early")

        yield generate
        runner.run(served.close())


@contextmanager
def keeps_logits(vocabulary: int) -> Iterator[Generate]:
    """Hugging Face's `generate` with as many rows, which returns the logits of every step."""
    model = _model(vocabulary)
    inputs = _tokenizer(vocabulary)(PROMPT, return_tensors="pt", return_token_type_ids=False).to(
        model.device
    )

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
    """Two narrow layers, so that the vocabulary is what costs."""
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
    line = next(
        line for line in _STATUS.read_text("utf-8").splitlines() if line.startswith(f"{name}:")
    )
    return int(line.split()[1]) * 1024


def _logits_bytes(growth: Growth) -> int:
    """What the logits of every step cost in float32."""
    return ROWS * growth.steps * growth.vocabulary * 4


def _figures(growths: list[Growth]) -> list[Figure]:
    """How much more each vocabulary grows from few to many steps than the smallest one does.

    The smallest one itself is left out.
    """
    by_size = {(growth.vocabulary, growth.steps): growth for growth in growths}
    smallest, *others = dict.fromkeys(growth.vocabulary for growth in growths)

    def mixed(vocabulary: int, size: Callable[[Growth], int]) -> int:
        (few, many), (few_small, many_small) = (
            (size(by_size[v, STEPS[0]]), size(by_size[v, STEPS[1]])) for v in (vocabulary, smallest)
        )
        return (many - few) - (many_small - few_small)

    figures = []
    for vocabulary in others:
        logits = mixed(vocabulary, _logits_bytes)
        where = f"vocabulary {smallest} to {vocabulary}, {STEPS[0]} to {STEPS[1]} steps"
        figures += [
            Figure(
                f"service, {where}",
                mixed(vocabulary, lambda growth: growth.service) / logits,
                "",
                MAX_SHARE,
            ),
            Figure(
                f"output_logits, {where}",
                mixed(vocabulary, lambda growth: growth.keeping_logits) / logits,
                "",
            ),
        ]
    return figures


def _growth_table(growths: list[Growth]) -> Table:
    table = Table(
        title=f"Memory of one generation of {ROWS} rows, MiB above the loaded model",
        title_justify="left",
    )
    for column in (
        "vocabulary",
        "steps",
        "service",
        "generate(output_logits)",
        "logits of all steps",
    ):
        table.add_column(column, justify="right")
    for row in growths:
        sizes = (row.service, row.keeping_logits, _logits_bytes(row))
        table.add_row(str(row.vocabulary), str(row.steps), *(f"{size / MIB:.1f}" for size in sizes))
    return table


if __name__ == "__main__":
    typer.run(main)
