"""Tables in Markdown."""

__all__ = ["write_table"]


def write_table(head: list[str], rows: list[list[str]]) -> str:
    """Write a table whose first column is text and whose others are numbers."""
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines) + "\n"
