"""LangChain's standard tests of a chat model against the service over a real one.

Only `make test-doors` runs this, with COCOA_TEST_REAL_MODELS=FOLDER, which holds `qwen`.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.chaos.cocoa_process import cocoa_serve

PYTHON = Path(os.environ.get("COCOA_TEST_LANGCHAIN", ".venv-langchain/bin/python"))
MODELS = os.environ.get("COCOA_TEST_REAL_MODELS")
PROGRAM = Path(__file__).with_name("langchain_standard.py")
# One loop for all tests: LangChain keeps a client beyond the one that it was made in.
LOOPS = ["asyncio_default_test_loop_scope=session", "asyncio_default_fixture_loop_scope=session"]


@pytest.mark.skipif(MODELS is None, reason="COCOA_TEST_REAL_MODELS names no folder")
def test_the_standard_tests_pass_but_for_what_is_expected(tmp_path):
    settings = {"COCOA_GENERATION__MODEL": str(Path(MODELS) / "qwen"), "COCOA_NLI__MODEL": ""}
    with cocoa_serve(**settings) as serving:
        serving.wait_ready(600)
        options = ["asyncio_mode=auto", *LOOPS]
        command = [PYTHON, "-m", "pytest", PROGRAM, "-q", "--noconftest", "-c", os.devnull]
        command += [word for option in options for word in ("-o", option)]
        done = subprocess.run(
            list(map(str, command)),
            env=os.environ | {"COCOA_TEST_URL": serving.url, "LANGSMITH_TRACING": "false"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=2400,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-6000:]
