"""What every result can do: give its document, be made of one, be shown and saved."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from ..document.kinds import kind_of
from ..document.schemas import REMEDY, check_document
from ..errors import InputError

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["Shown"]

_Result = TypeVar("_Result", bound="Shown")


class Shown:
    """What can be looked at: everything that has a document. Its kind says how (document/kinds.py)."""

    schema: ClassVar[str]
    """That of its documents."""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document: of a result that is itself the declared dataclass, its fields."""
        fields: dict[str, Any] = asdict(cast("Any", self))
        lists = {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
        return {"schema": self.schema, **lists}

    @classmethod
    def from_dict(cls: type[_Result], document: Mapping[str, Any]) -> _Result:
        """Make the result that a JSON document was made from; refuse a document that does not fit."""
        kind = kind_of(document)
        if kind.schema != cls.schema:
            raise InputError(f"The document has the schema {kind.schema!r}, not {cls.schema!r}.", REMEDY)
        made: _Result = cls._from_declared(check_document(kind, document))
        return made

    @classmethod
    def _from_declared(cls, declared: Any) -> Any:
        """Make the result of the declared fields of its document, where it is not itself what is declared."""
        return declared

    def save(self, path: str | Path, by: str = "block", top: int | None = None) -> None:
        """Write a file; its ending says what: .json, .html, .tex, .png, .svg, .csv, .talp or .pharaoh.

        Which of them there are depends on the kind of result. `by`: "head" makes the picture (.png, .svg)
        that of blocks × heads, "depth" shows flow, "routes" the `top` strongest routes between positions.
        """
        from ..view.saving import save_documents

        save_documents([self.to_dict()], path, by, top)

    def show(self, by: str | None = None, top: int | None = None) -> None:
        """Print the terminal view; `by`: block, head, depth, routes, token or word; `top`: the strongest."""
        from rich.console import Console

        from ..view.showing import print_by_kind

        print_by_kind(self.to_dict(), Console(highlight=False), by, top)

    def to_dataframe(self, *, wide: bool = False) -> "DataFrame":
        """Return a tidy data frame (pandas): one row for each score, neuron, word or choice.

        Of an explanation: for each token and depth or block. `wide`: one row for each token, with a column
        for each block.
        """
        from ..view.showing import make_frame_by_kind

        return make_frame_by_kind(self.to_dict(), wide=wide)

    def _repr_html_(self) -> str | None:
        from ..view.showing import render_notebook_by_kind

        return render_notebook_by_kind(self.to_dict())
