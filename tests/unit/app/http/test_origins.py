"""Which requests are of foreign pages."""

import pytest

from app.http.access import Origins
from models.errors import Forbidden

LOOPBACK, POD = "127.0.0.1", "0.0.0.0"
ATTACKER = "http://evil.example:8000"


def field_of(origins, method="POST", **headers):
    """The setting that a refusal names; None where there is none."""
    given = []
    for name, value in headers.items():
        given.append((name.replace("_", "-").encode(), value.encode()))
    try:
        origins.check(method, given)
    except Forbidden as error:
        return next(word.rstrip(":") for word in str(error).split() if word.startswith("COCOA_"))
    return None


# id: headers
LET_IN_ON_LOOPBACK = {
    "curl by address": {"host": "127.0.0.1:8000"},
    "curl by name": {"host": "localhost:8000"},
    "IPv6": {"host": "[::1]:8000"},
    "a Service of compose": {"host": "cocoa:8000"},
    "a name under localhost": {"host": "cocoa.localhost"},
    "no name, as of HTTP/1.0": {},
    "the page itself": {"host": "localhost:8000", "origin": "http://localhost:8000"},
    "the page itself, told by the browser": {
        "host": "localhost:8000",
        "origin": "http://localhost:8000",
        "sec_fetch_site": "same-origin",
    },
    "behind a development server": {
        "host": "localhost:8000",
        "origin": "http://localhost:3000",
        "sec_fetch_site": "same-origin",
    },
    "behind a proxy": {
        "host": "127.0.0.1:8000",
        "origin": "http://cocoa.example",
        "x_forwarded_host": "cocoa.example",
    },
    "a typed address": {"host": "localhost:8000", "sec_fetch_site": "none"},
}
REFUSED_ON_LOOPBACK = {
    "rebinding": ({"host": "evil.example:8000", "origin": ATTACKER}, "COCOA_ALLOWED_HOSTS"),
    "rebinding, as a browser tells": (
        {"host": "evil.example:8000", "origin": ATTACKER, "sec_fetch_site": "same-origin"},
        "COCOA_ALLOWED_HOSTS",
    ),
    "rebinding without an origin": ({"host": "evil.example:8000"}, "COCOA_ALLOWED_HOSTS"),
    "a name that begins like an address": (
        {"host": "127.0.0.1.evil.example"},
        "COCOA_ALLOWED_HOSTS",
    ),
    "a name that ends like localhost": ({"host": "evil.notlocalhost"}, "COCOA_ALLOWED_HOSTS"),
    "another origin": ({"host": "localhost:8000", "origin": ATTACKER}, "COCOA_CORS_ORIGINS"),
    "another port": (
        {"host": "localhost:8000", "origin": "http://localhost:3000"},
        "COCOA_CORS_ORIGINS",
    ),
    "a frame without an origin": (
        {"host": "localhost:8000", "origin": "null"},
        "COCOA_CORS_ORIGINS",
    ),
    "a form of another site": (
        {"host": "localhost:8000", "sec_fetch_site": "cross-site"},
        "COCOA_CORS_ORIGINS",
    ),
    "a form of a neighbour": (
        {"host": "localhost:8000", "origin": "https://a.example", "sec_fetch_site": "same-site"},
        "COCOA_CORS_ORIGINS",
    ),
}


@pytest.mark.parametrize("headers", LET_IN_ON_LOOPBACK.values(), ids=list(LET_IN_ON_LOOPBACK))
@pytest.mark.parametrize("address", [LOOPBACK, POD])
def test_what_a_person_or_a_program_here_asks_is_let_in(address, headers):
    assert field_of(Origins(address, (), ()), **headers) is None


@pytest.mark.parametrize(
    ("headers", "setting"), REFUSED_ON_LOOPBACK.values(), ids=list(REFUSED_ON_LOOPBACK)
)
def test_what_a_foreign_page_asks_is_refused_and_names_the_setting(headers, setting):
    assert field_of(Origins(LOOPBACK, (), ()), **headers) == setting


@pytest.mark.parametrize(
    "host", ["10.1.2.3:8000", "cocoa.team.svc.cluster.local:8000", "cocoa.example"]
)
def test_elsewhere_any_name_will_do_but_no_foreign_origin(host):
    origins = Origins(POD, (), ())
    assert field_of(origins, host=host) is None
    assert field_of(origins, host=host, origin=f"http://{host}") is None
    assert field_of(origins, host=host, origin=ATTACKER) == "COCOA_CORS_ORIGINS"


def test_names_that_a_deployment_lists_are_its_own_and_no_others():
    for address in (LOOPBACK, POD):
        origins = Origins(address, ("Cocoa.example",), ())
        assert field_of(origins, host="cocoa.example:443") is None
        assert field_of(origins, host="10.1.2.3:8000") is None, "probes of Kubernetes"
        assert field_of(origins, host="evil.example") == "COCOA_ALLOWED_HOSTS"
        assert field_of(Origins(address, ("*",), ()), host="evil.example") is None


def test_origins_that_a_deployment_lists_may_ask():
    for listed in ("https://app.example", "*"):
        origins = Origins(LOOPBACK, (), (listed,))
        for site in ({}, {"sec_fetch_site": "cross-site"}):
            given = {"host": "localhost:8000", "origin": "https://app.example"} | site
            assert field_of(origins, **given) is None
    refused = field_of(
        Origins(LOOPBACK, (), ("https://app.example",)), host="localhost", origin=ATTACKER
    )
    assert refused == "COCOA_CORS_ORIGINS"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_link_of_another_site_may_be_followed(method):
    origins = Origins(LOOPBACK, (), ())
    followed = {"host": "localhost:8000", "sec_fetch_site": "cross-site"}
    assert field_of(origins, method, **followed) is None
    fetched = followed | {"origin": "https://a.example"}
    assert field_of(origins, method, **fetched) == "COCOA_CORS_ORIGINS"
