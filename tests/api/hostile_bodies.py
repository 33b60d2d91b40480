"""Hostile request bodies, the same in every run: each kind is a function of a seeded generator."""

import json

MARKER = "zanzibar-sentinel"
LIMIT = 20_000  # bytes of a body; small, so that bodies around it are cheap

GENERATE = {
    "prompt": f"{MARKER}?",
    "estimators": ["cocoa_ppl", "inconsistency"],
    "estimator": "cocoa_ppl",
    "similarity": "fake",
    "num_samples": 3,
    "max_new_tokens": 8,
    "temperature": 1.0,
    "top_k": 50,
    "top_p": 1.0,
    "stop": [MARKER],
    "seed": 1,
    "return_samples": True,
    "return_tokens": True,
    "timeout_s": 30.0,
    "cache": False,
}
CHAT = {
    "messages": [{"role": "user", "content": MARKER}],
    "chat_template_kwargs": {"a": MARKER},
    "max_new_tokens": 8,
    "strategy": "mbr",
    "mode": "full",
}
SCORE = GENERATE | {
    "answer": f"{MARKER}.",
    "append_eos": True,
    "samples": [{"text": MARKER, "token_logprobs": [-0.5]}],
}
TEXTS = {"answer": MARKER, "samples": [{"text": MARKER}, {"text": "Lyon"}]}
BODIES = {
    "/generate-with-uncertainty": [GENERATE, CHAT],
    "/score": [SCORE, TEXTS, {"items": [SCORE, TEXTS]}],
}
JSON = "application/json"

_NUMBERS = [
    *[0, -0.0, -1, 1, 7, 64, 65, 513, 2**31, 2**63 - 1, 2**63, 10**400],
    *[0.5, 2.0, 1e-320, 1e308, -1e308],
]
_TEXTS = ["", " ", "1", "NaN", "null", "greedy", "mbr", "nli", "p_true", MARKER]
_NESTS = [
    *[[], {}, [[]], [None], [MARKER], [1, 2.5], {"": None}, {MARKER: MARKER}, [{}], [[[MARKER]]]],
    ["sp"] * 3,
]
VALUES = [None, True, False, *_NUMBERS, *_TEXTS, *_NESTS]
LITERALS = [
    *["NaN", "Infinity", "-Infinity", "nan", "1e400", "-1e400", "1e-400", "-0", "-0.0", "0e0"],
    *["1E+2", "1e99999999999", "True", "None", "undefined", "'a'", "0x10", "010", "1.", ".5", "+1"],
    *["1e", "--1", "1_000", "[1,]", "{,}", "", '{"a":1,}', r'"\x41"', r'"\u12"', r'"\ud800"'],
    *[r'"\udc00\ud800"', r'"\u0000"', '"\n"', '"\t"', "1 // a", "9" * 400, "9" * 5000],
    *["0." + "1" * 5000, "/* */ 1", "[" * 50 + "]" * 50],
]
# Controls, directions, byte order marks, non-characters, halves of pairs, and letters that
# normalisation changes.
SPELLINGS = [
    *'\x00\x1b\u202e\ufeff\u200b\ufffe\uffff\U0010ffff\ud800\udfff\u00e9\u212b\ufb01\uff50\u0130\u00df\ufdfa\u2028\\"',
    *["\udc00\ud800", "e\u0301", "\u1e9b\u0323", "a" + "\u0300" * 200, "\u0661\u0662", "\r\n"],
    *["\U0001f469\u200d\U0001f680", "{{ 7*7 }}", "{% raise %}", "%s%n", "${x}", "<think>"],
    *["</think>", "<|endoftext|>", "../../etc/passwd"],
]
CONTENT_TYPES = [
    *[None, "", "text/plain", "application/x-www-form-urlencoded", "application/octet-stream"],
    *["application/xml", "multipart/form-data", "multipart/form-data; boundary=x"],
    *["application/json; charset=utf-16", "APPLICATION/JSON", "application/json; charset=x"],
    *["application/vnd.api+json", "json", "/", ";", "application/json" * 100, "\xff"],
]
ENCODINGS = ["utf-8-sig", "utf-16", "utf-16-le", "utf-32", "utf-32-be", "latin-1", "utf-7", "cp037"]


def places(value, path=()):
    """Paths to every value in a body, the body's own () included."""
    yield path
    children = []
    if isinstance(value, dict | list):
        children = value.items() if isinstance(value, dict) else enumerate(value)
    for key, child in children:
        yield from places(child, (*path, key))


def with_value(body, path, value):
    """A copy in which `value` stands at a path."""
    if not path:
        return value
    copy = dict(body) if isinstance(body, dict) else list(body)
    copy[path[0]] = with_value(body[path[0]], path[1:], value)
    return copy


def text_places(body):
    return [path for path in places(body) if isinstance(value_at(body, path), str)]


def value_at(body, path):
    for key in path:
        body = body[key]
    return body


def encoded(body):
    return json.dumps(body).encode()


def other_value(random, body):
    """One or two values of another type or size."""
    for _ in range(random.randint(1, 2)):
        body = with_value(body, random.choice(list(places(body))), random.choice(VALUES))
    return encoded(body), JSON


def raw_literal(random, body):
    """A literal that Python's own encoder would not write."""
    marked = json.dumps(with_value(body, random.choice(list(places(body))), "@@@"))
    return marked.replace('"@@@"', random.choice(LITERALS)).encode(), JSON


def strange_text(random, body):
    """Unicode's corners in a text; lone surrogates go as escapes."""
    path = random.choice(text_places(body))
    text = "".join(random.choices([*SPELLINGS, MARKER, " "], k=random.randint(1, 8)))
    return encoded(with_value(body, path, text)), JSON


def strange_key(random, body):
    """A field that nobody knows, or one that looks like a known one."""
    path = random.choice([path for path in places(body) if isinstance(value_at(body, path), dict)])
    alike = ["__proto__", "prompt ", "Prompt", "pr\u043empt", "\uff50rompt", "a.b"]
    key = random.choice([*alike, "", MARKER, "x" * 5000, *SPELLINGS])
    known = value_at(body, path)
    return encoded(with_value(body, path, {**known, key: random.choice(VALUES)})), JSON


def doubled_key(random, body):
    """One key twice, the second with another value."""
    key = random.choice(list(body))
    inner = encoded(body)[1:-1]
    again = json.dumps({key: random.choice(VALUES)}).encode()[1:-1]
    return b"{" + b",".join(random.sample([inner, again], 2)) + b"}", JSON


def deep(random, body):
    """Nesting, closed or not."""
    depth = random.choice([3, 30, 300, 900, 1100, 3000, 9000])
    opening, closing = random.choice([("[", "]"), ('{"a":', "}")])
    nested = opening * depth + "1" + closing * random.choice([depth, depth, 0, depth - 1])
    marked = json.dumps(with_value(body, random.choice(list(places(body))), "@@@"))
    return marked.replace('"@@@"', nested).encode(), JSON


def cut(random, body):
    """The beginning, the end, or a middle that lacks a piece."""
    data = encoded(body)
    start, end = sorted(random.choices(range(len(data) + 1), k=2))
    middle = data[:start] + data[end:]
    pieces = [data[:end], data[start:], middle, b"", b" ", data + data, data + b"x"]
    return random.choice(pieces), JSON


def flipped(random, body):
    """Some bytes are others."""
    data = bytearray(encoded(body))
    for _ in range(random.randint(1, 6)):
        data[random.randrange(len(data))] = random.randrange(256)
    return bytes(data), JSON


def not_utf8(random, body):
    """Another encoding, or bytes that are none."""
    if random.random() < 0.5:
        return json.dumps(body).encode(random.choice(ENCODINGS)), JSON
    data = encoded(body)
    at = data.index(MARKER.encode()) + random.randrange(5)
    wrong = [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x28\xa1"]
    wrong += [b"\x80", b"\x00"]
    return data[:at] + random.choice(wrong) + data[at:], JSON


def other_type(random, body):
    """A content type that is none of JSON's, or strange."""
    data = random.choice([encoded(body), f"prompt={MARKER}".encode(), b"--x\r\n\r\n--x--", b"<a/>"])
    return data, random.choice(CONTENT_TYPES)


def long_list(random, body):
    """Very many small things."""
    count = random.choice([9, 64, 65, 1024, 1025, 3000])
    items = {
        "stop": ["a"],
        "estimators": ["sp", MARKER],
        "items": [{}, 1, TEXTS],
        "messages": [{"role": "user", "content": "a"}],
        "samples": [{}, {"text": "a"}],
    }
    key = random.choice(list(items))
    item = random.choice(items[key])
    return encoded(body | {key: [item] * count}), JSON


def around_the_limit(random, body):
    """A text that brings the body to its limit, or a little to either side."""
    path = random.choice(text_places(body))
    padding = LIMIT - len(encoded(with_value(body, path, ""))) + random.randint(-3, 3)
    text = random.choice(["x", "x ", "\x00", "\u00e9"])
    width = len(json.dumps(text)) - 2
    return encoded(
        with_value(body, path, text * (padding // width) + "x" * (padding % width))
    ), JSON


def noise(random, body):
    """Bytes without any sense."""
    return random.randbytes(random.choice([1, 10, 1000, LIMIT, 2 * LIMIT])), JSON


KINDS = [other_value, raw_literal, strange_text, strange_key, doubled_key, deep, cut, flipped]
KINDS += [not_utf8, other_type, long_list, around_the_limit, noise]
