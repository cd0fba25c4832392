"""A wheel with the native kernel where there is a compiler, and one without it where there is none."""

import os
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")


def run(*command: str | Path, **variables: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "WHYWORD_KERNEL")}
    done = subprocess.run(
        [sys.executable, *command], env={**kept, **variables}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def build_wheel(folder: Path, **variables: str) -> Path:
    """Build from a copy: nothing that was built before is used, and nothing is left in the working tree."""
    try:
        recent = int(version("setuptools").split(".")[0]) >= 77
    except PackageNotFoundError:
        recent = False
    if not recent or not (ROOT / "setup.py").is_file():
        pytest.skip("wheels are built from the working tree, with setuptools 77 or newer")
    without = shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "src", folder / "copy" / "src", ignore=without)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / "copy")
    isolated = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet")
    run("-m", "pip", "wheel", *isolated, "--wheel-dir", folder, folder / "copy", **variables)
    (wheel,) = folder.glob("*.whl")
    return wheel


def implementation_of(wheel: Path, folder: Path) -> str:
    """Install a wheel in a folder and ask it there."""
    run("-m", "pip", "install", "--no-deps", "--no-index", "--quiet", "--target", folder / "installed", wheel)
    path = str(folder / "installed")
    code = "from whyword.maths import kernel; print(kernel.implementation(), kernel.__file__)"
    name, place = run("-c", f"import sys; sys.path.insert(0, {path!r}); {code}").split(maxsplit=1)
    assert place.startswith(path)
    return name


@pytest.mark.skipif(not COMPILER, reason="there is no C++ compiler here")
def test_with_a_compiler(tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path)
    names = zipfile.ZipFile(wheel).namelist()
    assert "-cp310-abi3-" in wheel.name
    assert "whyword/maths/_kernel.abi3.so" in names
    assert implementation_of(wheel, tmp_path) == "native"


def test_without_a_compiler(tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path, CC="/bin/false", CXX="/bin/false")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert not [name for name in names if "_kernel" in name]
    package = ROOT / "src" / "whyword"
    wanted = [*package.rglob("*.py"), *package.glob("*/page/*"), package / "py.typed"]
    assert {path.relative_to(ROOT / "src").as_posix() for path in wanted} <= names
    assert implementation_of(wheel, tmp_path) == "torch"
