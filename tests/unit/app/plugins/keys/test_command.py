"""`cocoa key new`: a key that is printed once, and an entry that a service can read."""

import pytest
from typer.testing import CliRunner

from app.cli import app
from app.plugins.keys.records import Key, digest_of, parse_keys


@pytest.fixture
def new(monkeypatch):
    monkeypatch.delenv("COCOA_KEYS__FILE", raising=False)

    def call(*arguments):
        return CliRunner().invoke(app, ["key", "new", *map(str, arguments)])

    return call


def test_the_key_is_all_of_stdout_and_its_entry_is_in_the_file(new, tmp_path):
    file = tmp_path / "keys.toml"
    result = new("search", "--file", file, "--tokens-per-minute", 5, "--mode", "light")
    assert result.exit_code == 0
    key = result.stdout.removesuffix("\n")
    assert parse_keys(file.read_bytes()) == (
        Key("search", (digest_of(key),), namespace="search", tokens_per_minute=5, modes=("light",)),
    )
    assert key not in file.read_text() + result.stderr
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_second_entry_leaves_the_first_its_comments_and_the_rights_of_the_file(new, tmp_path):
    file = tmp_path / "keys.toml"
    first = f'# of the search team\n[[keys]]\nname = "search"\nsha256 = "{digest_of("a")}"'
    file.write_text(first)
    file.chmod(0o640)
    assert new("docs", "--file", file, "--expires", "2027-01-31T12:00:00Z").exit_code == 0
    assert file.read_text().startswith(first)
    assert [key.name for key in parse_keys(file.read_bytes())] == ["search", "docs"]
    assert file.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["keys.toml"]


def test_the_file_may_be_that_of_the_settings(new, tmp_path, monkeypatch):
    monkeypatch.setenv("COCOA_KEYS__FILE", str(tmp_path / "keys.toml"))
    assert new("search").exit_code == 0
    assert len(parse_keys((tmp_path / "keys.toml").read_bytes())) == 1


def test_without_a_file_the_entry_goes_to_stderr(new):
    result = new("search", "--namespace", "people")
    [key] = parse_keys(result.stderr.encode())
    assert (key.name, key.namespace) == ("search", "people")
    assert key.sha256 == (digest_of(result.stdout.strip()),)


@pytest.mark.parametrize("name", ["search", "a b", 'a"', "ä", ""])
def test_a_name_that_is_taken_or_none_gets_no_key_and_changes_nothing(new, tmp_path, name):
    file = tmp_path / "keys.toml"
    assert new("search", "--file", file).exit_code == 0
    before = file.read_bytes()
    result = new(name, "--file", file)
    assert (result.exit_code, result.stdout) == (1, "")
    assert file.read_bytes() == before


def test_a_file_that_cannot_be_used_gets_no_key(new, tmp_path):
    file = tmp_path / "keys.toml"
    file.write_text("no TOML")
    result = new("search", "--file", file)
    assert (result.exit_code, result.stdout, file.read_text()) == (1, "", "no TOML")
    result = new("search", "--file", tmp_path / "nosuch" / "keys.toml")
    assert (result.exit_code, result.stdout) == (1, "")
