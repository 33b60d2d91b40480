"""The rule of `grounded` beside labels of public datasets, read from checkouts."""

import json
import subprocess

import pytest

from cocoa_lab import grounding
from cocoa_lab.grounding import Labelled, begin, faithbench, grounded_of, wice

LIMA = "Lima is the capital of Peru."


@pytest.fixture
def checkouts(tmp_path):
    """Folders of the three repositories, each with a commit."""
    claims = tmp_path / "wice" / "data" / "entailment_retrieval" / "claim"
    claims.mkdir(parents=True)
    for split in ("dev", "test"):
        rows = []
        for label, claim in (("supported", LIMA), ("partially_supported", "Lima is in Chile.")):
            rows.append({"label": label, "claim": claim, "evidence": ["It grows.", LIMA]})
        (claims / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    wow = tmp_path / "begin" / "wow"
    wow.mkdir(parents=True)
    head = "model_name\tdata_source\tknowledge\tmessage\tresponse\tbegin_label\n"
    for split in ("dev", "test"):
        rows = [f't5\twow\t{LIMA}\tHi, "you\tlima is a capital.\tFully attributable\n']
        rows += [f"t5\twow\t{LIMA}\tHi\tdo you?\tGeneric\n"]
        rows += [f"t5\twow\t{LIMA}\tHi\ti like cakes.\tNot fully attributable \n"]
        (wow / f"begin_{split}_wow.tsv").write_text(head + "".join(rows))
    released = tmp_path / "faithbench" / "data_for_release"
    released.mkdir(parents=True)
    for number in (*range(1, 13), 14, 15, 16):
        samples = []
        for labels, summary in ([], LIMA), (["Benign"], LIMA), (["Benign", "Unwanted"], "Chile."):
            annotations = [{"label": [label]} for label in labels]
            samples.append({"source": LIMA, "summary": summary, "annotations": annotations})
        (released / f"batch_{number}.json").write_text(json.dumps({"samples": samples}))
    folders = [tmp_path / name for name in ("wice", "begin", "faithbench")]
    for folder in folders:
        git = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run(["git", "init", "-q", folder], check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "a"], check=True)
    return folders


def test_labels_are_two_classes_of_answers_with_their_documents(checkouts):
    of_wice, of_begin, of_faithbench = checkouts
    document = f"It grows. {LIMA}"
    assert list(wice(of_wice, "dev")) == [
        Labelled("", LIMA, document, True, True),
        Labelled("", "Lima is in Chile.", document, False, True),
    ]
    told = list(begin(of_begin, "test"))
    assert [one.is_grounded for one in told] == [True, False, False]
    assert told[0] == Labelled('Hi, "you', "lima is a capital.", LIMA, True)
    assert [one.is_grounded for one in faithbench(of_faithbench)] == [True, True, False] * 15


def test_an_answer_is_scored_by_its_sentences_and_a_claim_as_a_whole():
    answer = f"{LIMA} Chile shrinks."
    assert grounded_of(Labelled("", answer, LIMA, True)) == 0.5
    assert grounded_of(Labelled("", answer, LIMA, True, is_claim=True)) == 3 / 5 / 2
    assert grounded_of(Labelled("", "Do you?", LIMA, False)) == 0


def test_the_command_tells_commits_and_aurocs(checkouts, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["grounding", *map(str, checkouts)])
    grounding.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[:3]] == ["wice", "begin", "faithbench"]
    assert all(len(line.split(": ")[1]) == 40 for line in lines[:3])
    assert lines.pop().startswith("2 sentences beside 10 documents of 300 words: ")
    assert [line.split("AUROC")[1].split() for line in lines[3:]] == [
        ["1.000", "n", "=", "2,", "1", "of", "them", "grounded"],
        ["1.000", "n", "=", "2,", "1", "of", "them", "grounded"],
        ["1.000", "n", "=", "3,", "1", "of", "them", "grounded"],
        ["1.000", "n", "=", "3,", "1", "of", "them", "grounded"],
        ["1.000", "n", "=", "45,", "30", "of", "them", "grounded"],
    ]


def test_without_folders_it_says_which_it_needs(monkeypatch):
    monkeypatch.setattr("sys.argv", ["grounding"])
    with pytest.raises(SystemExit, match="WICE BEGIN FAITHBENCH"):
        grounding.main()
