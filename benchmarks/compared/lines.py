"""How many lines of code a user of a tool writes, counted from its driver."""

import ast
from pathlib import Path

__all__ = ["count_lines", "count_method"]


def count_lines(driver: Path, functions: list[str]) -> int:
    """Count the lines of some functions, of what they call, and of the imports that these need."""
    tree = ast.parse(driver.read_text())
    defined = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    used, waiting = set[str](), list(functions)
    while waiting:
        name = waiting.pop()
        if name in defined and name not in used:
            used.add(name)
            waiting += [node.id for node in ast.walk(defined[name]) if isinstance(node, ast.Name)]
    text = driver.read_text().splitlines()
    named = {node.id for name in used for node in ast.walk(defined[name]) if isinstance(node, ast.Name)}
    needed = [
        node
        for node in imports
        if any((each.asname or each.name).split(".")[0] in named for each in node.names)
    ]
    lines = {
        place
        for node in [*needed, *(defined[name] for name in used)]
        for place in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    return sum(bool(text[place - 1].strip()) for place in lines)


def count_method(tool: str, method: str, table: str = "METHODS") -> int:
    """Count the lines of a method in its driver, of which a table names the function."""
    driver = Path(__file__).parent / f"with_{tool.replace('-', '_')}.py"
    (found,) = (
        node.value
        for node in ast.parse(driver.read_text()).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
        if ast.unparse(node.targets[0]) == table
    )
    named = {
        ast.literal_eval(key): ast.unparse(value)
        for key, value in zip(found.keys, found.values, strict=True)
        if key
    }
    return count_lines(driver, ["load", named[method]])
