"""The functions that a chat may offer, requests for them, and what becomes of their results."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cocoa_lab.embedded.world.knowledge import Knowledge
from cocoa_lab.embedded.world.mentions import Mention, mention
from cocoa_lab.embedded.world.pen import Pen

Mentions = Mapping[str, Mention]


@dataclass(frozen=True, slots=True)
class Tool:
    """A function.

    Attributes:
        description: a few words.
        arguments: by name, what is mentioned there: "city", "country", "currency", "language",
            "number", "time" or "phrase".
        requests: wordings with the arguments' names in braces.
        result: draws what the function returns.
        reply: an answer from arguments and result.
    """

    name: str
    description: str
    arguments: Mapping[str, str]
    requests: tuple[str, ...]
    result: Callable[[Pen], Mapping[str, Any]]
    reply: str


_SKIES = ("sun", "rain", "snow", "fog", "wind")
_PHRASES = ("good morning", "thank you", "where is the station", "a cup of tea", "see you soon")


def _weather(pen: Pen) -> Mapping[str, Any]:
    return {"degrees": pen.rng.randint(-10, 40), "sky": pen.choose(_SKIES)}


def _time(pen: Pen) -> Mapping[str, Any]:
    return {"time": clock(pen)}


def _distance(pen: Pen) -> Mapping[str, Any]:
    return {"km": pen.rng.randint(20, 9000)}


def _amount(pen: Pen) -> Mapping[str, Any]:
    return {"amount": pen.rng.randint(2, 900)}


def _train(pen: Pen) -> Mapping[str, Any]:
    return {"departure": clock(pen), "price": pen.rng.randint(9, 300)}


def _people(pen: Pen) -> Mapping[str, Any]:
    return {"people": pen.rng.randint(10, 99) * 10 ** pen.rng.randint(4, 6)}


def clock(pen: Pen) -> str:
    return f"{pen.rng.randrange(24):02}:{pen.rng.randrange(0, 60, 5):02}"


TOOLS = (
    Tool(
        "get_weather",
        "Weather in a city",
        {"city": "city"},
        ("What is the weather in {city}?", "How warm is it in {city}?", "Does it rain in {city}?"),
        _weather,
        "It is {degrees} degrees with {sky} in {city}.",
    ),
    Tool(
        "get_time",
        "Local time in a city",
        {"city": "city"},
        ("What time is it in {city}?", "How late is it in {city}?", "Tell me the time in {city}."),
        _time,
        "It is {time} in {city}.",
    ),
    Tool(
        "get_distance",
        "Distance between two cities",
        {"from": "city", "to": "city"},
        ("How far is it from {from} to {to}?", "What is the distance from {from} to {to}?"),
        _distance,
        "It is {km} km from {from} to {to}.",
    ),
    Tool(
        "convert_money",
        "Amount in another currency",
        {"amount": "number", "from": "currency", "to": "currency"},
        ("Change {amount} of {from} into {to}.", "How much are {amount} of {from} in {to}?"),
        _amount,
        "You get {result} {to}.",
    ),
    Tool(
        "book_train",
        "Train for some people",
        {"from": "city", "to": "city", "people": "number"},
        (
            "Book a train from {from} to {to} for {people} people.",
            "I need a train from {from} to {to} for {people}.",
        ),
        _train,
        "Your train to {to} leaves at {departure} and costs {price}.",
    ),
    Tool(
        "translate",
        "Text in a language",
        {"text": "phrase", "language": "language"},
        ("Say '{text}' in {language}.", "What is '{text}' in {language}?"),
        lambda pen: {"text": pen.choose(_PHRASES)},
        "It is: {text}",
    ),
    Tool(
        "set_alarm",
        "Alarm at a time",
        {"time": "time"},
        ("Wake me at {time}.", "Set an alarm for {time}."),
        lambda _: {"ok": True},
        "I will wake you at {time}.",
    ),
    Tool(
        "count_people",
        "People in a country",
        {"country": "country"},
        ("How many people live in {country} today?", "Count the people of {country}."),
        _people,
        "{people} people live in {country}.",
    ),
)


def described(tool: Tool) -> dict[str, Any]:
    """The function as chats offer it."""
    properties: dict[str, Any] = {}
    for name, what in tool.arguments.items():
        properties[name] = {"type": "integer" if what == "number" else "string"}
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def mentions_for(tool: Tool, knowledge: Knowledge, pen: Pen) -> dict[str, Mention]:
    """Something for each argument."""
    mentions = {}
    for name, what in tool.arguments.items():
        if what == "number":
            number = str(pen.rng.randint(2, 99))
            mentions[name] = Mention(number, number)
        elif what == "time":
            time = clock(pen)
            mentions[name] = Mention(time, time)
        elif what == "phrase":
            phrase = pen.choose(_PHRASES)
            mentions[name] = Mention(phrase, phrase)
        else:
            mentions[name] = mention(what, knowledge, pen)
    return mentions


def request(tool: Tool, mentions: Mentions, pen: Pen) -> str:
    text = pen.choose(tool.requests)
    return text.format(**{name: one.words for name, one in mentions.items()})


def call(tool: Tool, mentions: Mentions) -> dict[str, Any]:
    """The right call for a request with these mentions."""
    arguments: dict[str, Any] = {}
    for name, what in tool.arguments.items():
        value = mentions[name].value
        arguments[name] = int(value) if what == "number" else value
    return {"name": tool.name, "arguments": arguments}


def answer(tool: Tool, mentions: Mentions, result: Mapping[str, Any]) -> str:
    """What is told of a call's result."""
    values = {name: one.value for name, one in mentions.items()}
    return tool.reply.format(**{**values, **result, "result": result.get("amount")})
