"""Shared by tests of the lab."""

import pytest
from matplotlib.figure import Figure

EMPTY = '<svg xmlns="http://www.w3.org/2000/svg"></svg>'


@pytest.fixture(scope="module")
def undrawn():
    """Figures are made and not drawn, which takes most of an evaluation; `test_plots` draws."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", lambda self, path, **_: path.write_text(EMPTY))
        yield
