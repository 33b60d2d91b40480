"""What a fresh process imports: the gateway no model library, and nothing reads the environment."""

import os
import subprocess
import sys


def test_importing_the_application_imports_no_model_library_and_reads_no_setting():
    libraries = ["torch", "transformers", "sentence_transformers", "tokenizers", "safetensors"]
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import app.main, sys; print([name for name in {libraries} if name in sys.modules])",
        ],
        env=os.environ | {"COCOA_PORT": "no number", "COCOA_NOSUCH": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (result.stdout.strip(), result.returncode) == ("[]", 0), result.stderr
