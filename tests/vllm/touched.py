"""What the plugin reads of vLLM beside the methods that it hooks, which any release may rename."""

_RUNNER = "vllm.v1.worker.gpu_model_runner"
_SCHEDULED = "vllm.v1.core.sched.output"

# Attributes and methods that are read of a class, by its full name.
NAMES = {
    "vllm.sampling_params.SamplingParams": "extra_args logprobs",
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
