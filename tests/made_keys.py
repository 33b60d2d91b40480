"""Keys for tests, and the files that they stand in."""

import json

from app.plugins.keys.records import KeysConfig, digest_of


def key_of(name):
    """The key of a name."""
    return f"cocoa_secret-of-{name}"


def bearer(name):
    """The headers of a request with the key of a name."""
    return {"Authorization": f"Bearer {key_of(name)}"}


def keys_toml(**limits):
    """A file of keys: limits, and whatever else an entry has, by name."""
    entries = []
    for name, fields in limits.items():
        lines = ["[[keys]]", f'name = "{name}"', f'sha256 = "{digest_of(key_of(name))}"']
        lines += [f"{field} = {_toml(value)}" for field, value in fields.items()]
        entries.append("\n".join([*lines, ""]))
    return "\n".join(entries)


def keys_in(folder, *, shared_rows=32, **limits):
    """The settings of a file of keys in this folder."""
    file = folder / "keys.toml"
    file.write_text(keys_toml(**limits))
    return KeysConfig(str(file), shared_rows)


def _toml(value):
    return value.isoformat() if hasattr(value, "isoformat") else json.dumps(value)
