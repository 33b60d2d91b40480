"""Fill in who publishes this and where it is, in what a release is built of.

    python .ci/fill.py OWNER/NAME MAINTAINERS_EMAIL SECURITY_EMAIL

It changes nothing and ends with 1 where a value is none of these, or a place would stay as it is.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
FILES = ("README.md", "SECURITY.md", "pyproject.toml")
NOBODY = "your-organisation"
_EMAIL = r"[^@\s]+@[^@\s]+\.[^@\s]+"
# What stands in a place, and what a value of it looks like, in the order of the command line.
PLACES = {
    f"https://github.com/{NOBODY}/cocoa-serve": r"[\w.-]+/[\w.-]+",
    f"maintainers@{NOBODY}.example": _EMAIL,
    f"security@{NOBODY}.example": _EMAIL,
}


def filled(text: str, values: list[str]) -> str:
    """The text with each place filled.

    Raises:
        ValueError: a value does not fit its place, or a place is none of those that are known.
    """
    for (place, shape), value in zip(PLACES.items(), values, strict=True):
        if NOBODY in value or re.fullmatch(shape, value) is None:
            raise ValueError(f"{value!r} cannot stand in the place of {place}")
        written = f"https://github.com/{value}" if place.startswith("https") else value
        text = text.replace(place, written)
    if NOBODY in text:
        raise ValueError(f"{NOBODY} stands in a place that is not known here")
    return text


def main(values: list[str]) -> None:
    """Fill in all files, or none."""
    paths = [ROOT / name for name in FILES]
    made = [filled(path.read_text(), values) for path in paths]
    for path, text in zip(paths, made, strict=True):
        path.write_text(text)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ValueError as error:
        sys.exit(f"{Path(__file__).name}: {error}")
