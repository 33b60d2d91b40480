"""The used part of transformers, imported without what only training and compiling need.

transformers imports torch's compiler for one class and three decorators, tensors of several
machines, and scipy for the losses of object detection: a third of the time that a service takes to
start, and 180 MB.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import transformers.utils

_COMPILER = "torch._dynamo"
_MASKING = "torch._dynamo._trace_wrapped_higher_order_op"
# Checks of transformers before it imports a package; it works without either of them.
_CHECKS = ("is_torch_distributed_available", "is_scipy_available")


@contextmanager
def without_compiler() -> Iterator[None]:
    """Within, `torch._dynamo` is a stand-in, which fetches the compiler once it is needed.

    From then on transformers takes it that neither tensors of several machines nor scipy is there.
    """
    if _COMPILER in sys.modules:
        yield
        return
    for module in (transformers.utils, transformers.utils.import_utils):
        for name in _CHECKS:
            setattr(module, name, lambda: False)
    compiler, masking = ModuleType(_COMPILER), ModuleType(_MASKING)
    compiler.__path__ = [str(Path(torch.__file__).parent / "_dynamo")]
    for name in ("allow_in_graph", "assume_constant_result", "disable"):
        setattr(compiler, name, _unmarked)
    masking.__dict__["TransformGetItemToIndex"] = _masking_mode
    stand_ins = {_COMPILER: compiler, _MASKING: masking}
    parts = _PartsFinder()

    def withdraw() -> None:
        if parts in sys.meta_path:
            sys.meta_path.remove(parts)
        for name, stand_in in stand_ins.items():
            if sys.modules.get(name) is stand_in:
                del sys.modules[name]

    def fetch(name: str) -> Any:
        if name.startswith("__"):  # read by `import` itself
            raise AttributeError(name)
        withdraw()
        return getattr(import_module(_COMPILER), name)

    compiler.__dict__["__getattr__"] = fetch
    parts.withdraw = withdraw
    sys.modules.update(stand_ins)
    sys.meta_path.insert(0, parts)
    try:
        yield
    finally:
        withdraw()


class _PartsFinder(MetaPathFinder, Loader):
    """Fetches the whole compiler before one of its modules, as torchvision imports them."""

    withdraw: Callable[[], None]

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if not fullname.startswith(f"{_COMPILER}."):
            return None
        self.withdraw()
        import_module(fullname)
        return ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: it is imported."""


def _unmarked(function: Any = None, *_: Any, **__: Any) -> Any:
    """A function as it is: what only marks it for the compiler does nothing here."""
    return function or _unmarked


def _masking_mode() -> Any:
    """A `TransformGetItemToIndex`, for the few masks that transformers makes by vmap."""
    return import_module(_MASKING).TransformGetItemToIndex()


def is_one_of(model: Any, names: tuple[str, ...]) -> bool:
    """True where a model's class is transformers' own of one of these names.

    By name, so that nothing is imported of classes that are not loaded; and code that a checkpoint
    brings along may have taken a name.
    """
    kind = type(model)
    return kind.__name__ in names and kind.__module__.startswith("transformers.")


with without_compiler():
    from transformers import (
        AutoConfig,
        AutoModel,
        AutoModelForCausalLM,
        AutoModelForSequenceClassification,
        AutoTokenizer,
        Cache,
        DynamicCache,
        PreTrainedModel,
        PreTrainedTokenizerBase,
    )
    from transformers.cache_utils import DynamicLayer, get_layer_types_and_kwargs

__all__ = [
    "AutoConfig", "AutoModel", "AutoModelForCausalLM", "AutoModelForSequenceClassification",
    "AutoTokenizer", "Cache", "DynamicCache", "DynamicLayer", "PreTrainedModel",
    "PreTrainedTokenizerBase", "get_layer_types_and_kwargs", "is_one_of",
]  # fmt: skip
