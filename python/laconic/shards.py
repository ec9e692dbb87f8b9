"""Parameters of which a rank holds a part (DTensor): its memory, and its name."""

from __future__ import annotations

import contextlib
from typing import Any

from torch import Tensor


def is_shard(tensor: Tensor) -> bool:
    return hasattr(tensor, "_local_tensor")


def local_of(tensor: Tensor) -> Tensor:
    """What this rank holds of a parameter or gradient: memory, not a copy. A whole tensor is its own."""
    return getattr(tensor, "_local_tensor", tensor)


def gradient_of(parameter: Tensor) -> Tensor | None:
    """The local part of its gradient. Collective over its mesh where the gradient lies otherwise than the parameter."""
    gradient = parameter.grad
    if gradient is not None and is_shard(parameter) and gradient.placements != parameter.placements:
        gradient = gradient.redistribute(placements=parameter.placements)
    return None if gradient is None else local_of(gradient)


def as_part_of(parameter: Any, local: Tensor) -> Tensor:
    """`local` as what a gradient of the parameter is."""
    if not is_shard(parameter):
        return local
    from torch.distributed.tensor import DTensor

    mesh, placements = parameter.device_mesh, parameter.placements
    sizes = dict(shape=parameter.shape, stride=parameter.stride())
    return DTensor.from_local(local, mesh, placements, run_check=False, **sizes)


class Movers:
    """Moves the memory of parameters. FSDP keeps a second view of a shard, which must move with it."""

    def __init__(self) -> None:
        self._of_fsdp: dict[int, Any] | None = None
        self._modules: list[Any] = []  # FSDP's, that hold these parameters

    def move(self, parameter: Any, home: Tensor) -> bool:
        """False: the parameter must keep its own memory, as FSDP pads it or cannot be asked."""
        if not is_shard(parameter):
            parameter.data = home
            return True
        try:
            kept = self._kept(parameter)
            if kept is not None and (tuple(kept.padded_sharded_param_size) != tuple(home.shape) or kept.offload_to_cpu):
                return False
            if kept is not None:
                kept._sharded_param_data = home.view(-1)
        except (ImportError, AttributeError):  # another torch: FSDP's own structures are not public
            return False
        parameter._local_tensor = home
        return True

    def stay(self, parameters: list[Any]) -> None:
        """They keep their memory; reshard() is for their modules too."""
        for parameter in filter(is_shard, parameters):
            with contextlib.suppress(ImportError, AttributeError):
                self._kept(parameter)

    def reshard(self) -> None:
        """The weights changed: FSDP drops what it gathered of them, as after an evaluation, whose module stays whole."""
        for module in self._modules:
            module.reshard()

    def _kept(self, parameter: Any) -> Any:
        """FSDP's structure of a parameter, None where it has none."""
        kept, module = self._fsdp_parameters().get(id(parameter), (None, None))
        if module is not None and module not in self._modules:
            self._modules.append(module)
        return kept

    def _fsdp_parameters(self) -> dict[int, Any]:
        if self._of_fsdp is None:
            from torch.distributed._composable_state import _module_state_mapping

            self._of_fsdp = {}
            for module, state in list(_module_state_mapping.items()):
                for group in getattr(state(), "_fsdp_param_groups", ()):
                    self._of_fsdp |= {id(one.sharded_param): (one, module) for one in group.fsdp_params}
        return self._of_fsdp


def piece_of(parameter: Any) -> str:
    """Names what this rank holds of a parameter: equal where the same part is held."""
    if not is_shard(parameter):
        return "whole"
    place, mesh = parameter.device_mesh.get_coordinate(), parameter.device_mesh.mesh
    cuts = [
        f"{placement} {at + 1} of {size}"
        for placement, at, size in zip(parameter.placements, place, mesh.shape)
        if not placement.is_replicate()
    ]
    return ", ".join(cuts) or "whole"


def box_of(parameter: Any) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Begin and size of this rank's part in each dimension; None where it is no box of the parameter."""
    if not is_shard(parameter):
        return (0,) * parameter.ndim, tuple(parameter.shape)
    if any(type(placement).__name__ == "_StridedShard" for placement in parameter.placements):
        return None
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset as place_of

    size, begin = place_of(parameter.shape, parameter.device_mesh, parameter.placements)
    return tuple(begin), tuple(size)


def lines_of(parameters: list[Any]) -> list[str]:
    """What the ranks that exchange these parameters must have alike."""
    return [f"{tuple(p.shape)} {p.dtype}" + (f" ({piece_of(p)})" if is_shard(p) else "") for p in parameters]
