"""The ranks that hold the parts of one model, and who holds the same part."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from . import _core, agreement, transport
from .errors import InvalidArgument
from .shards import is_shard, piece_of

_LINES = (
    'mesh = init_device_mesh("cpu", (nodes, shards), mesh_dim_names=("node", "shard")), '
    'fully_shard(model, mesh=mesh["shard"]) and process_group=mesh["node"].get_group()'
)


def _ranks_of(parameter: Any) -> list[int]:
    return sorted(parameter.device_mesh.mesh.flatten().tolist())


class Shards:
    """One rank's end of them. Construction is collective over them."""

    def __init__(self, ranks: list[int], timeout: timedelta | None) -> None:
        self.group = transport.Group(ranks, timeout or transport.DEFAULT_TIMEOUT, label="shards/") if len(ranks) > 1 else None
        self.transport = _core.PythonTransport(self.group) if self.group is not None else None
        self.rank, self.size = ranks.index(dist.get_rank()), len(ranks)

    def holders(self, parameters: list[Any], names: list[str]) -> list[tuple[int, ...]]:
        """Of each parameter: for each of these ranks the first one that holds the same part. Collective."""
        if self.group is None:
            return [(0,)] * len(parameters)
        lines = [f"{name} {tuple(p.shape)} {p.dtype}" for p, name in zip(parameters, names)]
        agreement.agree(self.group, lines, "give the same parameters to the optimizer on every rank of the shards' mesh")
        every = [text.decode().split("\n") for text in self.group.gather_bytes("\n".join(map(piece_of, parameters)).encode())]
        return [tuple(pieces.index(piece) for piece in pieces) for pieces in zip(*every)]

    def refuse_different(self, names: list[str], parts: list[torch.Tensor], holders: list[int]) -> None:
        """Gradients of what several ranks hold must be equal on them; `holders` are the first ones of these parts."""
        if self.group is None:
            return
        mine = [(_core.hash64(part.cpu()) if part.numel() else 0) & (2**62 - 1) for part in parts]
        every = self.group.gather(torch.tensor([mine, holders])).tolist()
        for rank, (hashes, firsts) in enumerate(every):
            for name, value, first in zip(names, hashes, range(len(firsts))):
                if value != every[firsts[first]][0][first]:
                    here, there = self.group.ranks[rank], self.group.ranks[firsts[first]]
                    raise InvalidArgument(
                        f"ranks {there} and {here} both hold {name} and have other gradients for it: nobody averages it over "
                        "the shards' mesh, so they would part; shard it too, or give all ranks of the mesh the same data"
                    )

    def close(self) -> None:
        if self.group is not None:
            self.group.close()


def find(groups: list[dict[str, Any]], process_group: Any, timeout: timedelta | None) -> Shards | None:
    """The shards of these parameters, None where all are whole. Refuses a mesh that does not fit to `process_group`."""
    parameters = [parameter for group in groups for parameter in group["params"]]
    if not any(map(is_shard, parameters)):
        return None
    together = dist.get_process_group_ranks(process_group if process_group is not None else dist.group.WORLD)
    return Shards(ranks_of(parameters, together), timeout)


def ranks_of(parameters: list[Any], together: list[int]) -> list[int]:
    """The ranks that hold parts of these parameters. `together` are those that exchange: both share this rank only."""
    sharded = [parameter for parameter in parameters if is_shard(parameter)]
    largest = max(sharded, key=lambda p: p.device_mesh.size())
    ranks = _ranks_of(largest)
    for parameter in sharded:
        _check(parameter, ranks)
    both = sorted(set(together) & set(ranks))
    if both != [dist.get_rank()]:
        hybrid = " (a mesh of two dimensions makes FSDP average between nodes by itself)" if largest.device_mesh.ndim > 1 else ""
        raise InvalidArgument(
            f"parameters are sharded over ranks {ranks}{hybrid}, process_group has ranks {list(together)}: ranks {both} are "
            f"in both. The ranks of process_group exchange one shard, so it and the mesh share this rank only: write {_LINES}"
        )
    return ranks


def _check(parameter: Any, ranks: list[int]) -> None:
    if any(placement.is_partial() for placement in parameter.placements):
        raise InvalidArgument(
            f"a parameter has placements {parameter.placements}: Partial is a sum that is not made yet; use Shard or Replicate"
        )
    if not set(_ranks_of(parameter)) <= set(ranks):
        raise InvalidArgument(
            f"one parameter lies on ranks {_ranks_of(parameter)}, another on ranks {ranks}: make an optimizer for each mesh"
        )
