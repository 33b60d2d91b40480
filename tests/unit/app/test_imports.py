"""What a fresh process imports: only what it needs, and nothing that reads the environment.

The command line imports next to nothing before it knows which command is to run.
"""

import os
import subprocess
import sys

import pytest

LIBRARIES = (
    "mcp",
    "torch",
    "transformers",
    "sentence_transformers",
    "tokenizers",
    "safetensors",
    "scipy",
    "sklearn",
    "matplotlib",
    "jinja2",
    "nltk",
    "datasets",
    # Clients of servers, which few deployments have.
    "httpx",
    "redis",
)


@pytest.mark.parametrize("module", ["app.main", "app.cli"])
def test_importing_app_main_or_a_command_imports_no_library_of_a_part_and_reads_no_setting(module):
    names = ("cocoa_lab", *LIBRARIES)
    code = f"import {module}, sys; print([name for name in {names} if name in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"COCOA_PORT": "no number", "COCOA_NOSUCH": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (result.stdout.strip(), result.returncode) == ("[]", 0), result.stderr


# Each takes as long as everything that `cocoa --help` needs, or imports one that does.
NOT_FOR_HELP = (
    *LIBRARIES,
    "numpy",
    "pydantic",
    "fastapi",
    "starlette",
    "uvicorn",
    "huggingface_hub",
    "models",
    "workers",
    "app.main",
    "app.settings",
    "app.scoring",
    "app.plugins.keys.records",
)


def test_help_imports_no_room_of_a_command():
    code = (
        "import sys; from app.cli import main; sys.argv = ['cocoa', '--help']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print([name for name in {NOT_FOR_HELP} if name in sys.modules], file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert "evaluate" in result.stdout
    assert (result.stderr.strip(), result.returncode) == ("[]", 0)


# What other deployments have, and of what transformers and sentence-transformers bring that for
# training, compiling and other models.
NOT_FOR_SERVING = (
    "datasets",
    "httpx",
    "matplotlib",
    "nltk",
    "pandas",
    "redis",
    "rich",
    "scipy",
    "sentence_transformers",
    "sklearn",
    "sympy",
    "torch._dynamo",
    "torch._inductor",
    "torch.distributed.tensor",
    "transformers.models.qwen2",
    "transformers.models.roberta",
)

START = """
import asyncio, sys
import app.http.running
from app.main import create_app
from app.settings import Settings

async def start():
    app = create_app(Settings())
    async with app.router.lifespan_context(app):
        await app.state.service.supervisor.ready.wait()

asyncio.run(start())
"""


def in_a_fresh_process(code):
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_a_start_as_by_default_imports_neither_the_compiler_nor_what_others_need():
    found = f"print([name for name in {NOT_FOR_SERVING} if name in sys.modules])"

    assert in_a_fresh_process(START + found) == "[]"


def test_the_compiler_is_fetched_when_it_is_needed():
    code = """
from models.pretrained import without_compiler
import torch

with without_compiler():
    import torch._dynamo
    print(torch._dynamo.disable.__module__, torch._dynamo.is_compiling.__module__)
print(torch.compile(lambda number: number + 1, backend="eager")(torch.ones(1)).item())
from models.pretrained import _masking_mode
print(type(_masking_mode()).__name__)
"""
    assert in_a_fresh_process(code).splitlines() == [
        "models.pretrained torch._dynamo.external_utils",
        "2.0",
        "TransformGetItemToIndex",
    ]


def test_a_package_may_import_a_module_of_the_compiler_while_transformers_is_imported():
    # as torchvision does
    code = """
import sys
from models.pretrained import without_compiler

with without_compiler():
    from torch._dynamo.utils import is_compile_supported
import torch._dynamo
print(torch._dynamo.utils is sys.modules[is_compile_supported.__module__])
print(torch._dynamo.disable.__module__)
"""
    assert in_a_fresh_process(code).splitlines() == ["True", "torch._dynamo.decorators"]
