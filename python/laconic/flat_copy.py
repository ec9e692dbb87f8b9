"""A flat copy of parameters that stay where they are, for an optimizer that looks at them from time to time."""

from __future__ import annotations

from typing import Callable

import torch
from torch import Tensor

from . import _core
from .arena import by_strides, dense_strides
from .errors import InvalidArgument


class FlatCopy:
    """Float32 values of parameters, packed tightly in their order, each in the order of its own strides.

    gather() reads the parameters, publish() writes them; nothing else touches their memory. An element of a bf16 or fp16
    parameter that is the rounded common weight stands for that weight, so what nobody moved is displaced by nothing; and
    rounding the copy always gives the parameters, bit for bit.
    """

    attach = True  # no gradients are handed over

    def __init__(self, parameters: list[Tensor], names: list[str]) -> None:
        self.parameters, self.names = parameters, names
        self.begins = [0]
        for parameter in parameters:
            self.begins.append(self.begins[-1] + parameter.numel())
        self.elements = self.begins[-1]
        self._strides = [dense_strides(p) for p in parameters]
        self._looks = [_look_of(p) for p in parameters]
        self._refuse_shared_memory()
        self._memory = _core.Memory(self.elements)
        self._parts = [
            torch.from_dlpack(self._memory.part(begin, tuple(p.shape), strides))
            for begin, p, strides in zip(self.begins, parameters, self._strides)
        ]
        for parameter, part in zip(parameters, self._parts):
            part.copy_(parameter.detach())
        self.note()

    def _refuse_shared_memory(self) -> None:
        places: dict[int, str] = {}
        for parameter, name in zip(self.parameters, self.names):
            other = places.setdefault(parameter.data_ptr(), name) if parameter.numel() else name
            if other != name:
                raise InvalidArgument(
                    f"{name} lies in the memory of {other}: tie them by using one Parameter in both places, as modules do"
                )

    @property
    def weights(self) -> Tensor:
        return torch.from_dlpack(self._memory.part(0, (self.elements,), (1,)))

    def range(self, i: int) -> tuple[int, int]:
        return self.begins[i], self.begins[i + 1]

    def layouts(self) -> dict[int, tuple[int, ...]]:
        """Strides of the parameters whose elements do not lie in the order of their indices."""
        return {i: self._strides[i] for i, part in enumerate(self._parts) if not part.is_contiguous()}

    # Between the parameters and the copy.

    @torch.no_grad()
    def gather(self, common: Callable[[Tensor], None]) -> None:
        """`common` writes the flat common weights. What is gathered does not depend on what was gathered before."""
        for parameter, part in zip(self.parameters, self._parts):
            part.copy_(parameter.detach())
        low = [i for i, p in enumerate(self.parameters) if p.dtype != torch.float32]
        if not low:
            return
        weights = torch.empty(self.elements)
        common(weights)
        for i in low:
            value, shared = self.parameters[i].detach(), self._view(weights, i)
            same = value.view(torch.int16) == shared.to(value.dtype).view(torch.int16)
            torch.where(same, shared, self._parts[i], out=self._parts[i])

    @torch.no_grad()
    def publish(self) -> None:
        for parameter, part in zip(self.parameters, self._parts):
            parameter.detach().copy_(part)
        self.note()

    @torch.no_grad()
    def show(self, weights: Tensor) -> None:
        """Writes other flat weights to the parameters; publish() brings back those of the copy."""
        for i, parameter in enumerate(self.parameters):
            parameter.detach().copy_(self._view(weights, i))
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
        dense = [p.detach() for p in self.parameters]
        dense = [p if p.stride() == strides else p.contiguous() for p, strides in zip(dense, self._strides)]
        return _core.hashes([(p.data_ptr(), p.nbytes) for p in dense])


def _look_of(parameter: Tensor) -> str:
    return f"{tuple(parameter.shape)} {parameter.dtype} on {parameter.device}{by_strides(parameter)}"
