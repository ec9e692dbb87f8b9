"""Training on many machines while saying very little: one bit a parameter, and often nothing at all.

>>> import torch, laconic
>>> model = torch.nn.Linear(4, 2)
>>> optimizer = laconic.ZeroOneAdam(model.parameters(), lr=1e-3, total_steps=1000)
>>> model(torch.randn(8, 4)).square().mean().backward()
>>> optimizer.step()
"""

from importlib.metadata import version

from . import _core
from .ddp import OneBitState, ddp, one_bit_hook
from .environment import init_process_group
from .errors import Error, InvalidArgument, RankMissing, from_code
from .optimizer import Optimizer
from .optimizers import SGD, AdamW, Birder, OneBitAdam, ZeroOneAdam
from .state import Sharded, consolidate, resume, save

_core._error = from_code

__version__ = version("laconic")
__all__ = [
    "SGD",
    "AdamW",
    "Birder",
    "Error",
    "InvalidArgument",
    "OneBitAdam",
    "OneBitState",
    "Optimizer",
    "RankMissing",
    "Sharded",
    "ZeroOneAdam",
    "consolidate",
    "ddp",
    "init_process_group",
    "one_bit_hook",
    "resume",
    "save",
]
