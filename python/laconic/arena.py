"""The parameters of an optimizer as one flat piece of memory."""

from __future__ import annotations

import bisect
import math

import torch
from torch import Tensor

from . import _core, accelerator
from .errors import InvalidArgument
from .shards import Movers, as_part_of, gradient_of, is_shard, local_of

_TRAINABLE = (torch.float32, torch.bfloat16, torch.float16)


def check_parameter(parameter: Tensor, name: str) -> None:
    """Refuses what cannot be trained, saying why."""
    if hasattr(parameter, "_local_shard") or hasattr(parameter, "_is_sharded"):
        raise InvalidArgument(
            f"{name} is sharded by FSDP's first version ({type(parameter).__name__}): shard with "
            "torch.distributed.fsdp.fully_shard, or use DistributedDataParallel with laconic.ddp"
        )
    if accelerator.name_of(parameter.device) is None:
        raise InvalidArgument(
            f"{name} is on {parameter.device}: laconic has kernels for the CPU and for CUDA, and does not go through the "
            "CPU silently; move the model to one of them"
        )
    if parameter.dtype not in _TRAINABLE:
        raise InvalidArgument(f"{name} is {parameter.dtype}: only float32, bfloat16 and float16 can be trained")
    if parameter.layout is not torch.strided:
        raise InvalidArgument(f"{name} is {parameter.layout}: parameters must be dense")


def device_of(parameters: list[Tensor], names: list[str]) -> torch.device:
    """The one device of all parameters."""
    first = parameters[0].device if parameters else torch.device("cpu")
    for parameter, name in zip(parameters, names):
        if parameter.device != first:
            raise InvalidArgument(
                f"{names[0]} is on {first} and {name} on {parameter.device}: one optimizer trains parameters of one device "
                "(a process per GPU)"
            )
    return first


class _OnGpu:
    """Flat memory of a GPU, from torch's allocator."""

    def __init__(self, elements: int, device: torch.device) -> None:
        self._all = torch.zeros(elements, dtype=torch.float32, device=device)

    @property
    def address(self) -> int:
        return self._all.data_ptr()

    def part(self, begin: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Tensor:
        # .data: with a count of writes of its own, by which overlap knows whether a gradient was changed.
        return self._all.as_strided(shape, strides, begin).data


def dense_strides(parameter: Tensor) -> tuple[int, ...]:
    """The parameter's own strides where its elements fill their memory, each once; else those of a contiguous one."""
    own, shape = parameter.stride(), parameter.shape
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in zip(own, shape) if size != 1):
        if stride != expected:
            return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
        expected *= size
    return own


def by_strides(parameter: Tensor) -> str:
    """Names the layout of a parameter where it is not the usual one."""
    parameter = local_of(parameter)
    strides = dense_strides(parameter)
    return "" if parameter.is_contiguous() or strides != parameter.stride() else f" with strides {strides}"


try:  # torch before 2.6 takes one tensor
    torch.autograd.graph.increment_version([torch.zeros(1)])
    _increment_versions = torch.autograd.graph.increment_version
except TypeError:

    def _increment_versions(tensors: list[Tensor]) -> None:
        for tensor in tensors:
            torch.autograd.graph.increment_version(tensor)


class Arena:
    """Flat weights and gradient, packed tightly in the order of `parameters`, each in the order of its own strides.

    Of a sharded parameter (laconic.shards) the arena has what this rank holds. float32 parameters move into the
    weights; others, and shards that FSDP pads, keep their own memory beside a float32 master. Where `attach` is true
    gradients move into the flat gradient. torch may replace the memory of any tensor in place, as share_memory()
    does: where something lies is compared with the core's addresses, never with a tensor's.
    """

    def __init__(self, parameters: list[Tensor], names: list[str]) -> None:
        self.parameters, self.names = parameters, names
        self.attach = True
        self.begins = [0]
        for parameter in parameters:
            self.begins.append(self.begins[-1] + local_of(parameter).numel())
        self.elements = self.begins[-1]
        self.shapes = [tuple(local_of(p).shape) for p in parameters]
        self._strides = [dense_strides(local_of(p)) for p in parameters]
        self.device = device_of(parameters, names)
        self._weights, self._gradient = self._memory(), self._memory()
        self._homes = [self._weights.address + 4 * begin for begin in self.begins]
        self._gradient_homes = [self._gradient.address + 4 * begin for begin in self.begins]
        self._masters: dict[int, Tensor] = {}
        self._movers = Movers()
        for i, parameter in enumerate(parameters):
            home = self._part(self._weights, i)
            home.copy_(local_of(parameter).detach())
            if parameter.dtype != torch.float32 or not self._movers.move(parameter, home):
                self._masters[i] = home
        self.gradients = [self._part(self._gradient, i) for i in range(len(parameters))]
        self._wrapped: dict[int, Tensor] = {}  # gradients of shards, as parts of whole ones
        self.note()

    def _memory(self) -> _core.Memory | _OnGpu:
        return _core.Memory(self.elements) if self.device.type == "cpu" else _OnGpu(self.elements, self.device)

    def _view(self, memory: _core.Memory | _OnGpu, begin: int, shape: tuple, strides: tuple) -> Tensor:
        part = memory.part(begin, shape, strides)
        return part if isinstance(part, Tensor) else torch.from_dlpack(part)

    def _part(self, memory: _core.Memory | _OnGpu, i: int) -> Tensor:
        return self._view(memory, self.begins[i], self.shapes[i], self._strides[i])

    @property
    def weights(self) -> Tensor:
        return self._view(self._weights, 0, (self.elements,), (1,))

    @property
    def gradient(self) -> Tensor:
        return self._view(self._gradient, 0, (self.elements,), (1,))

    @property
    def on_gpu(self) -> bool:
        return self.device.type != "cpu"

    def addresses(self) -> tuple[int, int]:
        return self._weights.address, self._gradient.address

    def gradient_parts(self) -> list[Tensor]:
        """Of each parameter, flat."""
        return list(self.gradient.split([end - begin for begin, end in zip(self.begins, self.begins[1:])]))

    def range(self, i: int) -> tuple[int, int]:
        return self.begins[i], self.begins[i + 1]

    def layouts(self) -> dict[int, tuple[int, ...]]:
        """Strides of the parameters whose elements do not lie in the order of their indices."""
        return {i: self._strides[i] for i, part in enumerate(self.gradients) if not part.is_contiguous()}

    def take_home(self, started: bool) -> None:
        """Parameters whose memory was replaced come back; an error once `started`, if their values differ too."""
        for i, (parameter, home) in enumerate(zip(self.parameters, self._homes)):
            if local_of(parameter).data_ptr() == home or i in self._masters or not local_of(parameter).numel():
                continue
            check_parameter(parameter, self.names[i])
            place = self._part(self._weights, i)
            if parameter.dtype != torch.float32:  # module.bfloat16(): from now on the place is its master
                self._masters[i] = place
                continue
            if not started:
                place.copy_(local_of(parameter).detach())
            elif not torch.equal(local_of(parameter).detach().view(torch.int32), place.view(torch.int32)):
                raise InvalidArgument(
                    f"{self.names[i]} no longer lies in the optimizer's memory and has other values: another optimizer "
                    "took it, or .data was replaced (load_state_dict(assign=True)); do that before the first step"
                )
            if not self._movers.move(parameter, place):
                self._masters[i] = place

    # What others wrote. Only values show writes to .data; the core watches its weights itself.

    def note(self) -> None:
        """Parameters are taken to be as they are now."""
        self._noted_low = self._hashes_of_low()
        self._versions = [local_of(parameter)._version for parameter in self.parameters]

    def touched(self) -> list[int]:
        """The parameters that were written to since they were noted; misses writes to .data of float32 ones."""
        low = self._hashes_of_low()
        return [
            i
            for i, (p, version) in enumerate(zip(self.parameters, self._versions))
            if local_of(p)._version != version or low.get(i) != self._noted_low.get(i)
        ]

    def written(self) -> list[int]:
        """The low-precision parameters with other values than those noted."""
        return [i for i, value in self._hashes_of_low().items() if value != self._noted_low.get(i)]

    def _hashes_of_low(self) -> dict[int, int]:
        if not self._masters:
            return {}
        if self.on_gpu:  # where only a copy to the host could be hashed: writes to .data do not show
            return {i: self.parameters[i]._version for i in self._masters}
        dense = {i: local_of(self.parameters[i]).detach() for i in self._masters}
        dense = {i: p if p.stride() == self._strides[i] else p.contiguous() for i, p in dense.items()}
        return dict(zip(dense, _core.hashes([(p.data_ptr(), p.nbytes) for p in dense.values()])))

    def read_back(self, written: list[int]) -> None:
        """Masters take what was written to low-precision parameters; elements that were left alone keep theirs."""
        for i in written:
            parameter, master = local_of(self.parameters[i]).detach(), self._masters[i]
            alone = parameter == master.to(parameter.dtype)
            master.copy_(torch.where(alone, master, parameter.to(torch.float32)))

    def moved(self, begin: int, count: int) -> None:
        """Before the core moves these elements: graphs that still need the parameters as they were must notice."""
        first = bisect.bisect_right(self.begins, begin) - 1
        last = bisect.bisect_left(self.begins, begin + count)
        inside = [i for i in range(first, last) if i not in self._masters]
        self._increment(inside)
        for i in inside:
            self._versions[i] = local_of(self.parameters[i])._version

    def _increment(self, numbers: list[int]) -> None:
        parameters = [self.parameters[i] for i in numbers]
        _increment_versions(parameters + [local_of(p) for p in parameters if is_shard(p)])

    def publish(self) -> None:
        """After the core moved the weights: low-precision parameters take what their masters became."""
        for i, master in self._masters.items():
            local_of(self.parameters[i]).detach().copy_(master)
        self._increment([i for i in range(len(self.parameters)) if i not in self._masters])
        self._movers.reshard()
        self.note()

    def collect(self, i: int) -> None:
        """Brings the gradient of a parameter into the flat one."""
        parameter, flat = self.parameters[i], self.gradients[i]
        gradient = gradient_of(parameter)
        if flat.data_ptr() != self._gradient_homes[i] and flat.numel():
            flat = self.gradients[i] = self._part(self._gradient, i)
            self._wrapped.pop(i, None)
        if gradient is flat or i in self._wrapped and parameter.grad is self._wrapped[i]:
            return
        if gradient is None:
            flat.zero_()
            return
        if gradient.layout is not torch.strided:
            raise InvalidArgument(
                f"the gradient of {self.names[i]} is sparse: make the embedding with sparse=False, one bit per parameter "
                "costs less than the indices"
            )
        flat.copy_(gradient.detach())
        if self.attach and parameter.dtype == torch.float32:
            if is_shard(parameter) and i not in self._wrapped:
                self._wrapped[i] = as_part_of(parameter, flat)
            parameter.grad = self._wrapped.get(i, flat)
