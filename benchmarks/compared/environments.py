"""An environment of its own for every peer: made once, kept in the cache, made anew for other packages."""

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

from whyword.models.bundled.cache import find_cache

__all__ = ["PACKAGES", "find_python", "make_environment"]

PINS = ("torch==2.13.0",)
"""What all of them share: the release of which there is a CPU build, so that times can be compared."""
PACKAGES = {
    "inseq": ("inseq==0.7.1",),
    "captum": ("captum==0.9.0", "transformers==5.22.2"),
    "lxt": ("lxt==2.1", "transformers==4.57.6"),
    "gim": ("gim-explain==0.1.4", "transformers==5.22.2"),
    "transformer-lens": ("transformer-lens==4.3.0",),
    "nnsight": ("nnsight==0.8.1",),
    "context-cite": ("context-cite==0.0.4",),
}
"""What pip installs for every peer; whyword itself runs in the environment of this script."""
UNUSED = {"lxt": "torchvision"}
"""What a peer asks for and does not need here: its build does not fit torch for CPUs."""
_DONE = "environment.json"
_LONGEST = 900
"""Seconds after which an installation is given up."""


def find_python(name: str) -> Path:
    """Return the interpreter of a peer, and make its environment where it is missing."""
    return Path(sys.executable) if name == "whyword" else make_environment(name) / "bin" / "python"


def make_environment(name: str) -> Path:
    """Make the environment of a peer; an installation that fails leaves what pip said in `pip.log`."""
    folder = find_cache().parent / "peers" / name
    wanted = [*PINS, *PACKAGES[name]]
    done = folder / _DONE
    if done.is_file() and json.loads(done.read_text())["packages"] == wanted:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    (folder / "pins.txt").write_text("\n".join(PINS) + "\n")
    python = str(folder / "bin" / "python")
    with (folder / "pip.log").open("w") as log:
        subprocess.run(
            [python, "-m", "pip", "install", "-c", str(folder / "pins.txt"), *wanted, "safetensors"],
            check=True,
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=_LONGEST,
            env=_without_own_path(),
        )
    if name in UNUSED:
        subprocess.run([python, "-m", "pip", "uninstall", "-qy", UNUSED[name]], check=True)
    frozen = subprocess.run([python, "-m", "pip", "freeze"], check=True, capture_output=True, text=True)
    done.write_text(json.dumps({"packages": wanted, "frozen": frozen.stdout.split("\n")}, indent=2) + "\n")
    return folder


def _without_own_path() -> dict[str, Any]:
    """Return the variables of this process, but nothing that puts our own sources on a peer's path."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


if __name__ == "__main__":
    for chosen in sys.argv[1:] or PACKAGES:
        try:
            print(chosen, make_environment(chosen), flush=True)
        except (subprocess.SubprocessError, OSError) as error:
            print(chosen, "failed:", error, flush=True)
