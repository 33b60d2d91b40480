"""A compiled decoding step: the same numbers, compiled at the start and never again."""

import pytest
import torch

from models.engines import lean
from models.engines.protocol import EngineConfig
from models.engines.rows import RowCache
from models.engines.transformers import TransformersEngine
from models.errors import ModelNotLoaded
from tests.tiny_models import byte_tokenizer, random_model
from workers.config import GeneratorConfig, WorkerConfig
from workers.hooks import Hooks
from workers.loading import load_generator

# Rows of one step after another: fewer, more and a number that was there before.
ROWS = [1, 2, 11, 7, 1, 3]


@pytest.fixture
def graphs(monkeypatch):
    """What was compiled, by a compiler that leaves it as it is."""
    found = []

    def backend(graph, inputs):
        found.append(graph)
        return graph.forward

    def by_backend(part, **options):
        return compile_by(part, **options | {"backend": backend})

    compile_by = torch.compile
    monkeypatch.setattr(torch, "compile", by_backend)
    return found


@torch.inference_mode()
def logits_of_changing_rows(cache):
    """Of rows that read a short prompt, that share a long one, and of both, which are padded."""
    found = []
    for prompts in ([[5] * 4], [[6] * 70], [[5] * 4, [6] * 70]):
        prefixes = [prefix for prompt in prompts for prefix in cache.prefill([prompt])]
        for num_rows in ROWS:
            cache.clear()
            cache.join((prefixes * num_rows)[:num_rows])
            for _ in range(2):
                cache.forward(list(range(num_rows)))
                found.append(cache.logits)
    return found


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_thread_that_decodes_reads_the_same_numbers_and_compiles_nothing(
    dtype, graphs, monkeypatch
):
    monkeypatch.setattr(lean, "may_pack", lambda model: False)
    threads = torch.get_num_threads() + 1
    generation = GeneratorConfig(compiler="aot_eager", dtype=dtype, threads=threads)
    worker = load_generator(WorkerConfig(generation=generation), Hooks())
    cache = worker._engine._cache
    assert len(graphs) == 4  # before and after attention, for one row and for many
    compiled = worker._model_thread.submit(logits_of_changing_rows, cache).result()
    assert len(graphs) == 4

    plain = logits_of_changing_rows(RowCache(cache.model))
    for ours, theirs in zip(compiled, plain, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


def test_a_compiler_that_fails_is_told_at_the_start(monkeypatch):
    def fails(*_, **__):
        raise OSError("no space left\nand a trace")

    monkeypatch.setattr(torch, "compile", fails)
    with pytest.raises(
        ModelNotLoaded, match=r"cannot be compiled \(no space left\): .*COCOA_GENERATION__COMPILER"
    ):
        RowCache(random_model("llama"), "inductor")


def test_a_model_whose_step_is_not_ours_is_refused():
    config = EngineConfig(compiler="aot_eager")
    with pytest.raises(ModelNotLoaded, match="is a GPT2LMHeadModel, of which no decoding step"):
        TransformersEngine(
            random_model("gpt2"), byte_tokenizer(), config, model_id="tiny", revision="1"
        )
