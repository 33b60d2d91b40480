"""Server-sent events, read as a browser reads them."""

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    name: str
    data: object


def events_of(text):
    """The events of a stream; comments are none."""
    events = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line[:1] != ":")
        if "data" in fields:
            data = fields["data"]
            data = data if data == "[DONE]" else json.loads(data)
            events.append(Event(fields.get("event", "message"), data))
    assert text.endswith("\n\n")
    return events


def named(events, name):
    """What the events of a name say."""
    return [event.data for event in events if event.name == name]
