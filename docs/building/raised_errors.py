"""Every error that whyword raises on purpose, read from its code: first line, remedy, what was being done."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["AREAS", "RaisedError", "find_errors", "render_errors"]

SOURCE = Path(__file__).parents[2] / "src" / "whyword"
AREAS = {
    "Loading a model": ("models", "doctor.py", "sweep"),
    "Running it: numbers, memory, proofs": ("trace", "maths", "ledger"),
    "Prompts, words and methods": ("tokens", "ask", "attribute", "pipeline", "results"),
    "Datasets and evidence": ("data",),
    "Evaluation": ("evaluation",),
    "Heads and neurons": ("inside",),
    "Translation and alignment": ("alignment",),
    "Files, documents and runs": ("document", "view", "runs", "corpus"),
    "The command": ("cli",),
    "The server": ("serve",),
}
"""Headings of the page, and the folders that they stand for."""
_MANY = 8
"""Of an error that is said in more ways than this, no more are listed."""


@dataclass(frozen=True)
class RaisedError:
    """One place that raises an error; `wrong` and `remedy` have ‹placeholders› for values."""

    kind: str
    wrong: str
    remedy: str
    doing: str
    folder: str


def find_errors(source: Path = SOURCE) -> list[RaisedError]:
    """Return all errors, in the order of the code, each text once."""
    modules = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(source.rglob("*.py"))}
    kinds = _find_kinds(modules.values())
    texts = _Texts(modules)
    found: dict[tuple[str, str, str], RaisedError] = {}
    for path, module in modules.items():
        folder = path.relative_to(source).parts[0]
        for function, call in _calls(module, kinds):
            doing = (ast.get_docstring(function) or "").split("\n\n")[0] if function else ""
            remedies = texts.render(call.args[1], path, function)
            for wrong in texts.render(call.args[0], path, function):
                error = RaisedError(
                    _name(call), wrong, " · ".join(remedies[:_MANY]), _one_line(doing), folder
                )
                found.setdefault((error.kind, wrong, error.remedy), error)
    return list(found.values())


def render_errors(errors: list[RaisedError]) -> str:
    """Return the errors as Markdown: a heading for each, so that the site's search finds it."""
    parts = []
    for area, folders in AREAS.items():
        parts.append(f"## {area}\n")
        for error in sorted((each for each in errors if each.folder in folders), key=_sorting):
            doing = f" while it was to: {_decapitalise(error.doing)}" if error.doing else ""
            parts.append(f"#### {_escape(error.wrong)}\n\n{_escape(error.remedy)}\n")
            parts.append(f"*`{error.kind}`{_escape(doing)}*\n{{ .raised }}\n")
    return "\n".join(parts)


def _sorting(error: RaisedError) -> str:
    return re.sub(r"‹.*?›|\W", "", error.wrong).lower()


def _find_kinds(modules: "Iterator[ast.Module] | object") -> set[str]:
    """Return the names of all classes below WhywordError."""
    bases = {
        node.name: {base.id for base in node.bases if isinstance(base, ast.Name)}
        for module in modules  # type: ignore[attr-defined]
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef)
    }
    kinds, before = {"WhywordError"}, set[str]()
    while kinds != before:
        before = set(kinds)
        kinds |= {name for name, above in bases.items() if above & kinds}
    return kinds


def _calls(module: ast.Module, kinds: set[str]) -> Iterator[tuple[ast.FunctionDef | None, ast.Call]]:
    """Yield every call that makes an error, with the function around it."""

    def visit(
        node: ast.AST, function: ast.FunctionDef | None
    ) -> Iterator[tuple[ast.FunctionDef | None, ast.Call]]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node  # type: ignore[assignment]
        if isinstance(node, ast.ClassDef) and node.name in kinds - {"WhywordError"}:
            for call in ast.walk(node):
                if isinstance(call, ast.Call) and _name(call) == "__init__" and len(call.args) == 2:
                    made = ast.Call(func=ast.Name(id=node.name), args=call.args, keywords=[])
                    yield None, made
        if isinstance(node, ast.Call) and _name(node) in kinds and len(node.args) == 2 and not _repeats(node):
            yield function, node
        for child in ast.iter_child_nodes(node):
            yield from visit(child, function)

    return visit(module, None)


def _repeats(call: ast.Call) -> bool:
    """Tell whether an error only passes on the first line of another, or is given numbers (BusyError)."""
    wrong = call.args[0]
    while isinstance(wrong, ast.Call) and isinstance(wrong.func, ast.Attribute):
        wrong = wrong.func.value
    return isinstance(wrong, ast.Attribute)


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


class _Texts:
    """The texts that expressions can be, with placeholders where a value stands."""

    def __init__(self, modules: dict[Path, ast.Module]) -> None:
        self.functions: dict[tuple[Path, str], ast.FunctionDef] = {}
        self.constants: dict[str, tuple[Path, ast.expr]] = {}
        for path, module in modules.items():
            for node in ast.walk(module):
                if isinstance(node, ast.FunctionDef):
                    self.functions[path, node.name] = node
            for statement in module.body:
                if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                    self.constants[statement.targets[0].id] = (path, statement.value)

    def render(
        self, node: ast.expr, path: Path, function: ast.FunctionDef | None, depth: int = 0
    ) -> list[str]:
        """Return what an expression can say, one text for each of its branches."""
        made = [_one_line(text) for text in self._render(node, path, function, depth)]
        return list(dict.fromkeys(made))[:_MANY]

    def _render(self, node: ast.expr, path: Path, function: ast.FunctionDef | None, depth: int) -> list[str]:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return [node.value]
        if isinstance(node, ast.JoinedStr):
            return _join([self._render_part(part, path, function, depth) for part in node.values])
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return _join([self._render(side, path, function, depth) for side in (node.left, node.right)])
        if isinstance(node, ast.IfExp):
            return self._render(node.body, path, function, depth) + self._render(
                node.orelse, path, function, depth
            )
        if isinstance(node, ast.BoolOp):
            return [text for value in node.values for text in self._render(value, path, function, depth)]
        if isinstance(node, ast.Constant) and node.value is None:
            return []
        if depth < 4 and isinstance(node, ast.Name):
            return self._render_name(node, path, function, depth)
        if depth < 4 and isinstance(node, ast.Call) and (path, _name(node)) in self.functions:
            called = self.functions[path, _name(node)]
            values = [step.value for step in ast.walk(called) if isinstance(step, ast.Return) and step.value]
            return [text for value in values for text in self._render(value, path, called, depth + 1)]
        return [f"‹{_describe(node)}›"]

    def _render_part(
        self, part: ast.expr, path: Path, function: ast.FunctionDef | None, depth: int
    ) -> list[str]:
        if not isinstance(part, ast.FormattedValue):
            return self._render(part, path, function, depth)
        value = part.value
        said = isinstance(value, ast.IfExp | ast.JoinedStr) or (
            isinstance(value, ast.Name) and self._is_text(value.id, function)
        )
        return self._render(value, path, function, depth + 1) if said else [f"‹{_describe(value)}›"]

    def _render_name(
        self, node: ast.Name, path: Path, function: ast.FunctionDef | None, depth: int
    ) -> list[str]:
        values = _assigned(node.id, function)
        if values:
            return [text for value in values for text in self._render(value, path, function, depth + 1)]
        if node.id in self.constants:
            place, value = self.constants[node.id]
            return self._render(value, place, None, depth + 1)
        given = list(self._given(node.id, path, function))
        texts = [text for value, caller in given for text in self._render(value, path, caller, depth + 1)]
        return texts or [f"‹{_describe(node)}›"]

    def _given(
        self, name: str, path: Path, function: ast.FunctionDef | None
    ) -> Iterator[tuple[ast.expr, ast.FunctionDef]]:
        """Yield what the callers of a function, in its own module, pass for a parameter."""
        names = [argument.arg for argument in function.args.args] if function else []
        if function is None or name not in names:
            return
        for (place, _), caller in self.functions.items():
            for call in ast.walk(caller) if place == path else ():
                if isinstance(call, ast.Call) and _name(call) == function.name:
                    at = names.index(name) - (1 if names[0] == "self" else 0)
                    if at < len(call.args):
                        yield call.args[at], caller

    def _is_text(self, name: str, function: ast.FunctionDef | None) -> bool:
        values = _assigned(name, function) or ([self.constants[name][1]] if name in self.constants else [])
        return bool(values) and all(
            isinstance(value, ast.Constant | ast.JoinedStr | ast.IfExp) for value in values
        )


def _assigned(name: str, function: ast.FunctionDef | None) -> list[ast.expr]:
    """Return what a function assigns to a name; nothing for its parameters."""
    steps = ast.walk(function) if function else []
    values: list[ast.expr] = []
    for step in steps:
        if not isinstance(step, ast.Assign):
            continue
        for target in step.targets:
            if isinstance(target, ast.Name) and target.id == name:
                values.append(step.value)
            elif isinstance(target, ast.Tuple) and isinstance(step.value, ast.Tuple):
                names = [each.id if isinstance(each, ast.Name) else "" for each in target.elts]
                if name in names:
                    values.append(step.value.elts[names.index(name)])
    return values


def _join(parts: list[list[str]]) -> list[str]:
    texts = [""]
    for part in parts:
        texts = [text + more for text in texts for more in part][: 2 * _MANY]
    return texts


def _describe(node: ast.expr) -> str:
    """Return a readable name of a value."""
    if isinstance(node, ast.Name):
        return node.id.strip("_").replace("_", " ")
    if isinstance(node, ast.Attribute):
        inner = _describe(node.value)
        plain = node.attr.strip("_").replace("_", " ")
        return (
            f"{inner}’s {plain}"
            if inner not in {"self", "value", "error"} and plain != "name"
            else (inner if plain == "name" and inner != "self" else plain)
        )
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr == "join" and node.args:
            return f"{_describe(node.args[0])} …"
        if isinstance(node.func, ast.Attribute) and not node.args:
            return _describe(node.func.value)
        if node.args and _name(node) in {
            "str",
            "len",
            "repr",
            "float",
            "int",
            "sorted",
            "list",
            "tuple",
            "round",
            "abs",
            "type",
            "max",
            "min",
        }:
            return ("number of " if _name(node) == "len" else "") + _describe(node.args[0])
        if _name(node) == "first_line":
            return "what the library said"
        return (
            _describe(node.func.value)
            if isinstance(node.func, ast.Attribute) and _name(node).startswith(("remove", "strip", "replace"))
            else _name(node).strip("_").replace("_", " ")
        )
    if isinstance(node, ast.Subscript):
        return _describe(node.value)
    if isinstance(node, ast.GeneratorExp | ast.ListComp):
        return _describe(node.generators[0].iter)
    if isinstance(node, ast.BinOp | ast.BoolOp):
        return _describe(node.left if isinstance(node, ast.BinOp) else node.values[0])
    if isinstance(node, ast.Constant):
        return str(node.value)
    return "value"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _decapitalise(text: str) -> str:
    return text[:1].lower() + text[1:]


def _escape(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>#|~$^])", r"\\\1", text)
