"""The file of keys: what it may say, and that no fault quotes a value."""

import pytest

from app.plugins.keys.records import Key, KeysFileInvalid, digest_of, new_key, parse_keys

ONE, OTHER = digest_of("one"), digest_of("other")
MARKER = "cocoa_sesame-4711-sesame-4711-sesame-4711"


def entry(**fields):
    lines = ["[[keys]]"]
    for name, value in ({"name": '"search"', "sha256": f'"{ONE}"'} | fields).items():
        lines.append(f"{name} = {value}")
    return "\n".join(lines) + "\n"


def test_an_entry_has_a_name_a_hash_and_no_limits_by_default():
    assert parse_keys(entry().encode()) == (Key("search", (ONE,), namespace="search"),)


# id: (the file, what its fault says)
INVALID = {
    "empty": ("", "it holds no [[keys]]"),
    "no TOML": ("[[keys]]\nname = \n", "it is not TOML, at line 2"),
    "half a file": (entry()[:40], "it is not TOML"),
    "an unknown table": (entry() + "[limits]\n", "nothing else"),
    "an unknown limit": (entry(requests_per_second=1), "entry 1: requests_per_second: "),
    "a key as a field": (entry(**{MARKER: 1}), "entry 1: a field: "),
    "no entries": ("keys = []", "it holds no [[keys]]"),
    "a number as an entry": ("keys = [1]", "entry 1 is no table"),
    "no name": ('[[keys]]\nsha256 = ""\n', "entry 1: name: "),
    "a name with a blank": (entry(name='"a b"'), "entry 1: name: "),
    "no hash": ('[[keys]]\nname = "a"\n', "entry 1: sha256: "),
    "the key in place of its hash": (entry(sha256=f'"{MARKER}"'), "entry 1: sha256: "),
    "the key among hashes": (entry(sha256=f'["{ONE}", "{MARKER}"]'), "entry 1: sha256: "),
    "no hashes": (entry(sha256="[]"), "entry 1: sha256: "),
    "a limit of 0": (entry(max_concurrent=0), "entry 1: max_concurrent: "),
    "a limit in words": (entry(tokens_per_minute='"60"'), "entry 1: tokens_per_minute: "),
    "an unknown mode": (entry(modes='["dark"]'), "entry 1: modes: "),
    "no modes": (entry(modes="[]"), "entry 1: modes: "),
    "a time without its zone": (entry(expires="2027-01-31T12:00:00"), "entry 1: expires: "),
    "a name twice": (entry() + entry(sha256=f'"{OTHER}"'), "a name stands in it twice"),
    "a hash twice": (entry() + entry(name='"b"'), "a sha256 stands in it twice"),
    "a fault in the second entry": (entry() + entry(modes="1"), "entry 2: modes: "),
}


@pytest.mark.parametrize(("content", "fault"), INVALID.values(), ids=INVALID)
def test_another_file_is_refused_by_entry_and_field_and_no_value_is_quoted(content, fault):
    with pytest.raises(KeysFileInvalid) as caught:
        parse_keys(content.encode())
    assert fault in str(caught.value)
    assert "sesame" not in str(caught.value)


def test_a_file_that_is_no_text_is_refused():
    with pytest.raises(KeysFileInvalid, match="UTF-8"):
        parse_keys(b"\xff")


def test_new_keys_differ_and_hold_256_random_bits():
    keys = {new_key() for _ in range(8)}
    assert len(keys) == 8
    assert {len(key) for key in keys} == {len("cocoa_") + 43}
