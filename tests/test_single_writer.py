"""Runs that others disturb: a second writer, a full disk, bytes that are not text. What is finished stays."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from whyword import InputError
from whyword.runs.journal import append_lines, open_run, read_lines, read_settings
from whyword.runs.single_writer import write_file_alone, write_folder_alone
from whyword.runs.whole_files import write_aside

HOLDING = """
import sys
from pathlib import Path
from whyword.runs.single_writer import write_file_alone, write_folder_alone
with (write_folder_alone if sys.argv[1] == "folder" else write_file_alone)(Path(sys.argv[2])):
    print("held", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def held_elsewhere(kind: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLDING, kind, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_second_writer_is_refused_by_the_name_of_the_first(kind: str, tmp_path: Path) -> None:
    path, write_alone = tmp_path / "run.1", write_folder_alone if kind == "folder" else write_file_alone
    with held_elsewhere(kind, path) as process:
        with pytest.raises(InputError) as caught, write_alone(path):
            pytest.fail("two writers")
        assert caught.value.wrong == (
            f"{path} is being written by process {process.pid} on {socket.gethostname()}."
        )
        assert caught.value.remedy.startswith("Wait until it has ended, or stop it; then run this again")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        with write_alone(path):  # the operating system dropped the lock
            pass
    with write_alone(path), pytest.raises(InputError, match=f"process {os.getpid()} "), write_alone(path):
        pytest.fail("two writers in one process")


def test_a_writer_that_left_only_its_name(tmp_path: Path) -> None:
    """The name of a killed process is not that of the one that holds the lock now."""
    with held_elsewhere("folder", tmp_path):
        (tmp_path / ".lock.writer").write_text(json.dumps({"pid": 2**22 + 1, "host": socket.gethostname()}))
        with pytest.raises(InputError, match="is being written by another process"):
            write_folder_alone(tmp_path).__enter__()


def test_a_place_that_cannot_be_locked(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file cannot be used: File exists\.\nName a folder"):
        write_folder_alone(tmp_path / "file").__enter__()
    with pytest.raises(InputError, match=r"links cannot be locked: .*\nName a place"):
        write_file_alone(tmp_path / "file" / "links").__enter__()


FULL = """
import json, resource, sys
from pathlib import Path
from whyword import InputError
from whyword.runs.journal import append_lines, open_run
path = Path(sys.argv[1])
open_run(path, "mine/1", {})
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    append_lines(path, (json.dumps({"text": "é" * 20, "row": row}, ensure_ascii=False) for row in range(99)))
except InputError as error:
    print(error)
"""


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """The system takes part of the last line: it is taken back, and the run resumed after it."""
    pytest.importorskip("resource")
    journal = tmp_path / "lines.jsonl"
    done = subprocess.run([sys.executable, "-c", FULL, str(journal)], capture_output=True, text=True)
    assert done.stderr == ""
    wrong, remedy = done.stdout.splitlines()
    assert wrong == f"{journal} cannot be written: File too large."
    assert remedy.startswith("Make room and run the same command again: what is finished is kept")
    assert journal.read_bytes().endswith(b"}\n")
    rows = list(read_lines(journal, lambda line: line["row"]))
    assert rows == list(range(len(rows)))
    assert len(rows) > 9
    append_lines(journal, ['{"row": "next"}'])
    assert [*read_lines(journal, lambda line: line["row"])] == [*rows, "next"]


@pytest.mark.parametrize(
    "bad", [b"\xff\xfe", b"\0" * 9, b"[" * 100_000, b"1" * 5000, b'{"row": "\xed\xa0\x80"}']
)
def test_a_line_that_is_not_text_is_named(bad: bytes, tmp_path: Path) -> None:
    journal = tmp_path / "lines.jsonl"
    journal.write_bytes(b'{"row": 1}\n' + bad + b'\n{"row": 3}\n')
    read = read_lines(journal, lambda line: line["row"])
    assert next(read) == 1
    with pytest.raises(InputError, match=r"^Line 2 of .*lines\.jsonl cannot be read: .*\nDelete it and the"):
        next(read)


def test_a_last_line_that_is_being_written_is_not_read(tmp_path: Path) -> None:
    journal = tmp_path / "lines.jsonl"
    journal.write_bytes(b'{"row": 1}\n{"row": 2}')
    assert list(read_lines(journal, dict)) == [{"row": 1}]


@pytest.mark.parametrize("bad", [b"\xff", b"[]", b"3", b"null", b"[" * 100_000, b""])
def test_settings_that_cannot_be_read(bad: bytes, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_bytes(bad)
    with pytest.raises(InputError, match=r"it has no readable settings\.json\.\nName a folder"):
        open_run(tmp_path / "lines.jsonl", "mine/1", {})


def test_a_lone_surrogate_is_kept(tmp_path: Path) -> None:
    journal = tmp_path / "lines.jsonl"
    open_run(journal, "mine/1", {"name": "a\udcff"})
    append_lines(journal, [json.dumps({"name": "a\udcff"}, ensure_ascii=False)])
    assert read_settings(tmp_path, "mine/1") == {"name": "a\udcff"}
    assert list(read_lines(journal, dict)) == [{"name": "a\udcff"}]


def test_two_ranks_write_one_file_at_once(tmp_path: Path) -> None:
    """Each has a file of its own aside, even where both have the same process id."""
    path = tmp_path / "table.md"
    with write_aside(path) as one, write_aside(path) as two:
        one.write_text("one")
        two.write_text("two")
    assert path.read_text() == "one"
    assert list(tmp_path.iterdir()) == [path]
