"""What a fresh process imports: no model library, and nothing that reads the environment."""

import os
import subprocess
import sys

import pytest

LIBRARIES = (
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
)


@pytest.mark.parametrize("module", ["app.main", "app.cli"])
def test_importing_a_door_imports_no_model_library_and_reads_no_setting(module):
    code = f"import {module}, sys; print([name for name in {LIBRARIES} if name in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"COCOA_PORT": "no number", "COCOA_NOSUCH": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (result.stdout.strip(), result.returncode) == ("[]", 0), result.stderr
