"""`cocoa evaluate` as a program: what it imports, what it says is missing, and a kill survived."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

FAKE = {
    "COCOA_GENERATION__ENGINE": "fake",
    "COCOA_SIMILARITY__NAME": "fake",
    "COCOA_NLI__NAME": "fake_nli",
    "COCOA_NLI__MODEL": "fake",
}


def test_the_command_line_needs_no_library_of_the_evaluation_until_it_is_asked_for():
    libraries = ["matplotlib", "jinja2", "torch"]  # nltk imports scikit-learn where it finds it
    code = f"import app.cli, sys; print([name for name in {libraries} if name in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert (result.stdout.strip(), result.returncode) == ("[]", 0), result.stderr


def test_without_the_extra_the_command_says_what_to_install():
    code = "import sys; sys.modules['matplotlib'] = None; from app.cli import main; main()"
    command = [sys.executable, "-c", code, "evaluate", "testbed", "--out", "never"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert "cocoa-serve[models,evaluation]" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_run_killed_in_its_midst_goes_on_to_the_same_file(tmp_path):
    count = 800
    dataset = tmp_path / "made.jsonl"
    rows = []
    for i in range(count):
        row = {"id": str(i), "task": "facts", "prompt": f"Question {i}?", "reference": "Paris"}
        rows.append(row)
    dataset.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def command(out):
        # Resamples take no part in what this test is about.
        options = ["--estimators", "cocoa_ppl,p_true", "--num-resamples", "2", "--num-samples", "4"]
        return [Path(sys.executable).parent / "cocoa", "evaluate", dataset, "--out", out, *options]

    kept = {name: value for name, value in os.environ.items() if not name.startswith("COCOA_")}
    run = {"env": kept | FAKE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    killed = tmp_path / "killed"
    process = subprocess.Popen(command(killed), **run)
    generations = killed / "generations.jsonl"
    deadline = time.monotonic() + 60
    while not generations.exists() or generations.read_bytes().count(b"\n") < 30:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
    assert 30 <= generations.read_bytes().count(b"\n") < count
    assert not (killed / "results.json").exists()

    subprocess.run(command(killed), **run, check=True, timeout=120)
    subprocess.run(command(tmp_path / "whole"), **run, check=True, timeout=120)
    assert generations.read_bytes() == (tmp_path / "whole" / "generations.jsonl").read_bytes()
    assert (killed / "scores.jsonl").read_bytes() == (
        tmp_path / "whole" / "scores.jsonl"
    ).read_bytes()
