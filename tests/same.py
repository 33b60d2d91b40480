"""Equality of records that hold arrays, which `==` does not compare as one."""

from dataclasses import fields

import numpy as np


def assert_same(one, other):
    """Two values are of the same types and equal, arrays and dataclasses within them too."""
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other)
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            assert_same(one[name], other[name])
    elif hasattr(one, "__dataclass_fields__"):
        for field in fields(one):
            assert_same(getattr(one, field.name), getattr(other, field.name))
    else:
        assert one == other
