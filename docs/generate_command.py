"""Write docs/command.md from the help of the command: `python docs/generate_command.py [--check]`.

`--check` writes nothing and exits with 1 if the page is out of date.
"""

import os
import sys
from pathlib import Path

SETTINGS = {
    "COLUMNS": "80",
    "TERMINAL_WIDTH": "80",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "TYPER_USE_RICH": "1",
}
"""How help is laid out, whatever terminal or CI this runs in. typer reads them once, when it is imported."""
UNSET = ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "_TYPER_FORCE_DISABLE_TERMINAL")
PAGE = Path(__file__).with_name("command.md")
HEAD = """# The command

<!-- Written by docs/generate_command.py from the command's own help. Do not edit. -->

The output of `whyword --help` and of the help of each command. Results go to stdout, everything else to
stderr. The exit code is 0 on success, 2 when the input, the model or a proof is wrong (stderr says what is
wrong and what to do), 130 after an interruption (a line says what was kept, and the command that resumes it).
"""


def render_page() -> str:
    """Return the page: the help of the whole command, then of each of its commands."""
    from typer.main import get_command

    from whyword.cli.application import application

    commands: list[str] = list(get_command(application).commands)  # type: ignore[attr-defined]
    sections = [_section("whyword", []), *(_section(f"whyword {name}", name.split()) for name in commands)]
    return HEAD + "".join(sections)


def _section(title: str, arguments: list[str]) -> str:
    from typer.testing import CliRunner

    from whyword.cli.application import application

    done = CliRunner().invoke(application, [*arguments, "--help"], prog_name="whyword", color=False)
    if done.exit_code != 0:
        raise SystemExit(f"{title} --help fails: {done.output}{done.exception!r}")
    shown = "\n".join(line.rstrip() for line in done.output.strip("\n").splitlines())
    return f"\n## {title}\n\n```text\n$ {title} --help\n{shown}\n```\n"


def main() -> int:
    """Write the page, or check it."""
    os.environ.update(SETTINGS)
    for name in UNSET:
        os.environ.pop(name, None)
    page = render_page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page:
        return 0
    print("docs/command.md is not what the help says: run python docs/generate_command.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
