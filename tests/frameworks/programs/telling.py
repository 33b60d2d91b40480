"""What the programs of this folder share: a question, and how they print what they found."""

import json
import sys

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
