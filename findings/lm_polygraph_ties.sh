#!/usr/bin/env bash
# LM-Polygraph 0.7.0, `PredictionRejectionArea`, the metric behind its PRR: answers of equal uncertainty are rejected in
# whatever order `argsort` leaves them, which follows their rows. So a score with ties (a number of meanings, a share
# of ten samples that agree) has another PRR once the rows are in another order, and a constant score may look good or
# bad. Nothing warns. It hurts whoever compares estimators over a file that is sorted by topic or by difficulty, and a
# score with many ties with one without. One expects the mean over the orders of ties, .5 for a constant score.
# Here are the same twenty answers in two orders, and areas up to half of them rejected. The figures differ from one
# processor to another, as numpy's sorts do.
#   seen: constant, right ones first 0.669, the same rows backwards 0.331; three levels 0.612, 0.432
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-deps "lm-polygraph==0.7.0" "numpy==2.4.6"
"$folder/venv/bin/python" - <<'PYTHON'
import sys
import types
from importlib.util import find_spec

# The package's own start imports torch and transformers, which this file of it does not need.
path = list(find_spec("lm_polygraph").submodule_search_locations)
for name in ("lm_polygraph", "lm_polygraph.ue_metrics"):
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = [folder + name.removeprefix("lm_polygraph").replace(".", "/") for folder in path]
from lm_polygraph.ue_metrics.pred_rej_area import PredictionRejectionArea

right = [1] * 10 + [0] * 10
levels = {"constant": [1] * 20, "three levels": [1, 2, 2, 2, 2, 2, 2, 2, 2, 3] + [2] * 9 + [3]}
area = PredictionRejectionArea(max_rejection=0.5)
for name, uncertainty in levels.items():
    both = [area(uncertainty, right), area(uncertainty[::-1], right[::-1])]
    print(name, "right ones first {:.3f}, the same rows backwards {:.3f}".format(*both))
    assert abs(both[0] - both[1]) > 0.05, "LM-Polygraph has changed"
PYTHON
