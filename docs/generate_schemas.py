"""Write docs/documents.md and docs/schemas/: `python docs/generate_schemas.py [--check]`.

They are made from the declared fields. `--check` writes nothing and exits with 1 where a file is stale.
"""

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
HEAD = """# Documents

<!-- Written by docs/generate_schemas.py from the declared fields. Do not edit. -->

Every result has a JSON document: `to_dict()` returns it, `.save("name.json")` and `--json` write it, and
every view is made from it. `whyword.read("name.json")` reads a result of any kind; `from_dict` of a result's
class reads a document that is already parsed. An invalid document is refused with an error that names the
first invalid field (`ledger.mlp[3]`).

`schema` names the kind and its version. Ignore unknown keys, as whyword does: a new key is not a new
version. All numbers are finite. In lists, blocks, heads, tokens and neurons are counted from 0; labels count
blocks and heads from 1.
"""


def render_files() -> dict[Path, str]:
    """Return the files: a JSON Schema for every kind, and the page."""
    from whyword.document.kinds import KINDS
    from whyword.document.schemas import make_schema

    files: dict[Path, str] = {}
    sections: list[str] = []
    parts: dict[str, Any] = {}
    for kind in KINDS:
        name, schema = kind.name.replace(" ", "-"), make_schema(kind)
        files[HERE / "schemas" / f"{name}.json"] = json.dumps(schema, indent=1, ensure_ascii=False) + "\n"
        sections.append(_section(kind, name, schema))
        parts |= schema.get("$defs", {})
    sections.append("## Parts\n\nWhat several fields, or several kinds of document, have in common.\n")
    sections += [
        "\n".join([f"### {name}", "", _line(part), "", *_table(part)]) for name, part in parts.items()
    ]
    files[HERE / "documents.md"] = "\n".join([HEAD, *sections])
    return files


def _section(kind: Any, name: str, schema: dict[str, Any]) -> str:
    title = kind.name[0].upper() + kind.name[1:]
    formats = ", ".join(f"`{ending}`" for ending in kind.formats)
    result = kind.result.replace(":", ".")
    lines = [
        f"## {title}",
        "",
        f"`{kind.schema}` ([JSON Schema](schemas/{name}.json)), of `whyword.{result}`. "
        f"{_line(schema)} Saved as {formats}.",
        "",
        *_table(schema),
    ]
    return "\n".join(lines)


def _table(schema: dict[str, Any]) -> list[str]:
    """List the fields of an object."""
    lines = ["| field | type | what it is |", "|---|---|---|"]
    for field, about in schema["properties"].items():
        optional = "" if field in schema.get("required", []) else " Optional."
        lines.append(f"| `{field}` | {_type(about)} | {_line(about)}{optional} |")
    return [*lines, ""]


def _type(about: dict[str, Any]) -> str:
    """Name a type in a word or two."""
    if "$ref" in about:
        name = about["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in about:
        return " or ".join(_type(each) for each in about["anyOf"])
    if "const" in about:
        return f"`{about['const']}`"
    if "enum" in about:
        return " or ".join(f"`{each}`" for each in about["enum"])
    if about["type"] == "array":
        if "prefixItems" in about:
            return f"[{', '.join(_type(each) for each in about['prefixItems'])}]"
        inner = _type(about["items"])
        inner = f"({inner})" if "anyOf" in about["items"] else inner
        return (
            f"list of {inner}"
            if not inner.startswith("list of")
            else inner.replace("list", "list of lists", 1)
        )
    if about["type"] == "object" and isinstance(about.get("additionalProperties"), dict):
        return f"object of {_type(about['additionalProperties'])}"
    return str(about["type"])


def _line(about: dict[str, Any]) -> str:
    """Put a description on one line of a table."""
    return " ".join(about["description"].split()).replace("|", "\\|")


def main() -> int:
    """Write the files, or check them."""
    files = render_files()
    if "--check" not in sys.argv[1:]:
        for path, text in files.items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return 0
    known = set((HERE / "schemas").glob("*.json"))
    stale = [path for path, text in files.items() if not path.exists() or path.read_text("utf-8") != text]
    stale += sorted(known - set(files))
    for path in stale:
        print(f"{path.name} is not what is declared: run python docs/generate_schemas.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
