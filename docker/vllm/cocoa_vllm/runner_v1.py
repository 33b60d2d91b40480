"""Hooks of vLLM's first model runner, `vllm.v1.worker.gpu_model_runner`, which CPUs use, too."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from cocoa_vllm.hooks import hook, make_reader
from cocoa_vllm.reader import Row, Step
from cocoa_vllm.touched import FIRST_COMPUTED, FIRST_LOADED, FIRST_SAMPLED, FIRST_SCHEDULED


def install() -> None:
    """Hook the runner's class."""
    hook(FIRST_LOADED, _loaded)
    hook(FIRST_SCHEDULED, _scheduled)
    hook(FIRST_COMPUTED, _computed)
    hook(FIRST_SAMPLED, _sampled)


def _loaded(setup: Callable[..., None]) -> Callable[..., None]:
    """The model is loaded and neither compiled nor captured."""

    def _setup_eagle3_aux_hidden_state_outputs(self: Any) -> None:
        setup(self)
        self.cocoa_step = None
        self.cocoa = make_reader(self)

    return _setup_eagle3_aux_hidden_state_outputs


def _scheduled(update: Callable[..., Any]) -> Callable[..., Any]:
    """Called for each step, and for one without tokens, which may be the last for long."""

    def _update_states(self: Any, scheduler_output: Any) -> Any:
        self.cocoa.forget(scheduler_output.finished_req_ids)
        self.cocoa.learn(scheduler_output.scheduled_new_reqs)
        return update(self, scheduler_output)

    return _update_states


def _computed(sample: Callable[..., Any]) -> Callable[..., Any]:
    """The forward pass is launched; what it scheduled is still known."""

    def sample_tokens(self: Any, grammar_output: Any) -> Any:
        state = self.execute_model_state
        self.cocoa_step = None if state is None else _step(self, state)
        return sample(self, grammar_output)

    return sample_tokens


def _sampled(sample: Callable[..., Any]) -> Callable[..., Any]:
    """The logits are final but for what the sampler does to them in place."""

    def _sample(self: Any, logits: Tensor | None, spec_decode_metadata: Any) -> Any:
        step = self.cocoa_step
        if step is None or logits is None or spec_decode_metadata is not None:
            return sample(self, logits, spec_decode_metadata)
        entropy = self.cocoa.entropies(step, logits)
        output = sample(self, logits, spec_decode_metadata)
        if output.logprobs_tensors is not None:
            self.cocoa.write(step, entropy, output.logprobs_tensors)
        return output

    return _sample


def _step(runner: Any, state: Any) -> Step | None:
    """The step's rows that opted in; None without any."""
    if not runner.cocoa.modes:
        return None
    batch, scheduled = runner.input_batch, state.scheduler_output.num_scheduled_tokens
    rows = []
    for index, request in enumerate(batch.req_ids):
        mode = runner.cocoa.modes.get(request)
        if mode is None or runner.discard_request_mask.np[index]:  # a prefill's earlier chunk
            continue
        if runner.speculative_config is not None and mode != "identity":
            continue
        read = int(batch.num_computed_tokens_cpu[index]) + scheduled[request]
        done = read - int(batch.num_prompt_tokens[index])
        end = int(runner.query_start_loc.np[index + 1]) - 1
        rows.append(Row(index, request, mode, done, end))
    step: Step | None = runner.cocoa.step(rows, state.aux_hidden_states)
    return step
