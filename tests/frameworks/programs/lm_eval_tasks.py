# /// script
# dependencies = ["lm-eval[api]==0.4.13", "transformers==5.23.0"]
# ///
"""lm-eval's own command, in its own environment: the arguments are its."""

from lm_eval.__main__ import cli_evaluate

cli_evaluate()
