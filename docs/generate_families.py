"""Write the table of docs/families.md: `python docs/generate_families.py` runs `whyword doctor --all`."""

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).with_name("families.md")
SETTINGS = {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}


def main() -> int:
    """Run the command, and put what it prints in place of what the page shows."""
    done = subprocess.run(
        [sys.executable, "-m", "whyword", "doctor", "--all"],
        env={**os.environ, **SETTINGS},
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode != 0:
        return done.returncode
    shown = re.compile(r"(?<=^\$ whyword doctor --all\n).*?(?=^```)", flags=re.DOTALL | re.MULTILINE)
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(shown.sub(lambda _: done.stdout.rstrip() + "\n", page), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
