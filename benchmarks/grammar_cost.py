"""What a grammar costs a decoding step: its share of the steps of one request, in one run.

The answer and ten samples follow an invoice's schema. The figure is the processor seconds of whole
steps over those of the same steps without masking and following, so that nothing else on the
machine moves it, with the quartiles over requests.
"""

import asyncio
import time
from typing import Annotated, Any

import numpy as np
import torch
import typer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast

from models.engines import inflight
from models.engines.protocol import EngineConfig
from models.engines.transformers import TransformersEngine
from models.grammar.grammars import grammar_of
from models.records import GenerationRequest, SamplingParams
from models.statistics import supplied_by
from workers.trials import Trials

_STRING = {"type": "string", "maxLength": 24}
_LINE = {"text": _STRING, "quantity": {"type": "integer"}, "price": {"type": "number"}}


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    names = {"required": list(properties), "additionalProperties": False}
    return {"type": "object", "properties": properties} | names


_INVOICE = _closed(
    {
        "number": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4,8}$"},
        "date": {"type": "string", "format": "date"},
        "currency": {"enum": ["EUR", "USD", "CHF"]},
        "total": {"type": "number"},
        "lines": {"type": "array", "minItems": 2, "maxItems": 9, "items": _closed(_LINE)},
    }
)


def main(
    vocabulary: Annotated[int, typer.Option(help="Its size; 0 is the embedded model.")] = 0,
    hidden: Annotated[int, typer.Option(help="Width of another model.")] = 512,
    layers: Annotated[int, typer.Option(help="Its layers.")] = 4,
    requests: Annotated[int, typer.Option(min=2)] = 12,
    tokens: Annotated[int, typer.Option(min=1, help="Of each text, at most.")] = 96,
) -> None:
    """Print a step's processor milliseconds without and with the grammar, and their ratio."""
    torch.set_num_threads(1)
    engine = TransformersEngine.load(EngineConfig())
    if vocabulary:
        engine = _engine(vocabulary, hidden, layers)
    tried_s = asyncio.run(_tried(engine))
    typer.echo(f"new schemas were tried in {np.median(tried_s) * 1000:.0f} ms")
    spent = _watched()
    grammar = grammar_of(_INVOICE)
    began = time.thread_time()
    engine.compile(grammar)
    typer.echo(f"compiled in {(time.thread_time() - began) * 1000:.0f} ms, tokenizer included")
    free, held = [], []
    for seed in range(requests):
        request = GenerationRequest(
            "An invoice:",
            sampling=SamplingParams(num_samples=10, max_new_tokens=tokens, seed=seed),
            statistics=supplied_by("answer", "samples"),
            grammar=grammar,
        )
        spent[0], incoming, num_steps = 0.0, [engine.prepare(request)], 0
        began = time.thread_time()
        while incoming or not engine.is_idle:
            engine.step(incoming)
            incoming, num_steps = [], num_steps + 1
        whole = (time.thread_time() - began) * 1000 / num_steps
        if seed:  # the first one warms up
            held.append(whole)
            free.append(whole - spent[0] * 1000 / num_steps)
    ratios = np.array(held) / np.array(free)
    low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75))
    typer.echo(
        f"{np.median(free):.2f} ms without, {np.median(held):.2f} ms with: "
        f"ratio {middle:.3f} [{low:.3f}, {high:.3f}]"
    )


async def _tried(engine: TransformersEngine) -> list[float]:
    """Wall seconds of trials of schemas, each a new one."""
    trials, seconds = Trials(engine.vocabulary, str), list[float]()
    for number in range(31):
        schema = _closed({**_INVOICE["properties"], "currency": {"enum": ["EUR", f"C{number}"]}})
        source = engine.grammar_source(grammar_of(schema))
        began = time.perf_counter()
        await trials.check(source)
        seconds.append(time.perf_counter() - began)
    trials.close()
    return seconds[1:]  # the first one waits for the process


def _watched() -> list[float]:
    """Processor seconds of masking and following from now on, which whoever reads it may reset."""
    spent = [0.0]
    for name in ("mask", "follow"):
        own = getattr(inflight, name)

        def timed(*args: Any, own: Any = own) -> Any:
            began = time.thread_time()
            result = own(*args)
            spent[0] += time.thread_time() - began
            return result

        setattr(inflight, name, timed)
    return spent


def _engine(size: int, hidden: int, layers: int) -> TransformersEngine:
    """Random weights, and a made-up vocabulary of that size."""
    rng = np.random.default_rng(0)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = {"</s>": None} | dict.fromkeys(alphabet)
    letters = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
    while len(pieces) < size:
        word = "".join(rng.choice(letters, rng.integers(2, 9)))
        start = rng.choice(["", "Ġ"])
        end = rng.choice(["", '"', '",', '":'], p=[0.97, 0.01, 0.01, 0.01])
        pieces[f"{start}{word}{end}"] = None
    vocab = {piece: number for number, piece in enumerate(pieces)}
    backend = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>")
    config = LlamaConfig(
        vocab_size=size,
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        num_key_value_heads=hidden // 64,
        eos_token_id=0,
        pad_token_id=0,
        bos_token_id=0,
    )
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    return TransformersEngine(model, tokenizer, EngineConfig(), model_id="random", revision="1")


if __name__ == "__main__":
    typer.run(main)
