"""The files of the chart that are made from the service's settings."""

import pytest

from helm.generate import CHART, made


@pytest.mark.parametrize("path", made(), ids=lambda path: path.name)
def test_a_made_file_of_the_chart_is_up_to_date(path):
    assert path.read_text(encoding="utf-8") == made()[path], (
        f"{path.relative_to(CHART.parent.parent)} is out of date: run `make chart`"
    )
