"""Images are built once for all tests.

With COCOA_TEST_KEEP_IMAGES=1 those of an earlier run serve, while tests are written.
"""

import os

import pytest

from tests.deploy import containers


def image(name):
    found = f"localhost/cocoa-{name}:{containers.VERSION}"
    if not (os.environ.get("COCOA_TEST_KEEP_IMAGES") and containers.exists(found)):
        print(f"\n{name} built in {containers.build(name):.0f} s")
    return found


@pytest.fixture(scope="session")
def gateway_image():
    return image("gateway")


@pytest.fixture(scope="session")
def worker_image():
    return image("worker")


def pytest_configure(config):
    # Connections that a killed process leaves behind are no fault of a test.
    config.addinivalue_line("filterwarnings", "ignore::pytest.PytestUnraisableExceptionWarning")
