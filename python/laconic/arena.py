"""The parameters of an optimizer as one flat piece of memory."""

from __future__ import annotations

import torch
from torch import Tensor

from . import _core
from .errors import InvalidArgument

_TRAINABLE = (torch.float32, torch.bfloat16, torch.float16)


def check_parameter(parameter: Tensor, name: str) -> None:
    """Refuses what cannot be trained, saying why."""
    if hasattr(parameter, "placements") or hasattr(parameter, "_local_shard") or hasattr(parameter, "_is_sharded"):
        raise InvalidArgument(
            f"{name} is sharded ({type(parameter).__name__}, FSDP?): every rank needs whole parameters, "
            "use DistributedDataParallel with laconic.ddp, or no wrapper"
        )
    if parameter.device.type == "cuda":
        raise InvalidArgument(
            f"{name} is on {parameter.device}: laconic has no CUDA kernels yet, and does not go through the CPU "
            "silently; train on the CPU"
        )
    if parameter.device.type != "cpu":
        raise InvalidArgument(f"{name} is on {parameter.device}: parameters must be on the CPU")
    if parameter.dtype not in _TRAINABLE:
        raise InvalidArgument(f"{name} is {parameter.dtype}: only float32, bfloat16 and float16 can be trained")
    if parameter.layout is not torch.strided:
        raise InvalidArgument(f"{name} is {parameter.layout}: parameters must be dense")


class Arena:
    """Flat weights and gradient, packed tightly in the order of `parameters`.

    float32 parameters become views of the weights; others keep their own memory beside a float32 master. Where
    `attach` is true gradients become views of the flat gradient.
    """

    def __init__(self, parameters: list[Tensor], names: list[str]) -> None:
        self.parameters, self.names = parameters, names
        self.attach = True
        self.begins = [0]
        for parameter in parameters:
            self.begins.append(self.begins[-1] + parameter.numel())
        self.elements = self.begins[-1]
        self.weights, self.gradient = (torch.from_dlpack(_core.zeros(self.elements)) for _ in range(2))
        self.masters = [self._part(self.weights, i) for i in range(len(parameters))]
        # Each with a version counter of its own (.data), which tells whether somebody wrote to it.
        self.gradients = [self._part(self.gradient, i).data for i in range(len(parameters))]
        self._versions = [0] * len(parameters)
        for parameter, master in zip(parameters, self.masters):
            master.copy_(parameter.detach())
            if parameter.dtype == torch.float32:
                parameter.data = master
        self.note_versions()

    def _part(self, flat: Tensor, i: int) -> Tensor:
        return flat[self.begins[i] : self.begins[i + 1]].view(self.parameters[i].shape)

    def range(self, i: int) -> tuple[int, int]:
        return self.begins[i], self.begins[i + 1]

    def note_versions(self) -> None:
        self._versions = [parameter._version for parameter in self.parameters]

    def written(self) -> list[int]:
        """The parameters that somebody else wrote to since note_versions()."""
        return [i for i, p in enumerate(self.parameters) if p._version != self._versions[i]]

    def take_home(self, started: bool) -> None:
        """Parameters whose memory was replaced, as module.to(...) does, come back; once `started`, unless values differ."""
        for i, (parameter, master) in enumerate(zip(self.parameters, self.masters)):
            if parameter.dtype != torch.float32 or parameter.data_ptr() == master.data_ptr() or not parameter.numel():
                continue
            check_parameter(parameter, self.names[i])
            if started and not torch.equal(parameter, master):
                raise InvalidArgument(
                    f"{self.names[i]} no longer lies in the optimizer's memory and has other values: another optimizer "
                    "took it, or .data was replaced (load_state_dict(assign=True)); do that before the first step"
                )
            master.copy_(parameter.detach())
            parameter.data = master

    def read_back(self, written: list[int]) -> None:
        """Masters of low-precision parameters take what was written to these."""
        for i in written:
            parameter = self.parameters[i]
            if parameter.dtype != torch.float32:
                self.masters[i].copy_(parameter.detach())

    def publish(self) -> None:
        """Low-precision parameters take what their masters became."""
        for parameter, master in zip(self.parameters, self.masters):
            if parameter.dtype != torch.float32:
                parameter.detach().copy_(master)
        self.note_versions()

    def collect(self, i: int) -> None:
        """Brings the gradient of a parameter into the flat one."""
        parameter, flat = self.parameters[i], self.gradients[i]
        gradient = parameter.grad
        if gradient is flat:
            return
        if gradient is None:
            flat.zero_()
            return
        if gradient.layout is not torch.strided:
            raise InvalidArgument(
                f"the gradient of {self.names[i]} is sparse: make the embedding with sparse=False, one bit a parameter "
                "costs less than the indices"
            )
        flat.copy_(gradient.detach())
        if self.attach and parameter.dtype == torch.float32:
            parameter.grad = flat
