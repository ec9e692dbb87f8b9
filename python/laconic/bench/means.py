"""Means over the ranks of the default process group: ours, torch's, and DistributedDataParallel with its hooks."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from .. import _core, transport
from ..comm_hook import CodecState, OneBitState, codec_hook, one_bit_hook
from ..errors import InvalidArgument
from .chain import ChainedMean
from .timing import Case, measure, row


def _ours(codec: str, name: str, values: torch.Tensor, over: _core.Transport, **options: Any) -> Case:
    mean = _core.Mean(codec, values.numel(), over, threads=torch.get_num_threads(), **options)
    work = values.clone()
    last = [0, 0]

    def run() -> None:
        last[0] = mean.bytes_sent
        mean.reduce(work)
        last[1] = mean.bytes_sent

    def check() -> None:
        work.copy_(values)
        run()
        first = work.clone()
        dist.broadcast(first, 0)
        if not torch.equal(first, work):
            raise RuntimeError(f"{name}: ranks have different means")
        if codec in ("fp32", "bf16"):
            exact = values.clone()
            dist.all_reduce(exact)
            torch.testing.assert_close(work, exact / dist.get_world_size(), atol=2e-2 if codec == "bf16" else 1e-6, rtol=1e-2)

    return Case(name, run, check, lambda: last[1] - last[0])


def _all_reduce(values: torch.Tensor, dtype: torch.dtype) -> Case:
    """Casts included, since what is wanted is a float32 mean."""
    work = values.clone()

    def run() -> None:
        sent = work if dtype == torch.float32 else work.to(dtype)
        dist.all_reduce(sent)
        torch.div(sent, dist.get_world_size(), out=work) if sent is work else work.copy_(sent.div_(dist.get_world_size()))

    return Case(f"torch all_reduce {str(dtype).removeprefix('torch.')}", run)


def _packed_bytes(elements: int) -> Case:
    """The bytes of the one-bit mean alone, in two collectives."""
    ranks = dist.get_world_size()
    chunk = -(-elements // ranks) // 8 + 4 * -(-elements // ranks // 4096)
    given, taken = torch.zeros(ranks * chunk, dtype=torch.uint8), torch.zeros(ranks * chunk, dtype=torch.uint8)

    def run() -> None:
        dist.all_to_all_single(taken, given)
        dist.all_to_all_single(taken, given)

    return Case("packed bytes alone", run, bytes_sent=lambda: 2 * (ranks - 1) * chunk)


def _chain(values: torch.Tensor) -> Case:
    mean = ChainedMean(values.numel())
    return Case("one-bit as a chain of torch operations", lambda: mean.reduce(values))


class _Layers(nn.Module):
    """Parameters whose gradients cost next to nothing to compute."""

    def __init__(self, elements: int, layers: int = 16) -> None:
        super().__init__()
        side = max(8, int((elements / layers) ** 0.5) // 8 * 8)
        self.weights = nn.ParameterList(nn.Parameter(torch.zeros(side, side)) for _ in range(layers))

    def forward(self) -> torch.Tensor:
        return sum(weight.sum() for weight in self.weights)


def _ddp(elements: int, name: str, register=None, **options: Any) -> Case:
    model = DistributedDataParallel(_Layers(elements), gradient_as_bucket_view=True, **options)
    if register is not None:
        register(model)
    return Case(f"backward under DDP, {name}", lambda: model().backward())


def _ddp_cases(elements: int) -> list[Case]:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    def power(model: DistributedDataParallel) -> None:
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)

    return [
        _ddp(elements, "plain"),
        _ddp(elements, "fp16 hook", lambda model: model.register_comm_hook(None, default_hooks.fp16_compress_hook)),
        # In one bucket: with several its collectives wait for each other over Gloo, for ever.
        _ddp(elements, "PowerSGD hook", power, bucket_cap_mb=elements),
        _ddp(elements, "laconic.one_bit_hook", lambda model: model.register_comm_hook(OneBitState(), one_bit_hook)),
        _ddp(elements, "laconic.codec_hook int4", lambda model: model.register_comm_hook(CodecState(codec="int4"), codec_hook)),
    ]


def _sent_by(device: str) -> int:
    """What the system has counted; in a network namespace, of that one."""
    with open("/proc/self/net/dev") as file:
        for line in file:
            name, _, counters = line.partition(":")
            if name.strip() == device:
                return int(counters.split()[8])
    raise InvalidArgument(f"there is no network device {device}: see `ip link`")


def _bytes_on(device: str, case: Case, times: int = 5) -> float:
    """What a device sends for one exchange, headers and acknowledgements included. A barrier's own bytes are a few hundred."""
    dist.barrier()
    before = _sent_by(device)
    for _ in range(times):
        case.run()
    dist.barrier()
    return (_sent_by(device) - before) / times


def sweep(largest: int, repeats: int, only: str = "", emulate: tuple[float, float] | None = None) -> list[dict[str, Any]]:
    """Every codec and the backend's own all-reduce, from 1 Ki elements to `largest` in steps of four."""
    plain, _ = transport.connect()
    over = _core.emulated(plain, *emulate) if emulate else plain
    done = []
    elements = 1024
    while elements <= largest:
        values = torch.randn(elements, generator=torch.Generator().manual_seed(dist.get_rank()))
        theirs = _all_reduce(values, torch.float32)
        cases = [theirs, *(_ours(codec, codec, values, over) for codec in _core.mean_codecs() if only in codec)]
        often = repeats * min(16, max(1, (4 << 20) // elements))  # medians of few times of short vectors move by a third
        measured = [row(case, elements, ranks=dist.get_world_size(), backend=dist.get_backend()) for case in measure(cases, often)]
        for one in measured:
            one["times_all_reduce"] = one["seconds"] / measured[0]["seconds"]
        done += measured
        elements *= 4
    return done


def rows(
    elements: int, repeats: int, only: str = "", emulate: tuple[float, float] | None = None, device: str | None = None
) -> list[dict[str, Any]]:
    """Everything in turns on the default process group; `emulate` holds our means back to (bytes/s, seconds)."""
    elements -= elements % (8 * dist.get_world_size())
    values = torch.randn(elements, generator=torch.Generator().manual_seed(dist.get_rank()))
    plain, group = transport.connect()
    over = _core.emulated(plain, *emulate) if emulate else plain
    makers = [
        ("laconic one-bit", lambda name: [_ours("sign", name, values, over)]),
        ("laconic random-sign", lambda name: [_ours("random-sign", name, values, over, form="single-round")]),
        ("laconic int4", lambda name: [_ours("int4", name, values, over)]),
        ("laconic int8", lambda name: [_ours("int8", name, values, over)]),
        ("laconic dense fp32", lambda name: [_ours("fp32", name, values, over)]),
        ("laconic dense bf16", lambda name: [_ours("bf16", name, values, over)]),
        ("torch all_reduce", lambda _: [_all_reduce(values, t) for t in (torch.float32, torch.bfloat16, torch.float16)]),
        ("packed bytes alone", lambda _: [_packed_bytes(elements)]),
        ("one-bit as a chain of torch operations", lambda _: [_chain(values)]),
        ("backward under DDP", lambda _: _ddp_cases(elements)),
    ]
    cases = [case for name, make in makers if only in name for case in make(name)]
    measured = measure(cases, repeats)
    exact = {case.name: row(case, elements)["seconds"] for case in measured}.get("torch all_reduce float32")
    done = []
    for case in measured:
        about = {"ranks": dist.get_world_size(), "backend": dist.get_backend()}
        if case.bytes_sent:
            about["bytes_sent_per_rank"] = case.bytes_sent()
            if device:
                about["bytes_on_device"] = _bytes_on(device, case)
        one = row(case, elements, **about)
        if exact:
            one["speed_against_fp32_all_reduce"] = exact / one["seconds"]
        done.append(one)
    for case in cases:
        if case not in measured:
            done.append({"name": case.name, "elements": elements, "refused": case.refused or "on another rank"})
    return done
