"""Time lines of steps."""

from __future__ import annotations

import os
from pathlib import Path

from . import _core


class Trace:
    """The time line of one optimizer on this rank, until it is closed; another one of the same optimizer ends it too."""

    def __init__(self, core: _core.Optimizer, path: str | os.PathLike) -> None:
        self._core: _core.Optimizer | None = core
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        core.trace(True)

    def close(self) -> None:
        """Writes the file, which is there whole or as it was. Nothing happens the second time."""
        if self._core is None:
            return
        self._core.trace(False)
        beside = self.path.with_name(self.path.name + ".part")
        beside.write_text(self._core.traced())
        os.replace(beside, self.path)
        self._core = None

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
