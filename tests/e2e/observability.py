"""Our rules and our dashboard for Prometheus and Grafana, as they are read by tests."""

import json
import re
import subprocess
from pathlib import Path

from tests.binaries import binary

OBSERVABILITY = Path(__file__).parents[2] / "docker" / "observability"
RULES = OBSERVABILITY / "alerts.yml"
DASHBOARD = json.loads((OBSERVABILITY / "dashboard.json").read_text())
VARIABLES = {
    "$__rate_interval": "1m",
    "$__range": "1h",
    "$job": "cocoa-serve",
    "$instance": ".+",
    "$estimator": "cocoa_ppl",
}


def dashboard_expressions():
    expressions = []
    for panel in DASHBOARD["panels"]:
        expressions += [target["expr"] for target in panel.get("targets", ())]
    return expressions


def rule_expressions():
    """Expressions by name of their rule; the file is flat enough to need no YAML library."""
    text = re.sub(r"^ *#.*\n", "", RULES.read_text(), flags=re.MULTILINE)
    expressions = {}
    for rule in re.split(r"^ {6}- (?=alert|record)", text, flags=re.MULTILINE)[1:]:
        name = re.match(r"\w+: (\S+)", rule)[1]
        expression = re.search(r"expr:(.*?)(?=^ {8}\w|\Z)", rule, re.DOTALL | re.MULTILINE)
        expressions[name] = expressions.get(name, "") + expression[1]
    return expressions


def promtool(*arguments, text=None):
    command = [binary("promtool"), *map(str, arguments)]
    result = subprocess.run(command, input=text, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr
