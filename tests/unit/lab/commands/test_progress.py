"""Progress where nobody sees a bar move."""

from cocoa_lab.commands.progress import progress_of


def test_in_a_pipe_the_first_that_is_done_is_told_at_once_and_others_seldom(capsys):
    with progress_of("prompts") as progress:
        task = progress.add_task("evaluating", total=300)
        progress.advance(task)
        told = capsys.readouterr().err
        assert "evaluating" in told
        assert "1/300" in told
        for _ in range(100):
            progress.advance(task)
        assert capsys.readouterr().err == ""
    assert "101/300" in capsys.readouterr().err, "the last state, at the end"


def test_in_a_pipe_lines_are_whole_and_plain_where_the_end_is_not_known_too(capsys):
    told = f"training on {'a-long-folder/' * 12}: layer 3, validation loss 0.06388"
    with progress_of("epochs") as progress:
        task = progress.add_task("training", total=None)
        progress.update(task, advance=1, description=told)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"{told}: 1 epochs, 0:00:00 so far"] * 2
