"""Writes python/laconic/optimizers.pyi, which editors and type checkers read, from the registry of the installed package.

python tests/python/stub.py
"""

import inspect
from pathlib import Path

from laconic import optimizers

STUB = Path(__file__).parents[2] / "python/laconic/optimizers.pyi"
_HEAD = """# Written by tests/python/stub.py; a test compares.
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor

from .local_steps import AroundInner
from .optimizer import Optimizer

__all__ = {names}

def methods() -> list[dict[str, Any]]: ...
"""


def _arguments(cls: type) -> list[str]:
    found = inspect.signature(cls.__init__).parameters
    lines, keywords = [], False
    for name, one in found.items():
        if one.kind is inspect.Parameter.KEYWORD_ONLY and not keywords:
            lines, keywords = [*lines, "*"], True
        annotation = "" if name == "self" else f": {one.annotation}"
        default = "" if one.default is inspect.Parameter.empty else f" = {one.default!r}"
        lines.append(name + annotation + default)
    return [*lines, *(f"{alias}: {found[name].annotation} = ..." for alias, name in cls._method["aliases"].items())]


def stub() -> str:
    text = _HEAD.format(names=repr(optimizers.__all__).replace("'", '"'))
    for name, cls in optimizers._CLASSES.items():
        arguments = "".join(f"        {line},\n" for line in _arguments(cls))
        text += f'\nclass {name}({cls.__base__.__name__}):\n    """{cls.__doc__}"""\n\n'
        text += f"    def __init__(\n{arguments}    ) -> None: ...\n"
    return text


if __name__ == "__main__":
    STUB.write_text(stub())
