"""Lets vLLM's second model runner run without a GPU: Triton's interpreter is its compiler there.

With `TRITON_INTERPRET=1` and this folder in `PYTHONPATH`. vLLM's CPU build has the second runner,
and leaves it where Triton has no backend for CPUs; the interpreter needs none.
"""

from types import SimpleNamespace

import triton.backends

triton.backends.backends["cpu"] = SimpleNamespace(driver=SimpleNamespace(is_active=lambda: True))
