"""A flat copy of parameters that stay where they are, for an optimizer that looks at them from time to time."""

from __future__ import annotations

from typing import Callable

import torch
from torch import Tensor

from . import _core
from .arena import by_strides, dense_strides
from .errors import InvalidArgument
from .shards import Movers, local_of


class FlatCopy:
    """Float32 values of parameters, packed tightly in their order, each in the order of its own strides.

    gather() reads the parameters, publish() writes them; nothing else touches their memory. An element of a bf16 or fp16
    parameter that is the rounded common weight stands for that weight, so what nobody moved is displaced by nothing; and
    rounding the copy always gives the parameters, bit for bit.
    """

    attach = True  # no gradients are handed over
    on_gpu = False  # the copy is the host's, wherever the parameters are

    def __init__(self, parameters: list[Tensor], names: list[str]) -> None:
        self.parameters, self.names = parameters, names
        self.begins = [0]
        for parameter in parameters:
            self.begins.append(self.begins[-1] + local_of(parameter).numel())
        self.elements = self.begins[-1]
        self._strides = [dense_strides(local) for local in self._locals()]
        self._looks = [_look_of(p) for p in parameters]
        self._refuse_shared_memory()
        self._memory = _core.Memory(self.elements)
        self._parts = [
            torch.from_dlpack(self._memory.part(begin, tuple(local.shape), strides))
            for begin, local, strides in zip(self.begins, self._locals(), self._strides)
        ]
        for local, part in zip(self._locals(), self._parts):
            part.copy_(local)
        self._movers = Movers()
        self._movers.stay(parameters)
        self.note()

    def _locals(self) -> list[Tensor]:
        """What this rank holds of the parameters; of sharded ones FSDP may replace it."""
        return [local_of(p).detach() for p in self.parameters]

    def _refuse_shared_memory(self) -> None:
        places: dict[int, str] = {}
        for local, name in zip(self._locals(), self.names):
            other = places.setdefault(local.data_ptr(), name) if local.numel() else name
            if other != name:
                raise InvalidArgument(
                    f"{name} lies in the memory of {other}: tie them by using one Parameter in both places, as modules do"
                )

    @property
    def weights(self) -> Tensor:
        return torch.from_dlpack(self._memory.part(0, (self.elements,), (1,)))

    def range(self, i: int) -> tuple[int, int]:
        return self.begins[i], self.begins[i + 1]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [tuple(part.shape) for part in self._parts]

    def layouts(self) -> dict[int, tuple[int, ...]]:
        """Strides of the parameters whose elements do not lie in the order of their indices."""
        return {i: self._strides[i] for i, part in enumerate(self._parts) if not part.is_contiguous()}

    # Between the parameters and the copy.

    @torch.no_grad()
    def gather(self, common: Callable[[Tensor], None]) -> None:
        """`common` writes the flat common weights. What is gathered does not depend on what was gathered before."""
        for value, part in zip(self._locals(), self._parts):
            part.copy_(value)
        low = [i for i, p in enumerate(self.parameters) if p.dtype != torch.float32]
        if not low:
            return
        weights = torch.empty(self.elements)
        common(weights)
        for i in low:
            value, shared = local_of(self.parameters[i]).detach().cpu(), self._view(weights, i)
            same = value.view(torch.int16) == shared.to(value.dtype).view(torch.int16)
            torch.where(same, shared, self._parts[i], out=self._parts[i])

    @torch.no_grad()
    def publish(self) -> None:
        for local, part in zip(self._locals(), self._parts):
            local.copy_(part)
        self._movers.reshard()
        self.note()

    @torch.no_grad()
    def show(self, weights: Tensor) -> None:
        """Writes other flat weights to the parameters; publish() brings back those of the copy."""
        for i, local in enumerate(self._locals()):
            local.copy_(self._view(weights, i))
        self._movers.reshard()
        self.note()

    def _view(self, weights: Tensor, i: int) -> Tensor:
        return weights.as_strided(tuple(self._parts[i].shape), self._strides[i], self.begins[i])

    # What others did to the parameters. Only values show writes to .data.

    def note(self) -> None:
        """Parameters are taken to be as they are now."""
        self._noted = self._hashes()

    def written(self) -> list[int]:
        """Those with other values than when they were noted."""
        return [i for i, (now, then) in enumerate(zip(self._hashes(), self._noted)) if now != then]

    def moved(self) -> list[int]:
        """The same, and they are taken to be as they are now."""
        before, self._noted = self._noted, self._hashes()
        return [i for i, (now, then) in enumerate(zip(self._noted, before)) if now != then]

    def take_home(self, started: bool) -> None:
        """Other memory with the same values is as good; another shape, type or device is an error."""
        for parameter, name, then in zip(self.parameters, self.names, self._looks):
            now = _look_of(parameter)
            if now != then:
                raise InvalidArgument(
                    f"{name} is {now} and was {then} when the optimizer took it in: a model is converted, resized or moved to "
                    "another device before the first step, or gets another optimizer"
                )

    def _hashes(self) -> list[int]:
        locals_ = self._locals()
        dense = [p if p.stride() == strides else p.contiguous() for p, strides in zip(locals_, self._strides)]
        here = iter(_core.hashes([(p.data_ptr(), p.nbytes) for p in dense if p.device.type == "cpu"]))
        # Of a GPU's memory only a copy could be hashed: torch's count of writes stands for it, which misses those to .data.
        return [next(here) if p.device.type == "cpu" else p._version for p in locals_]


def _look_of(parameter: Tensor) -> str:
    return f"{tuple(parameter.shape)} {parameter.dtype} on {parameter.device}{by_strides(parameter)}"
