"""Hooks of vLLM's second model runner, `vllm.v1.worker.gpu`.

Run on a CPU alone, where Triton's interpreter stands in for its compiler; never on a GPU.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from cocoa_vllm.hooks import hook, make_reader
from cocoa_vllm.reader import Row, Step
from cocoa_vllm.touched import (
    SECOND_ADDED,
    SECOND_COMPUTED,
    SECOND_FINISHED,
    SECOND_LOADED,
    SECOND_SAMPLED,
)


def install() -> None:
    """Hook the runner's and the sampler's class."""
    hook(SECOND_LOADED, _loaded)
    hook(SECOND_FINISHED, _finished)
    hook(SECOND_ADDED, _added)
    hook(SECOND_COMPUTED, _computed)
    hook(SECOND_SAMPLED, _sampled)


def _loaded(load: Callable[..., None]) -> Callable[..., None]:
    """The model is loaded; it is compiled and captured with the first passes through it."""

    def load_model(self: Any, *args: Any, **kwargs: Any) -> None:
        load(self, *args, **kwargs)
        self.cocoa = make_reader(self)

    return load_model


def _finished(finish: Callable[..., None]) -> Callable[..., None]:
    def finish_requests(self: Any, scheduler_output: Any) -> None:
        self.cocoa.forget(scheduler_output.finished_req_ids)  # those preempted come again
        finish(self, scheduler_output)

    return finish_requests


def _added(add: Callable[..., None]) -> Callable[..., None]:
    def add_requests(self: Any, scheduler_output: Any) -> None:
        self.cocoa.learn(scheduler_output.scheduled_new_reqs)
        add(self, scheduler_output)

    return add_requests


def _computed(sample: Callable[..., Any]) -> Callable[..., Any]:
    """The forward pass is launched; its logits are computed within."""

    def sample_tokens(self: Any, grammar_output: Any) -> Any:
        if self.sampler is None:
            return sample(self, grammar_output)
        state = self.execute_model_state
        sharded = self.batch_sharder is not None or self.pcp_manager is not None
        step = None if state is None or sharded else _step(self, state)
        self.sampler.cocoa = None if step is None else (self.cocoa, step)
        try:
            return sample(self, grammar_output)
        finally:
            self.sampler.cocoa = None

    return sample_tokens


def _sampled(sample: Callable[..., Any]) -> Callable[..., Any]:
    """The logits are final; this sampler copies them before it scales them."""

    def __call__(self: Any, logits: Tensor, input_batch: Any) -> Any:
        told = getattr(self, "cocoa", None)
        if told is None or len(logits) != input_batch.num_reqs:
            return sample(self, logits, input_batch)
        reader, step = told
        entropy = reader.entropies(step, logits)
        output = sample(self, logits, input_batch)
        if output.logprobs_tensors is not None:
            reader.write(step, entropy, output.logprobs_tensors)
        return output

    return __call__


def _step(runner: Any, state: Any) -> Step | None:
    """The step's rows that opted in; None without any."""
    if not runner.cocoa.modes:
        return None
    batch = state.input_batch
    read = batch.num_computed_tokens_np + batch.num_scheduled_tokens
    num_prompt = runner.req_states.prompt_len.np[batch.idx_mapping_np]
    rows = []
    for index, request in enumerate(batch.req_ids):
        mode = runner.cocoa.modes.get(request)
        if mode is None or read[index] < batch.prefill_len_np[index]:  # a prefill's earlier chunk
            continue
        if runner.speculative_config is not None and mode != "identity":
            continue
        done = int(read[index] - num_prompt[index])
        end = int(batch.query_start_loc_np[index + 1]) - 1
        rows.append(Row(index, request, mode, done, end))
    step: Step | None = runner.cocoa.step(rows, state.aux_hidden_states)
    return step
