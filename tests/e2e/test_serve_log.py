"""What `cocoa serve` writes to its log."""

import json

from tests.chaos.cocoa_process import cocoa_serve


def test_every_line_that_cocoa_serve_writes_is_json_and_tells_no_path_of_a_request():
    with cocoa_serve(COCOA_GENERATION__ENGINE="fake") as process:
        process.wait_ready()
        process.get("/sesame-4711?key=sesame-4711")
        assert process.generate("sesame-4711").status_code == 200
        process.popen.terminate()
        assert process.exit_code() == 0
    lines = [json.loads(line) for line in process.log]
    assert {"time", "level", "logger", "message"} == set.intersection(*map(set, lines))
    assert [line["status"] for line in lines if line["message"] == "request"] == [404, 200]
    assert "sesame" not in str(lines)
