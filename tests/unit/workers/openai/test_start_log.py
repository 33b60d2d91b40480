"""What a process says of its server at its start."""

import logging

import pytest

from models.embedded import PROBES_DIR
from models.probes.protocol import ProbeConfig
from tests.openai_server import openai_server
from workers.config import GeneratorConfig
from workers.hooks import Hooks
from workers.openai.generator import connect_generator, probe_infos

pytestmark = pytest.mark.anyio
PROBE = "predicted_dissimilarity"


async def told_at_start(caplog, config, **traits):
    caplog.set_level(logging.INFO)
    async with openai_server(**traits) as server:
        servers = GeneratorConfig(url=server.url, api="openai").place()
        generator = await connect_generator(servers, Hooks(), config)
        await generator.close()
    found = [one for one in caplog.records if one.name == "workers.openai.start_log"]
    return [one.message for one in found], [one for one in found if one.levelname == "WARNING"]


async def test_what_the_server_can_and_cannot_is_logged_with_the_reasons(caplog):
    lines, warnings = await told_at_start(caplog, ProbeConfig(), probes=())

    assert "entropy_method=exact" in lines[0]
    assert "images: the server of the model takes no images" in lines[1]
    assert PROBE in lines[1]
    assert warnings == []  # the embedded probes are nobody's wish


async def test_light_that_is_off_although_a_probe_is_set_is_a_warning(caplog):
    set_ = ProbeConfig(consistency=str(PROBES_DIR / "consistency"))
    _, [warning] = await told_at_start(caplog, set_, tokenizes=False)

    assert PROBE in warning.getMessage()
    assert "needs the plugin" in warning.getMessage()


async def test_light_that_works_is_no_warning(caplog):
    set_ = ProbeConfig(consistency=str(PROBES_DIR / "consistency"))
    read = (probe_infos(set_)[PROBE].sha256,)
    _, warnings = await told_at_start(caplog, set_, probes=read)

    assert warnings == []
