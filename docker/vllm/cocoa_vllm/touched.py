"""All that the plugin touches of vLLM, which any release may rename. Imports neither it nor torch.

`make test-vllm-sources` looks for each of these names in the sources of releases.
"""

from collections.abc import Mapping
from dataclasses import dataclass

_REQUESTS = "vllm.sampling_params"
_RUNNER = "vllm.v1.worker.gpu_model_runner"
_SCHEDULED = "vllm.v1.core.sched.output"


@dataclass(frozen=True, slots=True)
class Method:
    """A method that the plugin stands around.

    Attributes:
        module, owner, name: where it is; the owner is a class.
        parameters: their names, the instance first; None where whatever comes is passed on.
    """

    module: str
    owner: str
    name: str
    parameters: tuple[str, ...] | None = ("self",)

    def __str__(self) -> str:
        return f"{self.module}.{self.owner}.{self.name}"


CHECKED = Method(_REQUESTS, "SamplingParams", "_verify_args")
STARTED = Method("vllm.v1.worker.worker_base", "WorkerWrapperBase", "init_device", None)

LOADED = Method(_RUNNER, "GPUModelRunner", "_setup_eagle3_aux_hidden_state_outputs")
SCHEDULED = Method(_RUNNER, "GPUModelRunner", "_update_states", ("self", "scheduler_output"))
COMPUTED = Method(_RUNNER, "GPUModelRunner", "sample_tokens", ("self", "grammar_output"))
SAMPLED = Method(_RUNNER, "GPUModelRunner", "_sample", ("self", "logits", "spec_decode_metadata"))

METHODS = tuple(one for one in list(vars().values()) if isinstance(one, Method))

# Attributes and methods that are read of a class, by its full name.
NAMES: Mapping[str, str] = {
    f"{_REQUESTS}.SamplingParams": "extra_args logprobs",
    "vllm.exceptions.VLLMValidationError": "parameter",
    "vllm.v1.worker.worker_base.WorkerWrapperBase": "vllm_config",
    "vllm.config.vllm.VllmConfig": "use_v2_model_runner model_config additional_config",
    "vllm.config.model.ModelConfig": (
        "model hf_config hf_text_config dtype quantization logprobs_mode get_hidden_size"
    ),
    "vllm.config.parallel.ParallelConfig": (
        "pipeline_parallel_size prefill_context_parallel_size enable_batch_sharded_sampling"
    ),
    "vllm.model_executor.models.interfaces.SupportsEagle3": "set_aux_hidden_state_layers",
    "vllm.v1.outputs.LogprobsTensors": "logprob_token_ids logprobs",
    f"{_SCHEDULED}.SchedulerOutput": "num_scheduled_tokens finished_req_ids scheduled_new_reqs",
    f"{_SCHEDULED}.NewRequestData": "req_id sampling_params",
    f"{_RUNNER}.GPUModelRunner": (
        "vllm_config parallel_config speculative_config model_config device execute_model_state "
        "use_aux_hidden_state_outputs get_model input_batch discard_request_mask query_start_loc"
    ),
    f"{_RUNNER}.ExecuteModelState": "scheduler_output aux_hidden_states",
    "vllm.v1.worker.gpu_input_batch.InputBatch": (
        "req_ids num_computed_tokens_cpu num_prompt_tokens"
    ),
    "vllm.v1.utils.CpuGpuBuffer": "np",
    "vllm.v1.outputs.SamplerOutput": "logprobs_tensors",
}
# Functions of modules.
FUNCTIONS = ("vllm.model_executor.models.interfaces.supports_eagle3",)
