"""All that the plugin touches of vLLM, which any release may rename. Imports neither it nor torch.

`make test-vllm-sources` looks for each of these names in the sources of releases.
"""

from collections.abc import Mapping
from dataclasses import dataclass

_REQUESTS = "vllm.sampling_params"
_FIRST, _SECOND = "vllm.v1.worker.gpu_model_runner", "vllm.v1.worker.gpu"
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

FIRST_LOADED = Method(_FIRST, "GPUModelRunner", "_setup_eagle3_aux_hidden_state_outputs")
FIRST_SCHEDULED = Method(_FIRST, "GPUModelRunner", "_update_states", ("self", "scheduler_output"))
FIRST_COMPUTED = Method(_FIRST, "GPUModelRunner", "sample_tokens", ("self", "grammar_output"))
FIRST_SAMPLED = Method(
    _FIRST, "GPUModelRunner", "_sample", ("self", "logits", "spec_decode_metadata")
)

_RUNNER, _SAMPLER = f"{_SECOND}.model_runner", f"{_SECOND}.sample.sampler"
SECOND_LOADED = Method(_RUNNER, "GPUModelRunner", "load_model", None)
SECOND_FINISHED = Method(_RUNNER, "GPUModelRunner", "finish_requests", ("self", "scheduler_output"))
SECOND_ADDED = Method(_RUNNER, "GPUModelRunner", "add_requests", ("self", "scheduler_output"))
SECOND_COMPUTED = Method(_RUNNER, "GPUModelRunner", "sample_tokens", ("self", "grammar_output"))
SECOND_SAMPLED = Method(_SAMPLER, "Sampler", "__call__", ("self", "logits", "input_batch"))

METHODS = tuple(one for one in list(vars().values()) if isinstance(one, Method))

_OF_BOTH_RUNNERS = (
    "vllm_config parallel_config speculative_config model_config device execute_model_state "
    "use_aux_hidden_state_outputs get_model"
)

# Attributes and methods that are read of a class, by its full name.
NAMES: Mapping[str, str] = {
    f"{_REQUESTS}.SamplingParams": "extra_args logprobs",
    "vllm.exceptions.VLLMValidationError": "parameter",
    "vllm.v1.worker.worker_base.WorkerWrapperBase": "vllm_config",
    "vllm.config.vllm.VllmConfig": (
        "use_v2_model_runner model_config additional_config device_config"
    ),
    "vllm.config.device.DeviceConfig": "device_type",
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
    f"{_FIRST}.GPUModelRunner": (
        f"{_OF_BOTH_RUNNERS} input_batch discard_request_mask query_start_loc"
    ),
    f"{_FIRST}.ExecuteModelState": "scheduler_output aux_hidden_states",
    "vllm.v1.worker.gpu_input_batch.InputBatch": (
        "req_ids num_computed_tokens_cpu num_prompt_tokens"
    ),
    "vllm.v1.utils.CpuGpuBuffer": "np",
    "vllm.v1.outputs.SamplerOutput": "logprobs_tensors",
    f"{_RUNNER}.GPUModelRunner": (
        f"{_OF_BOTH_RUNNERS} sampler batch_sharder pcp_manager req_states"
    ),
    f"{_RUNNER}.ExecuteModelState": "input_batch aux_hidden_states",
    f"{_SECOND}.input_batch.InputBatch": (
        "req_ids num_reqs idx_mapping_np num_scheduled_tokens num_computed_tokens_np "
        "prefill_len_np query_start_loc_np"
    ),
    f"{_SECOND}.states.RequestState": "prompt_len",
    f"{_SECOND}.buffer_utils.UvaBackedTensor": "np",
    f"{_SECOND}.sample.output.SamplerOutput": "logprobs_tensors",
}
# Functions of modules.
FUNCTIONS = ("vllm.model_executor.models.interfaces.supports_eagle3",)
