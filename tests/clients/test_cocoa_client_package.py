"""What our own client is made of: generated files, a class for each code, a small wheel."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from cocoa_client import CocoaError, errors

FOLDER = Path(__file__).parents[2] / "clients" / "python"


@pytest.mark.anyio
async def test_every_error_of_the_document_has_a_class(service):
    document, codes = (await service.client.get("/openapi.json")).json(), set()
    for path, methods in document["paths"].items():
        for operation in [] if path.startswith("/v1/") else methods.values():
            for status, response in operation["responses"].items():
                if status != "200":
                    codes |= response["content"]["application/json"]["examples"].keys()
    assert len(codes) > 20
    assert codes <= errors.BY_CODE.keys()
    assert all(issubclass(one, CocoaError) for one in errors.BY_CODE.values())


def test_what_is_generated_is_up_to_date(tmp_path):
    subprocess.run([sys.executable, FOLDER / "generate.py", tmp_path], check=True)
    for name in ("models.py", "options.py", "client.py", "service_errors.py"):
        committed = (FOLDER / "cocoa_client" / name).read_text()
        assert (tmp_path / name).read_text() == committed, "run clients/python/generate.py"


def test_the_wheel_is_small_and_has_two_dependencies_and_langchain_where_wanted(tmp_path):
    command = ["pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([sys.executable, "-m", *command, "-w", tmp_path, FOLDER], check=True)
    [wheel] = tmp_path.glob("cocoa_client-*.whl")
    assert wheel.stat().st_size <= 60_000
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [metadata] = [name for name in names if name.endswith("METADATA")]
        lines = archive.read(metadata).decode().splitlines()
        [commands] = [name for name in names if name.endswith("entry_points.txt")]
        assert "cocoa-batch = cocoa_client.batch:main" in archive.read(commands).decode()
    needed = [line.partition(": ")[2] for line in lines if line.startswith("Requires-Dist")]
    assert needed == [
        "httpx>=0.27",
        "pydantic>=2.11",
        "langchain-openai>=1.0; extra == 'langchain'",
    ]
    assert "cocoa_client/py.typed" in names
    assert not any(name.endswith("generate.py") for name in names)
