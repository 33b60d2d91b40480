"""Programs that some tests run for real.

Where one is missing the test is skipped, or fails where all are required.
"""

import os
import shutil

import pytest


def binary(name):
    """Path of a program."""
    return shutil.which(name) or missing(f"{name} is not installed")


def missing(reason):
    """End a test that lacks what it runs."""
    if os.environ.get("COCOA_TEST_REQUIRE_ALL") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
