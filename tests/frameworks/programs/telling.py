"""What the programs of this folder share: a question, and how they print what they found."""

import json
import re
import sys
from urllib.request import urlopen

URL = f"{sys.argv[1]}/v1"
QUESTION = "What is the capital of France?"
SCORED = {"uncertainty": {"num_samples": 4}}


def tell(names, kept, dropped=()):
    """Print the uncertainty that stands at each of `kept`, and what `dropped` it, as JSON.

    Args:
        names: what the expressions name.
        kept: expressions, as docs/works-with.md has them.
        dropped: texts of all that was got where no uncertainty arrives.
    """
    found = {place: eval(place, names) for place in kept}
    print(json.dumps({"kept": found, "dropped": list(dropped)}))


def spared():
    """No samples beside those that a client that draws them itself asks for."""
    return {"uncertainty": {"estimators": ["sp"]}}


def num_samples():
    """How many the service has drawn since it started, drawn answers among them."""
    with urlopen(f"{sys.argv[1]}/metrics") as told:
        return float(re.search(r"^cocoa_samples_total (.+)$", told.read().decode(), re.M)[1])
