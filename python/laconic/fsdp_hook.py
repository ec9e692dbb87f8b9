"""FSDP for those who keep their own optimizer: shards of gradients become a coded mean between nodes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from . import mesh
from .accelerator import SideStream
from .comm_hook import CodecState
from .errors import InvalidArgument


def fsdp_hook(model: torch.nn.Module, state: CodecState) -> torch.nn.Module:
    """Averages what FSDP reduced inside a node between nodes, by the codec of `state`; returns the model.

        mesh = init_device_mesh("cpu", (nodes, shards), mesh_dim_names=("node", "shard"))
        fully_shard(model, mesh=mesh["shard"])
        laconic.fsdp_hook(model, laconic.CodecState(codec="int4", process_group=mesh["node"].get_group()))

    Call it after the last fully_shard, on all ranks, with the same model. FSDP waits for the mean of a module before its
    backward pass goes on. Zeros with which FSDP fills uneven shards take part in scales.

    >>> import laconic
    >>> callable(laconic.fsdp_hook)
    True
    """
    from torch.distributed.fsdp import FSDPModule

    modules = [module for module in model.modules() if isinstance(module, FSDPModule)]
    if not modules:
        raise InvalidArgument(f"{type(model).__name__} is not sharded: call torch.distributed.fsdp.fully_shard before")
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    mesh.ranks_of(parameters, [dist.get_rank()] if state._group is None else state._group.ranks)
    for place, module in enumerate(modules):  # outer ones first: a parameter is of the innermost
        module.set_all_reduce_hook(_Mean(state, place))
        state._places |= {id(parameter): place for parameter in module.parameters()}
    return model


class _Mean:
    """The hook of one module. It is called by backward, in the same order on all ranks."""

    def __init__(self, state: CodecState, place: int) -> None:
        self._state, self._place = state, place

    def __call__(self, gradients: Any) -> None:
        if gradients.dtype != torch.float32:
            raise InvalidArgument(
                f"FSDP reduces gradients as {gradients.dtype}: laconic codes float32; give "
                "MixedPrecisionPolicy(reduce_dtype=torch.float32)"
            )
        state, mark = self._state, SideStream.mark(gradients.device)
        state._queue.submit(state._means.reduce, [self._place], [gradients.numel()], gradients, mark).result()
