"""How many prompts `cocoa evaluate` does in a second, with one matrix of similarities each."""

import os
import subprocess
import sysconfig
import tempfile
import time
from pathlib import Path

# Nothing that asks the NLI model, whose pairs would be a second matrix.
_ESTIMATORS = "cocoa_sp,cocoa_ppl,cocoa_mte,rb_cocoa_sp,sp,ppl,mte,consistency"


def prompts_per_second(model: str, similarity_model: str, num_prompts: int) -> float:
    """Of two runs, a short and a long one, the prompts and the seconds that they differ by.

    So loading models and writing the report do not count.
    """
    few = max(1, num_prompts // 6)
    short, long = (_seconds(model, similarity_model, count) for count in (few, num_prompts))
    return (num_prompts - few) / (long - short)


def _seconds(model: str, similarity_model: str, num_prompts: int) -> float:
    variables = {name: value for name, value in os.environ.items() if name[:6] != "COCOA_"}
    variables |= {"COCOA_GENERATION__MODEL": model, "COCOA_SIMILARITY__MODEL": similarity_model}
    with tempfile.TemporaryDirectory() as folder:
        command = [str(Path(sysconfig.get_path("scripts")) / "cocoa"), "evaluate", "testbed"]
        command += ["--out", folder, "--limit", str(num_prompts), "--num-resamples", "10"]
        command += ["--estimators", _ESTIMATORS]
        began_at = time.perf_counter()
        subprocess.run(command, env=variables, check=True, capture_output=True)
        return time.perf_counter() - began_at
