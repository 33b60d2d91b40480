"""Clients of others, unmodified, each in an environment of its own: where the uncertainty arrives.

Only `make test-clients` runs this; docs/works-with.md has what it finds.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.chaos.cocoa_process import cocoa_serve

PROGRAMS = Path(__file__).with_name("programs")
REPOSITORY = Path(__file__).parents[2]
ENVIRONMENTS = Path(os.environ.get("COCOA_TEST_CLIENT_ENVIRONMENTS", ".venv-clients")).absolute()
TABLE = (REPOSITORY / "docs/works-with.md").read_text()
OF_OTHERS = {"telling", "langchain_standard", "lm_eval_tasks", "guidellm_load", "aiperf_load"}
NAMES = sorted({path.stem for path in PROGRAMS.glob("*.py")} - OF_OTHERS)
OFFLINE = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "HAYSTACK_TELEMETRY_ENABLED": "False"}


def python_of(name):
    """The interpreter that has what a program needs."""
    return ENVIRONMENTS / name / "bin/python"


@pytest.fixture(scope="module")
def url():
    with cocoa_serve(COCOA_NLI__MODEL="", COCOA_MCP="true") as serving:
        serving.wait_ready(300)
        yield serving.url


@pytest.mark.parametrize("name", NAMES)
def test_the_uncertainty_arrives_where_the_documentation_says(url, name):
    done = subprocess.run(
        [python_of(name), "-W", "ignore", PROGRAMS / f"{name}.py", url],
        env=os.environ | OFFLINE | {"PYTHONPATH": str(REPOSITORY / "clients/python")},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    for place, uncertainty in told["kept"].items():
        assert f"`{place}`" in TABLE
        value = uncertainty["value"] if isinstance(uncertainty, dict) else uncertainty
        assert 0 <= value < 1
    for got in told["dropped"]:
        assert "Paris" in got
        assert "rb_cocoa" not in got
