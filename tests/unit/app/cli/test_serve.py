"""`cocoa serve`: a service that is open to others says so when it starts."""

import pytest
from typer.testing import CliRunner

from app.cli import app
from app.main import create_app
from tests.made_keys import keys_in


@pytest.fixture
def warnings(monkeypatch, caplog):
    """What a service with these arguments warns of when its application is made."""

    def serve(*arguments):
        monkeypatch.setattr(
            "app.http.running.run", lambda make_app, *args, **options: make_app(lambda: None)
        )
        result = CliRunner().invoke(app, ["serve", *arguments])
        assert result.exit_code == 0, result.output
        return [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]

    return serve


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "cocoa.example"])
def test_without_keys_an_address_that_others_reach_is_warned_of(warnings, host):
    [message] = warnings("--host", host)
    assert f"listening on {host} without keys" in message
    assert "COCOA_KEYS__FILE" in message


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_on_loopback_there_is_no_warning(warnings, host):
    assert warnings("--host", host) == []
    assert warnings() == []


def test_the_address_of_the_command_decides_whether_foreign_names_are_refused(monkeypatch):
    made = []
    monkeypatch.setattr(
        "app.cli.serve.create_app",
        lambda settings, on_death: made.append(settings) or create_app(settings),
    )
    monkeypatch.setattr(
        "app.http.running.run", lambda make_app, *args, **options: make_app(lambda: None)
    )
    CliRunner().invoke(app, ["serve", "--host", "0.0.0.0"])
    assert [settings.host for settings in made] == ["0.0.0.0"]


def test_with_keys_there_is_no_warning(warnings, monkeypatch, tmp_path):
    monkeypatch.setenv("COCOA_KEYS__FILE", keys_in(tmp_path, one={}).file)
    assert warnings("--host", "0.0.0.0") == []
