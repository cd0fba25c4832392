"""Which lines of the library run, in every process of the tests: `make coverage`.

SlipCover puts probes into the library's bytecode and takes them out again once they were hit, so the tests
take about a fifth longer than without it; a tracer makes Python 3.11 two to three times slower.
"""

import atexit
import json
import os
import sys
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src" / "whyword"
FOLDER = os.environ.get("WHYWORD_COVERAGE")
"""Where every process writes the lines that it ran; none: nothing is measured."""


def install() -> None:
    """Measure the modules of the library that are imported from now on, where it was asked for."""
    if not FOLDER:
        return
    import slipcover

    measured = slipcover.Slipcover(
        source=[str(SOURCES)], exclude_also=["raise NotImplementedError", "@overload"]
    )
    matcher = slipcover.FileMatcher(sources=[SOURCES])
    slipcover.ImportManager(measured, matcher).__enter__()
    path = Path(FOLDER, f"{os.getpid()}.json")
    atexit.register(lambda: path.write_text(json.dumps(measured.get_coverage()), encoding="utf-8"))


def main() -> int:
    """Print a table of what all processes ran."""
    from slipcover.slipcover import merge_coverage, print_coverage

    whole, *others = (
        json.loads(path.read_text("utf-8")) for path in sorted(Path(sys.argv[1]).glob("*.json"))
    )
    for other in others:
        whole = merge_coverage(whole, other)
    print_coverage(whole, missing_width=60, skip_covered=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
