"""Files of parallel sentences: streams, formats, lines that cannot be aligned, runs that stop and go on."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
from typer.testing import CliRunner

import toy_translators
import whyword
from whyword.alignment.file_runs import align_files
from whyword.alignment.finished_windows import count_finished, name_part
from whyword.alignment.line_formats import LINE_FORMATS
from whyword.alignment.links import parse_links
from whyword.alignment.method_choice import choose_settings
from whyword.alignment.parallel_files import STANDARD, read_window, stream_pairs, survey
from whyword.alignment.throughput import Counted, Meter
from whyword.alignment.word_scores import Settings, prepare_all
from whyword.cli.application import application
from whyword.runs.engine import Workers
from whyword.runs.single_writer import write_file_alone

from families import other_weights

GERMAN, ENGLISH = "Die Bank am Fluss ist alt .", "The bank of the river is old ."
PAIRS = [(GERMAN, ENGLISH), ("", ""), ("Bank", "bank"), ("alt .", "old .")]


@pytest.fixture(scope="module")
def m2m(tmp_path_factory: pytest.TempPathFactory) -> whyword.Model:
    tokenizer = toy_translators.make_m2m_100(tmp_path_factory.mktemp("m2m"))
    tokenizer.tgt_lang = "en"
    return toy_translators.load_tiny(tokenizer)


def write_sides(folder: Path, pairs: list[tuple[str, str]]) -> tuple[Path, Path]:
    sides = folder / "source", folder / "target"
    for side, lines in zip(sides, zip(*pairs, strict=True), strict=True):
        side.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return sides


def test_lines_are_paired_and_what_is_wrong_is_said(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(
        "\ufeffeins\r\nzwei\u2028\n\n\nvier\xff".encode("latin-1", "ignore") + b"\nf\xff\nsechs\n"
    )
    target.write_bytes(b"one\ntwo\n\nthree\nfour\nfive")
    found = [*stream_pairs(source, target)]
    assert [line.number for line in found] == [1, 2, 3, 4, 5, 6, 7]
    assert (found[0].source, found[0].target, found[0].wrong) == ("eins", "one", None)
    assert found[2].wrong == "both sides are empty"
    assert found[3].wrong == "the source is empty"
    assert found[4].wrong == "the source is not UTF-8 (byte 5)"
    assert found[5].wrong == "the source is not UTF-8 (byte 2)"
    assert found[6].wrong == "only the source has this line"
    assert survey(source, target).lines == 7
    assert survey(target, source).content != survey(source, target).content
    with pytest.raises(whyword.InputError, match="nowhere cannot be read"):
        next(stream_pairs(source, tmp_path / "nowhere"))


def test_standard_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Stream:
        buffer = io.BytesIO(b"eins\tone\nzwei\n")

    monkeypatch.setattr(sys, "stdin", Stream)
    found = [*stream_pairs(STANDARD, STANDARD)]
    assert [(line.source, line.target) for line in found] == [("eins", "one"), ("zwei", "")]
    assert found[1].wrong == "there is no tab between the sides"
    Stream.buffer = io.BytesIO(b"eins\nzwei\n")
    (tmp_path / "target").write_text("one\ntwo\n")
    assert [line.source for line in stream_pairs(STANDARD, tmp_path / "target")] == ["eins", "zwei"]
    assert survey(STANDARD, STANDARD).lines is None


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_windows_are_read_by_themselves(size: int, tmp_path: Path) -> None:
    sides = tmp_path / "source", tmp_path / "target"
    sides[0].write_bytes("\ufeffeins\r\n\ufeffzwei\n\n".encode() + b"f\xff\n" + "fünf\nsechs".encode())
    sides[1].write_bytes("one\n\ufefftwo\n".encode())
    known = survey(*sides, size)
    assert known.windows == -(-6 // size)
    read = [line for number in reversed(range(known.windows)) for line in read_window(sides, known, number)]
    assert sorted(read, key=lambda line: line.number) == [*stream_pairs(*sides)]
    sides[1].write_bytes(b"one\ntwo\n")
    with pytest.raises(whyword.InputError, match="target changed while it was being read"):
        read_window(sides, known, 0)


MANY = [
    (f"{own} {'alt ' * (each % 4)}", f"{other} {'old ' * (each % 3)}")
    for each in range(9)
    for own, other in PAIRS
]


@pytest.fixture(scope="module")
def folder(m2m: whyword.Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "m2m"
    m2m.network.save_pretrained(path)
    m2m.tokenizer.save_pretrained(path)
    return path


def test_processes_write_the_same_bytes(
    m2m: whyword.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whyword.alignment.word_scores._AHEAD", 5)
    sides, settings = write_sides(tmp_path, MANY), choose_settings(m2m, "combined", None, "output")
    models = [m2m, m2m]
    pairs = sum(bool(own.strip() and other.strip()) for own, other in MANY) * len(models)
    for name, workers in (("one", 1), ("two", 2)):
        run = align_files(
            models, sides, tmp_path / name, settings, form="jsonl", workers=Workers(workers, threads=1)
        )
        assert (run.lines, run.speed.workers, run.speed.multiple is not None) == (36, workers, True)
        assert run.speed.pairs == pairs
    for end in ("", ".skipped"):
        assert (tmp_path / f"one{end}").read_bytes() == (tmp_path / f"two{end}").read_bytes()
    assert (tmp_path / "one.skipped").read_bytes().count(b"empty") == run.skipped.count > 0


@pytest.mark.skipif(sys.platform == "win32", reason="processes are killed by signals")
def test_killed_processes_leave_nothing_and_go_on(folder: Path, m2m: whyword.Model, tmp_path: Path) -> None:
    sides, output = write_sides(tmp_path, MANY * 20), tmp_path / "killed"
    command = [sys.executable, "-m", "whyword", "align", "-m", str(folder), "--format", "jsonl"]
    command += ["--source", str(sides[0]), "--target", str(sides[1]), "--target-language", "en"]
    running = subprocess.Popen(
        [*command, "-o", str(output), "--workers", "2"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    until = time.monotonic() + 120
    while time.monotonic() < until and not count_finished(name_part(output)) and running.poll() is None:
        time.sleep(0.01)
    workers = [each for each in psutil.Process(running.pid).children() if "spawn_main" in str(each.cmdline())]
    assert len(workers) == 2
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert not psutil.wait_procs(workers, timeout=20)[1]
    assert 256 <= count_finished(name_part(output)) < 720
    assert not output.exists()
    with name_part(output).open("a") as file:
        file.write('[3, [["0-')  # a window that was cut
    done = subprocess.run([*command, "-o", str(output), "--threads", "1"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "lines are done, resuming" in done.stderr
    settings = choose_settings(m2m, "combined", None, "output")
    whole, options = tmp_path / "whole", {"form": "jsonl", "languages": (None, "en")}
    align_files([m2m], sides, whole, settings, workers=Workers(threads=1), **options)  # type: ignore[arg-type]
    assert output.read_bytes() == whole.read_bytes()


def test_windows_are_finished_in_any_order(
    m2m: whyword.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whyword.alignment.word_scores._AHEAD", 2)
    sides, settings = write_sides(tmp_path, PAIRS[:3]), choose_settings(m2m, "combined", None, "output")
    output, part = tmp_path / "links", tmp_path / "links.part"
    align_files([m2m], sides, output, settings)
    whole = output.read_bytes()
    monkeypatch.setattr("whyword.alignment.file_runs.report", _stop)
    with pytest.raises(KeyboardInterrupt):
        align_files([m2m], sides, output, settings)
    monkeypatch.undo()
    monkeypatch.setattr("whyword.alignment.word_scores._AHEAD", 2)
    begun, first = part.read_text().splitlines(keepends=True)
    part.write_text(begun + '[1, [["9-9\\n", null]]]\n')
    align_files([m2m], sides, output, settings)
    assert output.read_bytes() == b"".join(whole.splitlines(keepends=True)[:2]) + b"9-9\n"
    for wrong in ('[2, [["", null]]]\n', first + first, '[-1, [["", null]]]\n'):
        part.write_text(begun + wrong)
        with pytest.raises(whyword.InputError, match=r"links\.part cannot be read: .*\nDelete it"):
            align_files([m2m], sides, output, settings)


def _stop(what: str, done: int, _total: int | None) -> None:
    raise KeyboardInterrupt


def test_engines_that_do_not_fit(tmp_path: Path) -> None:
    source, target = map(str, write_sides(tmp_path, PAIRS))
    files = ["align", "-m", "nowhere", "--target", target, "-o", str(tmp_path / "out")]
    refused = {
        "standard input, which 2 workers cannot share": [*files, "--source", "-", "--workers", "2"],
        "standard input, which the engine ray cannot share": [*files, "--source", "-", "--engine", "ray"],
        "--address is given, and the engine is local": [
            *files,
            "--source",
            source,
            "--address",
            "auto",
        ],
        "There are options of workers, and one sentence": ["align", "a", "b", "-m", "x", "--workers", "2"],
    }
    for said, command in refused.items():
        done = CliRunner().invoke(application, command)
        assert done.exit_code == 2
        assert said in done.stderr.replace("\n", " ")
        assert len(done.stderr.strip().splitlines()) == 2


def test_files_stop_and_go_on(m2m: whyword.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whyword.alignment.word_scores._AHEAD", 1)
    sides, output = write_sides(tmp_path, PAIRS), tmp_path / "links"
    settings = choose_settings(m2m, "combined", None, "output")
    run = align_files([m2m], sides, output, settings)
    assert (run.lines, run.skipped.count, run.skipped.first) == (4, 1, [(2, "both sides are empty")])
    assert run.listed is not None
    assert run.listed.read_text() == "2\tboth sides are empty\n"
    assert (run.speed.pairs, run.speed.multiple is not None) == (3, True)
    whole = output.read_text()
    expected = [whyword.align(m2m, source.split(), target.split()).to_pharaoh() for source, target in PAIRS]
    assert whole.splitlines() == expected
    output.unlink()
    part = tmp_path / "links.part"

    def stop(what: str, done: int, _total: int | None) -> None:
        if what == "pairs" and done == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("whyword.alignment.file_runs.report", stop)
    with pytest.raises(KeyboardInterrupt):
        align_files([m2m], sides, output, settings)
    assert not output.exists()
    begun = part.read_text()
    part.write_text(begun + '["0-')  # a line that was cut off
    seen: list[int] = []
    monkeypatch.setattr("whyword.alignment.file_runs.report", lambda _what, done, _total: seen.append(done))
    again = align_files([m2m], sides, output, settings)
    assert seen == [4]
    assert (again.lines, again.skipped) == (4, run.skipped)
    assert output.read_text() == whole
    assert not part.exists()
    part.write_text(begun)
    other = Settings("logit", "output", 1)
    with pytest.raises(
        whyword.InputError, match=r"part holds a run with other settings: method is \"combined\" there"
    ):
        align_files([m2m], sides, output, other)
    with (
        other_weights(m2m.network),
        pytest.raises(whyword.InputError, match="part holds a run with other settings: entry 2 of"),
    ):
        align_files([m2m], sides, output, settings)
    assert part.read_text() == begun
    part.write_bytes(begun.encode() + b"\xff\n")
    with pytest.raises(
        whyword.InputError, match=r"links\.part cannot be read: .*\nDelete it, or name another"
    ):
        align_files([m2m], sides, output, settings)
    with (
        write_file_alone(output),
        pytest.raises(whyword.InputError, match=r"links is being written by process \d+ on"),
    ):
        align_files([m2m], sides, output, settings)


def test_lines_that_are_too_long_are_left_out(m2m: whyword.Model, tmp_path: Path) -> None:
    long = "Bank" * 300
    pairs = [PAIRS[0], ("Bank " * 300, "bank"), ("Bank", "bank " * 300), (long, "bank"), ("Bank", "bank")]
    settings = choose_settings(m2m, "combined", None, "output")
    run = align_files([m2m], write_sides(tmp_path, pairs), tmp_path / "out", settings)
    assert [number for number, _ in run.skipped.first] == [2, 3, 4]
    for (_, reason), side in zip(run.skipped.first, ("source", "translation", "source"), strict=True):
        assert reason.startswith(f"The {side} has ")
        assert reason.endswith("has positions for 256.")
    lines = (tmp_path / "out").read_text().splitlines()
    assert lines[1:4] == ["", "", ""]
    assert lines[4] == "0-0"


def test_every_format_has_the_same_links(m2m: whyword.Model, tmp_path: Path) -> None:
    sides, settings = write_sides(tmp_path, PAIRS), choose_settings(m2m, "combined", None, "output")
    expected = [frozenset(whyword.align(m2m, own.split(), other.split()).links) for own, other in PAIRS]
    for form in LINE_FORMATS:
        align_files([m2m], sides, tmp_path / form, settings, form=form)
        text = (tmp_path / form).read_text()
        if form == "jsonl":
            lines = [json.loads(line) for line in text.splitlines()]
            assert [line["line"] for line in lines] == [1, 2, 3, 4]
            assert lines[1] == {"line": 2, "links": [], "skipped": "both sides are empty"}
            found = [frozenset(map(tuple, line["links"])) for line in lines]
            assert all(
                len(line["links"]) == len(line["scores"]) == len(line["confidence"]) for line in lines[2:]
            )
        else:
            base = 0 if form == "pharaoh" else 1
            kind = "naacl" if form == "naacl" else "pharaoh"
            found = [each.sure for each in parse_links(text, form, kind, base).sentences]
        assert found == expected
    with pytest.raises(whyword.InputError, match="The format is 'giza'"):
        align_files([m2m], sides, tmp_path / "x", settings, form="giza")


def test_languages_are_refused_before_any_line(m2m: whyword.Model, tmp_path: Path) -> None:
    sides, settings = write_sides(tmp_path, PAIRS), choose_settings(m2m, "combined", None, "output")
    with pytest.raises(whyword.InputError, match="does not know the target language 'tlh'"):
        align_files([m2m], sides, tmp_path / "x", settings, languages=(None, "tlh"))
    assert not (tmp_path / "x.part").exists()


def test_time_is_counted_without_plain_passes(m2m: whyword.Model) -> None:
    (prepared,) = prepare_all(m2m, [(GERMAN, ENGLISH)], (None, None), 0)
    assert prepared is not None
    meter = Meter()
    assert str(meter.counted.read(1.0)) == "0 pairs"
    meter.note(m2m, [prepared], 1e6)
    before = meter.counted
    meter.note(m2m, [prepared], 1e6)  # sampled again: the first pass was short beside it
    read = meter.counted.read(2e6)
    assert read.pairs == 2
    assert read.multiple is not None
    assert read.multiple * meter.counted.plain == pytest.approx(2e6)
    assert "2 pairs, " in str(read)
    own = meter.counted - before
    assert (own.pairs, own.batches, own.aligned) == (1, 1e6, 1e6)
    assert own.plain > 0


def test_the_speed_of_several_workers() -> None:
    counted = Counted(10, 16.0, 4.0, 1.0) + Counted(20, 20.0, 5.0, 1.0)  # 36 s, whose plain passes take 8 s
    speed = counted.read(seconds=21.0, workers=2)
    assert (speed.pairs, speed.seconds, speed.multiple) == (30, 20.0, 5.0)
    assert str(speed) == "30 pairs, 1.5 pairs/s by 2 workers, 5.00 × teacher-forced forward passes"


def test_the_command_writes_to_standard_output(
    m2m: whyword.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides = write_sides(tmp_path, PAIRS)
    monkeypatch.setattr("whyword.cli.commands.align.open_models", lambda names, **_: [m2m] * len(names))
    command = ["align", "-m", "toy", "--source", str(sides[0]), "--target", str(sides[1]), "-o", "-"]
    done = CliRunner().invoke(application, command)
    assert done.exit_code == 0, done.stderr
    expected = [whyword.align(m2m, own.split(), other.split()).to_pharaoh() for own, other in PAIRS]
    assert done.stdout.splitlines() == expected
    assert "line 2: both sides are empty" in done.stderr
    files = [part for name in ("one", "two") for part in ("-o", str(tmp_path / name))]
    saved = CliRunner().invoke(application, [*command[:-2], *files])
    assert saved.exit_code == 0, saved.stderr
    assert (tmp_path / "one").read_text() == (tmp_path / "two").read_text() == done.stdout
    assert saved.stderr.count("4 lines, pharaoh") == 2
    wrong = CliRunner().invoke(application, [*command, *files])
    assert "Links go to standard output and to files." in wrong.stderr
    assert torch.is_grad_enabled()
    both = CliRunner().invoke(application, [*command, "--reverse-model", "toy", "--format", "jsonl"])
    assert both.exit_code == 0, both.stderr
    assert len(both.stdout.splitlines()) == 4
