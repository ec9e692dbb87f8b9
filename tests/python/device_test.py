"""The emulated device under PyTorch: the weights of the CPU, bit for bit."""

import copy
import json

import pytest
import torch
from torch import nn

import laconic
from laconic import device

SHORT = dict(lr=1e-2, scale_block=64, bucket_mb=0.001)
METHODS = {
    "AdamW": dict(codec="int4", feedback="ema"),
    "SGD": dict(momentum=0.9),
    "Lion": {},
    "LAMB": {},
    "OneBitAdam": dict(freeze_step=3),
    "OneBitLAMB": dict(freeze_step=3),
    "ZeroOneAdam": dict(variance_freeze_step=4, variance_kappa=2, double_every=2, max_interval=4),
    "Birder": dict(exchange="single-round", seed=1),
    "DistributedLion": dict(form="count"),
}


def trained(model: nn.Module, name: str, where: str, steps: int = 8, dtype: torch.dtype = torch.float32) -> laconic.optimizer.Optimizer:
    model = model.to(dtype)
    optimizer = getattr(laconic, name)(model.parameters(), device=where, **SHORT, **METHODS[name])
    for step in range(steps):
        optimizer.zero_grad()
        data = torch.randn(4, 10, generator=torch.Generator().manual_seed(step)).to(dtype)
        model(data).square().sum().backward()
        optimizer.step()
    optimizer.synchronize()
    return optimizer


def same(one: nn.Module, other: nn.Module) -> bool:
    return all(torch.equal(a.view(torch.uint8), b.view(torch.uint8)) for a, b in zip(one.parameters(), other.parameters()))


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_are_those_of_the_cpu(name, dtype):
    torch.manual_seed(1)
    cpu = nn.Sequential(nn.Linear(10, 30), nn.Tanh(), nn.Linear(30, 5))
    emulated = copy.deepcopy(cpu)
    trained(cpu, name, "cpu", dtype=dtype)
    optimizer = trained(emulated, name, "emulated", dtype=dtype)
    assert same(cpu, emulated)
    assert "on emulated (kernels for GPUs on fibers of the CPU)" in optimizer.describe()


def test_state_moves_between_devices():
    torch.manual_seed(1)
    whole = nn.Linear(10, 30)
    first, second = copy.deepcopy(whole), nn.Linear(10, 30)
    trained(whole, "ZeroOneAdam", "cpu")
    optimizer = trained(first, "ZeroOneAdam", "emulated")
    second.load_state_dict(first.state_dict())
    other = laconic.ZeroOneAdam(second.parameters(), **SHORT, **METHODS["ZeroOneAdam"])
    other.load_state_dict(optimizer.state_dict())
    for key, value in other.state_dict().items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, optimizer.state_dict()[key])


def test_the_command_compares_every_kernel(capsys):
    assert device.main(["--emulated", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["equal"] and report["device"] == "emulated" and len(report["kernels"]) > 100
    assert sum(row["elements"] for row in report["kernels"]) > 1_000_000


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_what_to_do(capsys):
    assert device.main([]) == 2
    assert "device = cpu" in capsys.readouterr().err
    with pytest.raises(laconic.Error, match="install NVIDIA's driver"):
        laconic.AdamW([nn.Parameter(torch.zeros(3))], device="cuda")
