"""How many prompts `cocoa evaluate` does in a second, with one matrix of similarities each."""

import json
import os
import subprocess
import sysconfig
import tempfile
from pathlib import Path

# Nothing that asks the NLI model, whose pairs would be a second matrix.
_ESTIMATORS = "cocoa_sp,cocoa_ppl,cocoa_mte,rb_cocoa_sp,sp,ppl,mte,consistency"


def prompts_per_second(model: str, similarity_model: str, num_prompts: int) -> float:
    """What a run says of itself: prompts generated and scored, without loading and report."""
    variables = {name: value for name, value in os.environ.items() if name[:6] != "COCOA_"}
    variables |= {"COCOA_GENERATION__MODEL": model, "COCOA_SIMILARITY__MODEL": similarity_model}
    with tempfile.TemporaryDirectory() as folder:
        command = [str(Path(sysconfig.get_path("scripts")) / "cocoa"), "evaluate", "testbed"]
        command += ["--out", folder, "--limit", str(num_prompts), "--num-resamples", "10"]
        command += ["--estimators", _ESTIMATORS]
        subprocess.run(command, env=variables, check=True, capture_output=True)
        results = json.loads(Path(folder, "results.json").read_text("utf-8"))
    speed: float = results["speed"]["prompts_per_s"]
    return speed
