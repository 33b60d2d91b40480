"""Pure: why no text can follow a grammar, in words of ours."""

TOO_LONG = "takes too long to compile"
TOO_LARGE = "takes too much memory to compile"
TOO_COMPLEX = "is too complex to be followed"
BROKEN = "is more than its compiler can take"
_NOTHING_VALID = "nothing is valid under it"
_OTHERWISE = "cannot be followed"
_MEETING = "patternProperties: two patterns may match the same name"
# Words within an error of llguidance, in small letters, and the rule that they mean.
_RULES = {
    "not disjoint": _MEETING,
    "are disjoint": _MEETING,
    "lookarounds": "a pattern looks around, by a sign such as \\b, or ^ and $ within",
    "regex parse error": "a pattern cannot be read",
    "if regex is empty": "a pattern is too complex beside the other bounds of its string",
    "min/maxproperties": "minProperties and maxProperties take all of properties to be required",
    "circular references": "a $ref in a circle has other keywords beside it",
    "unsatisfiable": _NOTHING_VALID,
    "noextension": _NOTHING_VALID,
    **dict.fromkeys(("stack", "too large", "too many", "fuel", "limit", "items"), TOO_COMPLEX),
}


def rule_of(message: str) -> str:
    """The rule that llguidance means by an error of its own."""
    message = message.lower()
    return next((rule for words, rule in _RULES.items() if words in message), _OTHERWISE)


def refusal(rule: str = TOO_COMPLEX) -> str:
    return f"no answer can be held to it: {rule}"
