"""Checkpoints that cannot be loaded are told from those that can, before anything is imported."""

import json
from types import SimpleNamespace

import httpx
import pytest
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError

from models import loadable
from models.errors import ModelNotLoaded
from models.loadable import check_checkpoint, is_embedding_model

WHOLE = ("config.json", "model.safetensors", "tokenizer.json")
LLAMA, BERT = ["LlamaForCausalLM"], ["BertForSequenceClassification"]


@pytest.fixture
def folder(tmp_path):
    def make(*names, architectures=LLAMA):
        for name in names:
            (tmp_path / name).write_text("{}")
        if "config.json" in names:
            (tmp_path / "config.json").write_text(json.dumps({"architectures": architectures}))
        return str(tmp_path)

    return make


@pytest.fixture(autouse=True)
def no_cached_answers():
    loadable._listed_hub.cache_clear()


@pytest.fixture
def hub(monkeypatch):
    """Have the hub say this, or raise it."""

    def say(answer, *, is_cached=False):
        def model_info(self, repo_id, **options):
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(loadable.HfApi, "model_info", model_info)
        found = "/somewhere/config.json" if is_cached else None
        monkeypatch.setattr(loadable, "try_to_load_from_cache", lambda *_, **__: found)

    return say


def info(*names, architectures=LLAMA):
    siblings = [SimpleNamespace(rfilename=name) for name in names]
    return SimpleNamespace(siblings=siblings, config={"architectures": architectures})


REFUSED = {
    "empty": ((), LLAMA, "causal", "holds no config.json"),
    "pickle": (
        ("config.json", "pytorch_model.bin", "tokenizer.json"),
        LLAMA,
        "causal",
        "pickled weights only",
    ),
    "GGUF": (("README.md", "model.Q4_K_M.gguf"), LLAMA, "causal", r"is GGUF.*GENERATION__URL"),
    "ONNX": (("config.json", "model.onnx"), BERT, "classifier", "is ONNX.* safetensors .*__URL"),
    "TensorFlow": (("config.json", "tf_model.h5"), LLAMA, "causal", "is weights of TensorFlow"),
    "an adapter": (
        ("adapter_config.json", "adapter_model.safetensors", "tokenizer.json"),
        LLAMA,
        "causal",
        "is an adapter without its model",
    ),
    "no weights": (("config.json", "tokenizer.json"), LLAMA, "causal", "holds no weights"),
    "no tokenizer": (WHOLE[:2], LLAMA, "causal", "holds no tokenizer"),
    "a classifier that should speak": (WHOLE, BERT, "causal", "a causal language model is needed"),
    "a language model that should judge": (WHOLE, LLAMA, "classifier", "a classifier of pairs"),
}


@pytest.mark.parametrize(
    ("names", "architectures", "head", "reason"), REFUSED.values(), ids=REFUSED
)
def test_what_lacks_something_is_refused_here_and_on_the_hub(
    folder, hub, names, architectures, head, reason
):
    with pytest.raises(ModelNotLoaded, match=reason):
        check_checkpoint(folder(*names, architectures=architectures), None, head)
    hub(info(*names, architectures=architectures))
    with pytest.raises(ModelNotLoaded, match=reason):
        check_checkpoint("org/model", None, head)


@pytest.mark.parametrize(
    ("files", "method"),
    [(WHOLE, "modelopt"), ((*WHOLE, "hf_quant_config.json"), None)],
    ids=["in the configuration", "in a file of its own"],
)
def test_checkpoints_of_modelopt_are_refused_here_and_on_the_hub(
    folder, hub, tmp_path, files, method
):
    config = {"architectures": LLAMA}
    if method:
        config["quantization_config"] = {"quant_method": method}
    path = folder(*files)
    (tmp_path / "config.json").write_text(json.dumps(config))
    hub(SimpleNamespace(siblings=info(*files).siblings, config=config))

    for model in (path, "org/model"):
        with pytest.raises(ModelNotLoaded, match=r"by NVIDIA's ModelOpt, which .*GENERATION__URL"):
            check_checkpoint(model, None, "causal")


def test_a_note_of_modelopt_beside_a_method_that_transformers_applies_is_none(folder, tmp_path):
    path = folder(*WHOLE, "hf_quant_config.json")
    config = {"architectures": LLAMA, "quantization_config": {"quant_method": "fp8"}}
    (tmp_path / "config.json").write_text(json.dumps(config))

    assert not check_checkpoint(path, None, "causal")


def test_what_has_all_passes(folder, hub):
    assert not check_checkpoint(folder(*WHOLE), None, "causal")
    hub(info(*WHOLE, architectures=BERT))
    assert not check_checkpoint("org/model", None, "classifier")


@pytest.mark.parametrize("name", ["some.gguf", "/models/Some.GGUF", "./some.onnx", "org/a.gguf"])
def test_the_name_of_a_file_of_another_kind_is_refused_with_the_two_ways(name):
    kind = name.rsplit(".")[-1].upper()
    with pytest.raises(
        ModelNotLoaded, match=rf"^is {kind}, which .* safetensors .* server .*__URL"
    ):
        check_checkpoint(name, None, "causal")


def test_weights_beside_files_of_another_kind_are_read(folder):
    assert not check_checkpoint(folder(*WHOLE, "model.gguf", "model.onnx"), None, "causal")


def test_a_file_is_told_from_its_folder(folder, tmp_path):
    folder(*WHOLE)
    with pytest.raises(ModelNotLoaded, match="is a file: name the folder"):
        check_checkpoint(str(tmp_path / "model.safetensors"), None, "causal")


def test_a_folder_that_is_not_there_is_no_hub_id(tmp_path):
    with pytest.raises(ModelNotLoaded, match=r"no such folder: /.*; name one"):
        check_checkpoint(str(tmp_path / "none"), None, "causal")


def test_a_silent_hub_is_no_obstacle_where_a_copy_is_here(hub):
    hub(TimeoutError(), is_cached=True)
    assert check_checkpoint("org/model", None, "causal")


def answer(status):
    return httpx.Response(status, request=httpx.Request("GET", "http://hub"))


def test_a_mirror_without_descriptions_may_have_the_files_and_one_that_fails_has_none(hub):
    hub(HfHubHTTPError("404", response=answer(404)))
    assert not check_checkpoint("org/model", None, "causal")
    hub(HfHubHTTPError("502", response=answer(502)))
    with pytest.raises(ModelNotLoaded, match="cannot be reached"):
        check_checkpoint("org/other", None, "causal")


def test_a_silent_hub_and_a_missing_model_are_different_refusals(hub):
    hub(TimeoutError())
    with pytest.raises(ModelNotLoaded, match=r"cannot be reached \(TimeoutError\)"):
        check_checkpoint("org/model", None, "causal")
    hub(RepositoryNotFoundError("404", response=answer(404)), is_cached=True)
    with pytest.raises(ModelNotLoaded, match="neither a folder here nor a model on the hub"):
        check_checkpoint("org/model", None, "causal")


ENCODER = (*WHOLE, "modules.json")


@pytest.mark.parametrize(
    ("names", "architectures", "expected"),
    [(ENCODER, ["BertModel"], True), (ENCODER, BERT, False), (WHOLE, ["BertModel"], False)],
    ids=["an encoder", "a cross-encoder that lists its modules", "a bare transformer"],
)
def test_a_checkpoint_says_if_it_makes_vectors(folder, hub, names, architectures, expected):
    assert is_embedding_model(folder(*names, architectures=architectures), None) is expected
    hub(info(*names, architectures=architectures))
    assert is_embedding_model("org/model", None) is expected


@pytest.mark.parametrize("is_cached", [True, False])
def test_of_a_copy_here_the_files_of_the_copy_say_it(hub, monkeypatch, is_cached):
    hub(httpx.ConnectError("no network"), is_cached=True)
    found = {"config.json": "/c", "modules.json": "/m" if is_cached else None}
    monkeypatch.setattr(loadable, "try_to_load_from_cache", lambda _, name, **__: found[name])
    assert is_embedding_model("org/model", None) is is_cached
