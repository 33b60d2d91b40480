"""The hooks of the model runner, against as much of vLLM as they touch."""

import subprocess
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from cocoa_vllm import hooks
from cocoa_vllm.columns import (
    FIRST_ID,
    NO_PROBE,
    NO_SUPPORT,
    OTHER_LOGPROBS,
    PARALLEL,
    READY,
    SPECULATIVE,
)
from cocoa_vllm.hooks import Unfit, hook, make_reader
from cocoa_vllm.probe import ProbeRefused

from tests.tiny_probes import saved
from tests.unit.docker.vllm.fakes import CPU, Buffer, D, V, asking, loaded, reader, sampled

MODES = {"light": "light", "entropy": "entropy", "plain": None, "chunk": "light", "late": "light"}
REQUESTS = list(MODES)
SCHEDULED = dict(zip(REQUESTS, [1, 4, 1, 3, 2], strict=True))
COMPUTED, PROMPTS = [6, 0, 9, 0, 5], [5, 4, 2, 8, 5]
# "late" was preempted with two tokens and reads them anew; "chunk" has prompt left to read.
ENDS = np.cumsum(list(SCHEDULED.values())) - 1


def asked():
    """The requests, as vLLM tells a runner of new ones; one is of no language model."""
    new = [SimpleNamespace(req_id=name, sampling_params=asking(m)) for name, m in MODES.items()]
    return [*new, SimpleNamespace(req_id="pooling", sampling_params=None)]


def ready(of, *, speculative_config=None):
    """A runner after a forward pass."""
    of.learn(asked())
    num_tokens = sum(SCHEDULED.values())
    states = [torch.arange(num_tokens * D).reshape(num_tokens, D).float()]
    return SimpleNamespace(
        cocoa=of,
        cocoa_step=None,
        device=CPU,
        speculative_config=speculative_config,
        input_batch=SimpleNamespace(
            req_ids=REQUESTS,
            num_computed_tokens_cpu=np.array(COMPUTED),
            num_prompt_tokens=np.array(PROMPTS),
        ),
        discard_request_mask=Buffer([0, 0, 0, 1, 0, 7, 7], bool),
        query_start_loc=Buffer([0, *(ENDS + 1), 99], np.int32),
        execute_model_state=SimpleNamespace(
            scheduler_output=SimpleNamespace(num_scheduled_tokens=SCHEDULED),
            aux_hidden_states=states,
        ),
    )


def test_a_step_has_the_rows_that_opted_in_and_draw_a_token(tmp_path):
    runner = ready(reader(saved(tmp_path)))
    step = hooks.step_of(runner, runner.execute_model_state)
    rows = [(row.index, row.request, row.mode, row.step) for row in step.rows]
    assert rows == [(1, "entropy", "entropy", 0), (0, "light", "light", 2), (4, "late", "light", 2)]
    states = runner.execute_model_state.aux_hidden_states[0]
    assert step.states.equal(states[[ENDS[0], ENDS[4]]][:, None])


def test_without_light_no_state_is_read():
    runner = ready(reader())
    runner.execute_model_state.aux_hidden_states = None
    step = hooks.step_of(runner, runner.execute_model_state)
    assert len(step.rows) == 3
    assert step.states is None


def test_with_speculative_decoding_only_identity_has_columns(monkeypatch):
    monkeypatch.setitem(MODES, "entropy", "identity")
    runner = ready(reader(), speculative_config=object())
    step = hooks.step_of(runner, runner.execute_model_state)
    assert [(row.request, row.mode) for row in step.rows] == [("entropy", "identity")]


def test_a_step_of_others_is_none(monkeypatch):
    for name in MODES:
        monkeypatch.setitem(MODES, name, None)
    runner = ready(reader())
    assert hooks.step_of(runner, runner.execute_model_state) is None


def marked(output):
    """Rows of an output that have columns."""
    return (output.logprobs_tensors.logprob_token_ids == FIRST_ID).any(dim=1).tolist()


def test_the_runners_columns_are_those_of_the_logits_before_the_sampler(tmp_path):
    runner, logits = ready(reader(saved(tmp_path))), torch.randn(5, V)
    tensors = sampled(logits)

    def _sample(self, logits, spec_decode_metadata):
        logits.mul_(100)  # a temperature
        return SimpleNamespace(logprobs_tensors=tensors)

    def sample_tokens(self, grammar_output):
        self.execute_model_state = None
        return hooks.around_sample(_sample, self, logits, None)

    step = hooks.step_of(runner, runner.execute_model_state)
    expected = hooks.columns.entropies(logits, step.indices).tolist()
    output = hooks.around_sample_tokens(sample_tokens, runner, None)
    assert marked(output) == [True, True, False, False, True]
    assert tensors.logprobs[1, 2].item() == pytest.approx(expected[0], abs=1e-6)
    assert hooks.around_sample_tokens(lambda self, grammar: self.cocoa_step, runner, None) is None


def test_the_runner_forgets_in_a_step_without_tokens():
    runner = ready(reader())
    told = SimpleNamespace(finished_req_ids={"light"}, scheduled_new_reqs=[])
    hooks.around_update_states(lambda self, output: None, runner, told)
    assert runner.cocoa.modes.keys() == {"entropy", "chunk", "late"}


def test_the_runner_learns_modes_of_a_request_whose_name_was_used_before():
    runner = ready(reader())
    again = [one for one in asked() if one.req_id == "light"]
    told = SimpleNamespace(finished_req_ids={"light"}, scheduled_new_reqs=again)
    hooks.around_update_states(lambda self, output: None, runner, told)
    assert runner.cocoa.modes["light"] == "light"


@pytest.fixture
def _vllm(monkeypatch):
    """The one function of vLLM's that `make_reader` calls."""
    interfaces = ModuleType("vllm.model_executor.models.interfaces")
    interfaces.supports_eagle3 = lambda model: model.supported
    for name in ("vllm", "vllm.model_executor", "vllm.model_executor.models"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, interfaces.__name__, interfaces)


@pytest.mark.usefixtures("_vllm")
def test_the_model_is_told_to_show_the_layers_of_all_probes(tmp_path):
    folders = [saved(tmp_path), saved(tmp_path, "semantic_entropy", layer=1)]
    runner = loaded("fake", folders=folders)
    assert make_reader(runner).layers == (1, 2)
    assert runner.use_aux_hidden_state_outputs
    assert runner.get_model().layers == (1, 2)
    told = {"probes": folders, "layers": [1, 2]}
    assert runner.vllm_config.additional_config == {"cocoa": told, "other": 1}


@pytest.mark.usefixtures("_vllm")
@pytest.mark.parametrize(
    ("changes", "light"),
    [
        ({}, READY),
        ({"supported": False}, NO_SUPPORT),
        ({"speculative_config": object()}, SPECULATIVE),
        ({"pipeline_parallel_size": 2}, PARALLEL),
        ({"logprobs_mode": "processed_logprobs"}, OTHER_LOGPROBS),
    ],
)
def test_a_deployment_without_light_says_why_and_shows_no_layer(tmp_path, changes, light):
    runner = loaded("fake", folders=[saved(tmp_path)], **changes)
    assert make_reader(runner)._identity[2] == light
    assert runner.use_aux_hidden_state_outputs == (light == READY)


@pytest.mark.usefixtures("_vllm")
@pytest.mark.parametrize("additional", [{}, {"other": 1}, object()])
def test_a_deployment_without_probes_has_no_light(additional):
    runner = loaded("fake")
    runner.vllm_config.additional_config = additional
    assert make_reader(runner)._identity[2] == NO_PROBE
    assert runner.vllm_config.additional_config == additional


@pytest.mark.usefixtures("_vllm")
def test_a_worker_does_not_start_with_another_models_probe(tmp_path):
    runner = loaded("fake", folders=[saved(tmp_path, revision="2")])
    with pytest.raises(ProbeRefused, match="its revision"):
        make_reader(runner)


def test_a_method_is_hooked_once(monkeypatch):
    class Owner:
        def name(self):
            return 1

    module = ModuleType("there")
    module.Owner = Owner
    monkeypatch.setitem(sys.modules, "there", module)
    for _ in range(2):
        hook("there:Owner.name", lambda name, self: name(self) + 1)
    assert Owner().name() == 2


def test_the_second_runner_ends_its_worker_in_words():
    worker = SimpleNamespace(vllm_config=SimpleNamespace(use_v2_model_runner=True))
    with pytest.raises(Unfit, match="set VLLM_USE_V2_MODEL_RUNNER=0"):
        hooks.around_init_device(lambda self: None, worker)


def test_the_plugin_is_imported_without_vllm():
    script = "import sys; sys.modules['vllm'] = None; import cocoa_vllm.hooks"
    subprocess.run([sys.executable, "-c", script], check=True, cwd="docker/vllm", timeout=60)
