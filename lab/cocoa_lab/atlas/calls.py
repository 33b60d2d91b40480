"""Requests in words that one call of a function fulfils, with its arguments by rule."""

from datetime import date, timedelta
from random import Random
from typing import Any

from cocoa_lab.atlas import NUM_OF_KIND
from cocoa_lab.atlas.places import facts_of_countries

_SEED = 70
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_PROPERTIES = {
    "city": {"type": "string", "description": "Name of the city"},
    "arrival": {"type": "string", "description": "First day, as YYYY-MM-DD"},
    "departure": {"type": "string", "description": "Last day, as YYYY-MM-DD"},
    "guests": {"type": "integer", "description": "All of them"},
    "currency": {"type": "string", "description": "ISO 4217 code"},
}
_TOOL = {
    "type": "function",
    "function": {
        "name": "book_hotel",
        "description": "Books a room in a hotel",
        "parameters": {
            "type": "object",
            "properties": _PROPERTIES,
            "required": list(_PROPERTIES),
            "additionalProperties": False,
        },
    },
}


def records() -> list[dict[str, Any]]:
    """Lines of `cocoa_lab.parts.examples`; two arguments have to be worked out, two be known."""
    random, found = Random(_SEED), []  # noqa: S311 - draws questions, and no secrets
    for number, (name, facts) in enumerate(facts_of_countries()[:NUM_OF_KIND]):
        arrival = date(2027, 1, 1) + timedelta(days=random.randrange(330))
        nights, adults, children = random.randint(2, 9), random.randint(1, 4), random.randint(1, 4)
        text = (
            f"Book a hotel in the capital of {name} from {arrival.day} {arrival:%B} {arrival.year} "
            f"for {_NUMBERS[nights - 1]} nights, for {_NUMBERS[adults - 1]} adults and "
            f"{_NUMBERS[children - 1]} children, to be paid in the money of the country."
        )
        arguments = {
            "city": facts["capital"],
            "arrival": arrival.isoformat(),
            "departure": (arrival + timedelta(days=nights)).isoformat(),
            "guests": adults + children,
            "currency": facts["currency_code"],
        }
        line = {
            "id": f"call-{number:03}",
            "task": "atlas-call",
            "messages": [{"role": "user", "content": text}],
            "tools": [_TOOL],
            "tool_choice": "required",  # many small models write JSON that is no call
            "reference": [{"name": "book_hotel", "arguments": arguments}],
            "max_new_tokens": 120,
        }
        found.append(line)
    return found
