"""Images are built once for all tests, while those run that need none.

With COCOA_TEST_KEEP_IMAGES=1 those of an earlier run serve, while tests are written.
"""

import os
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.deploy import containers

_WANTING = {"image", "gateway_image", "worker_image", "image_built_again"}
_builds: dict[str, Future] = {}


def pytest_collection_finish(session):
    wanting = [item for item in session.items if _WANTING.intersection(item.fixturenames)]
    if not wanting or session.config.option.collectonly:
        return
    pool = ThreadPoolExecutor(2)
    _builds["worker"] = pool.submit(image, "worker")
    _builds["gateway"] = pool.submit(image, "gateway")
    _builds["again"] = pool.submit(image, "gateway", "again")
    pool.shutdown(wait=False)


def image(name, tag=containers.VERSION):
    found = f"localhost/cocoa-{name}:{tag}"
    if not (os.environ.get("COCOA_TEST_KEEP_IMAGES") and containers.exists(found)):
        print(f"\n{name} built in {containers.build(name, tag):.0f} s")
    return found


@pytest.fixture(scope="session")
def gateway_image():
    return _builds["gateway"].result()


@pytest.fixture(scope="session")
def worker_image():
    return _builds["worker"].result()


@pytest.fixture(scope="session")
def image_built_again():
    """Of the gateway."""
    return _builds["again"].result()


def pytest_configure(config):
    # Connections that a killed process leaves behind are no fault of a test.
    config.addinivalue_line("filterwarnings", "ignore::pytest.PytestUnraisableExceptionWarning")
