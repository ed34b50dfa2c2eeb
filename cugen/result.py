"""The outputs of a run."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray


class Result(dict[str, NDArray[Any]]):
    """The outputs of a run by name, as a dict. It shows shapes and types, not the elements."""

    def __repr__(self) -> str:
        outputs = (f"{name}: {array.dtype.name} {array.shape}" for name, array in self.items())
        return f"<Result {', '.join(outputs)}>"

    def _repr_html_(self) -> str:
        """For notebooks."""
        from cugen.html.notebook import result_html

        return result_html(self)
