"""LangChain's standard tests of a chat model against the service.

Only `make test-clients` runs this: over a model of the repository, and over a real one where
COCOA_TEST_REAL_MODELS=FOLDER holds `qwen`.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.chaos.cocoa_process import cocoa_serve
from tests.frameworks.test_clients import PROGRAMS, python_of

PYTHON = python_of("langchain_standard")
MODELS = os.environ.get("COCOA_TEST_REAL_MODELS")
PROGRAM = PROGRAMS / "langchain_standard.py"
# One loop for all tests: LangChain keeps a client beyond the one that it was made in.
LOOPS = ["asyncio_default_test_loop_scope=session", "asyncio_default_fixture_loop_scope=session"]


REAL = pytest.mark.skipif(MODELS is None, reason="COCOA_TEST_REAL_MODELS names no folder")


@pytest.mark.parametrize(
    ("name", "model"),
    [
        pytest.param("embedded-long", "embedded-long", id="embedded-long"),
        pytest.param("qwen", str(Path(MODELS or "") / "qwen"), marks=REAL, id="qwen"),
    ],
)
def test_the_standard_tests_pass_but_for_what_is_expected(tmp_path, name, model):
    with cocoa_serve(COCOA_GENERATION__MODEL=model, COCOA_NLI__MODEL="") as serving:
        serving.wait_ready(600)
        asked = {"COCOA_TEST_URL": serving.url, "COCOA_TEST_MODEL": name}
        options = ["asyncio_mode=auto", *LOOPS]
        command = [PYTHON, "-m", "pytest", PROGRAM, "-q", "-rxX", "--noconftest", "-c", os.devnull]
        command += [word for option in options for word in ("-o", option)]
        done = subprocess.run(
            list(map(str, command)),
            env=os.environ | asked | {"LANGSMITH_TRACING": "false"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=2400,
            check=False,
        )
    print(done.stdout[-2000:])
    assert done.returncode == 0, done.stdout[-6000:]
