"""Training on many machines with little communication: one bit per parameter, and often nothing at all.

>>> import torch, laconic
>>> model = torch.nn.Linear(4, 2)
>>> optimizer = laconic.ZeroOneAdam(model.parameters(), lr=1e-3, total_steps=1000)
>>> model(torch.randn(8, 4)).square().mean().backward()
>>> optimizer.step()
"""

from importlib.metadata import version

from . import _core, optimizers
from .checkpoint import resume, save
from .comm_hook import CodecState, OneBitState, codec_hook, one_bit_hook
from .ddp import ddp
from .deepspeed import from_deepspeed
from .environment import init_process_group
from .errors import Error, InvalidArgument, RankMissing, from_code
from .fsdp_hook import fsdp_hook
from .optimizer import Optimizer
from .optimizers import *  # the class of each registered method
from .state import Sharded, consolidate

_core._error = from_code

__version__ = version("laconic")
__all__ = [
    "CodecState",
    "Error",
    "InvalidArgument",
    "OneBitState",
    "Optimizer",
    "RankMissing",
    "Sharded",
    "codec_hook",
    "consolidate",
    "ddp",
    "from_deepspeed",
    "fsdp_hook",
    "init_process_group",
    "one_bit_hook",
    "resume",
    "save",
]
__all__ += optimizers.__all__
