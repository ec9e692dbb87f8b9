"""Host code of the package on a GPU, on a mock of one: the weights of the CPU, bit for bit, and no wait that is not documented."""
import copy
import itertools

import pytest
import torch
import torch.distributed as dist
from launch import over
from torch import nn

import laconic
from laconic import _core, accelerator, transport

mock_gpu = pytest.importorskip("mock_gpu", exc_type=ImportError)
DEVICE, waits = mock_gpu.DEVICE, mock_gpu.waits

METHODS = {
    "AdamW": dict(codec="int4", feedback="ema"),
    "SGD": dict(momentum=0.9),
    "LAMB": {},
    "OneBitAdam": dict(freeze_step=3),
    "ZeroOneAdam": dict(variance_freeze_step=4, variance_kappa=2, double_every=2, max_interval=4),
    "Birder": dict(exchange="single-round", seed=1),
    "DistributedLion": dict(form="count"),
}


def network(dtype=torch.float32):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(10, 30), nn.Tanh(), nn.Linear(30, 5)).to(dtype)


def pair(dtype=torch.float32):
    """The same network twice: on the CPU, and on the mock."""
    cpu = network(dtype)
    return cpu, copy.deepcopy(cpu).to(DEVICE)


def make(model, name, **more):
    return getattr(laconic, name)(model.parameters(), lr=1e-2, bucket_mb=0.001, **METHODS[name], **more)


def batch_for(model, step, rank=0):
    one = next(model.parameters())
    data = torch.randn(4, 10, generator=torch.Generator().manual_seed(100 * step + rank)).to(one.dtype)
    return data.to(one.device)


def backward(model, step, rank=0, scale=1.0):
    (model(batch_for(model, step, rank)).square().sum() * scale).backward()


def train(model, optimizer, steps, rank=0):
    for step in steps:
        optimizer.zero_grad()
        backward(model, step, rank)
        optimizer.step()


def same(one, other):
    return all(
        torch.equal(a.detach().cpu().view(torch.uint8), b.detach().cpu().view(torch.uint8))
        for a, b in zip(one.parameters(), other.parameters())
    )


def counted(work):
    waits.clear()
    work()
    return list(waits)


def test_the_mock_refuses_what_a_gpu_refuses():
    one = torch.ones(3, device=DEVICE)
    with pytest.raises(RuntimeError, match="expected all tensors"):
        one + torch.ones(3)
    with pytest.raises(TypeError, match="numpy"):
        one.numpy()
    assert counted(lambda: (one + 1).sum().item()) == ["_local_scalar_dense"]
    assert counted(lambda: one.cpu()) == ["_to_copy"]
    assert counted(lambda: one.mul_(2).add_(1)) == []


@pytest.mark.parametrize("name", METHODS)
def test_weights_are_those_of_the_cpu(name):
    cpu, gpu = pair()
    one, two = make(cpu, name), make(gpu, name)
    train(cpu, one, range(1, 9))
    train(gpu, two, range(1, 9))
    assert same(cpu, gpu)
    one.synchronize()
    two.synchronize()
    assert same(cpu, gpu)
    assert "on emulated" in two.describe()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_parameters_have_masters_on_the_device(dtype):
    cpu, gpu = pair(dtype)
    train(cpu, make(cpu, "OneBitAdam"), range(1, 7))
    train(gpu, make(gpu, "OneBitAdam"), range(1, 7))
    assert same(cpu, gpu)


def test_a_step_waits_for_nothing_in_torch():
    for name in METHODS:
        gpu = network().to(DEVICE)
        optimizer = make(gpu, name)
        train(gpu, optimizer, range(1, 7))
        for step in range(7, 11):
            optimizer.zero_grad()
            backward(gpu, step)
            assert counted(optimizer.step) == [], name


def test_accumulation_and_clipping():
    cpu, gpu = pair()
    for model in (cpu, gpu):
        optimizer = make(model, "AdamW")
        for step in range(1, 6):
            optimizer.zero_grad()
            backward(model, 2 * step)
            backward(model, 2 * step + 1)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    assert same(cpu, gpu)
    clipped = [make(model, "OneBitAdam", max_grad_norm=0.5) for model in (cpu, gpu)]
    for model, optimizer in zip((cpu, gpu), clipped):
        train(model, optimizer, range(20, 26))
    assert same(cpu, gpu)


def test_a_grad_scaler_skips_as_on_the_cpu():
    cpu, gpu = pair()
    for model in (cpu, gpu):
        optimizer = make(model, "AdamW")
        scaler = torch.amp.GradScaler(next(model.parameters()).device.type, init_scale=2.0**4, growth_interval=2)
        for step in range(1, 8):
            optimizer.zero_grad()
            scaler.scale(model(batch_for(model, step)).square().sum()).backward()
            if step == 4:
                with torch.no_grad():
                    model[0].weight.grad[0, 0] = float("inf")
            scaler.step(optimizer)
            scaler.update()
        assert optimizer.stats()["totals"]["skipped"] == 1
    assert same(cpu, gpu)


def test_state_moves_between_devices():
    cpu, gpu = pair()
    whole = copy.deepcopy(cpu)
    train(whole, make(whole, "ZeroOneAdam"), range(1, 13))
    first = make(gpu, "ZeroOneAdam")
    train(gpu, first, range(1, 6))
    cpu.load_state_dict({name: value.cpu() for name, value in gpu.state_dict().items()})
    second = make(cpu, "ZeroOneAdam")
    second.load_state_dict(first.state_dict())
    train(cpu, second, range(6, 10))
    with torch.no_grad():
        for to, source in zip(gpu.parameters(), cpu.parameters()):
            to.copy_(source)
    third = make(gpu, "ZeroOneAdam")
    third.load_state_dict(second.state_dict())
    train(gpu, third, range(10, 13))
    assert same(whole, gpu)


def test_what_is_saved_names_the_device(tmp_path):
    gpu = network().to(DEVICE)
    optimizer = make(gpu, "AdamW")
    train(gpu, optimizer, range(1, 3))
    assert "on emulated (kernels for GPUs on fibers of the CPU)" in optimizer.state_dict()["laconic"]["runs"]
    laconic.save(tmp_path / "saved", optimizer, {"epoch": 3})
    assert "on emulated (kernels for GPUs on fibers of the CPU)" in _core.checkpoint_extra(str(tmp_path / "saved"))["laconic.runs"]
    before = copy.deepcopy([p.detach().cpu() for p in gpu.parameters()])
    train(gpu, optimizer, range(3, 5))
    assert laconic.resume(tmp_path / "saved", optimizer) == {"epoch": 3}
    assert all(torch.equal(p.detach().cpu(), then) for p, then in zip(gpu.parameters(), before))


def test_synced_shows_the_weights_of_the_last_sync():
    cpu, gpu = pair()
    one, two = make(cpu, "ZeroOneAdam"), make(gpu, "ZeroOneAdam")
    train(cpu, one, range(1, 12))
    train(gpu, two, range(1, 12))
    with one.synced(), two.synced():
        assert same(cpu, gpu)
    assert same(cpu, gpu)


@pytest.mark.parametrize("options", [dict(every=2), dict(every=2, delay=1)], ids=["at once", "delayed"])
def test_local_steps_around_an_optimizer_of_torch(options):
    cpu, gpu = pair()
    for model in (cpu, gpu):
        inner = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        train(model, laconic.LocalSteps(inner, **options), range(1, 9))
    assert same(cpu, gpu)


def test_local_steps_look_at_a_gpu_only_where_they_exchange():
    gpu = network().to(DEVICE)
    inner = torch.optim.SGD(gpu.parameters(), lr=0.1)
    optimizer = laconic.LocalSteps(inner, every=4)
    train(gpu, optimizer, range(1, 5))
    for step in range(5, 8):
        optimizer.zero_grad()
        backward(gpu, step)
        assert counted(optimizer.step) == []


class Bucket:
    """What DistributedDataParallel gives to a hook."""

    def __init__(self, parameters, values):
        self._parameters, self._values = parameters, values

    def index(self):
        return 0

    def parameters(self):
        return self._parameters

    def buffer(self):
        return self._values

    def is_last(self):
        return True


CODECS = [dict(codec="int4", feedback="ema"), dict(codec="sign", feedback="full", scale_block=64), dict(codec="top-k"), dict(codec="fp32")]


PARAMETER = nn.Parameter(torch.zeros(2100))


def hooked(options, values_of, where, steps=4, device="cpu"):
    """The means of a hook's buckets, and its state."""
    state = laconic.CodecState(**options, device=device)
    means = []
    for step in range(steps):
        values = values_of(step).to(where)
        means.append(laconic.codec_hook(state, Bucket([PARAMETER], values)).wait().cpu().float())
    return means, state


def values_of(step, rank=0, dtype=torch.float32):
    values = torch.randn(2100, generator=torch.Generator().manual_seed(10 * step + rank))
    values[5 * step + rank] = float("nan") if step == 2 else 0
    return values.to(dtype)


def equal(one, other):
    return bool(((one == other) | one.isnan() & other.isnan()).all())


def same_state(one, other):
    one, other = one.state_dict(), other.state_dict()
    pairs = zip(itertools.chain(*one.pop("residuals")), itertools.chain(*other.pop("residuals")))
    return one == other and all(torch.equal(a, b) for a, b in pairs)


@over(1, 2)
def test_a_codec_hook_averages_where_the_gradients_are(rank, ranks):
    for options, dtype in itertools.product(CODECS, (torch.float32, torch.bfloat16)):
        given = lambda step: values_of(step, rank, dtype)  # noqa: E731
        cpu, of_cpu = hooked(options, given, "cpu")
        emulated, of_emulated = hooked(options, given, "cpu", device="emulated")
        gpu, of_gpu = hooked(options, given, DEVICE)
        for one, two, three in zip(cpu, emulated, gpu):
            assert equal(one, two) and equal(one, three), options
        assert same_state(of_cpu, of_gpu) and same_state(of_cpu, of_emulated), options
        assert of_cpu.bad_blocks == of_gpu.bad_blocks == of_emulated.bad_blocks
        assert "on emulated" in of_gpu.describe() and "on emulated" not in of_cpu.describe()


@over(2)
def test_the_state_of_a_hook_moves_between_devices(rank, ranks):
    for options in CODECS[:2]:
        whole, _ = hooked(options, lambda step: values_of(step, rank), "cpu", 6)
        _, first = hooked(options, lambda step: values_of(step, rank), DEVICE, 3)
        second = laconic.CodecState(**options)
        second.load_state_dict(first.state_dict())
        third = laconic.CodecState(**options)
        for step in (3, 4):
            mean = laconic.codec_hook(second, Bucket([PARAMETER], values_of(step, rank))).wait()
            assert torch.equal(mean, whole[step]), options
        third.load_state_dict(second.state_dict())
        mean = laconic.codec_hook(third, Bucket([PARAMETER], values_of(5, rank).to(DEVICE))).wait()
        assert torch.equal(mean.cpu(), whole[5]), options


def test_a_hook_refuses_gradients_that_moved_and_other_devices():
    _, state = hooked(CODECS[0], values_of, DEVICE, 1)
    with pytest.raises(Exception, match="gradients are on cpu and were on emulated"):
        laconic.codec_hook(state, Bucket([PARAMETER], values_of(1))).wait()
    with pytest.raises(laconic.Error, match="device=cuda:1 and tensors on emulated:0: leave device out"):
        accelerator.name_for("cuda:1", DEVICE)
    with pytest.raises(laconic.Error, match="is on meta: laconic has kernels for the CPU and for CUDA"):
        laconic.AdamW([nn.Parameter(torch.zeros(3, device="meta"))])
    with pytest.raises(laconic.Error, match="a process per GPU"):
        laconic.AdamW([nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3).to(DEVICE))])


def test_beside_nccl_exchanges_go_through_gloo():
    class Nccl:
        def _get_backend(self, device):
            raise RuntimeError(f"No backend type associated with device type {device.type}")

    assert transport.cpu_backend(Nccl()) == "gloo"


@over(2)
def test_overlap_with_backward_ends_with_the_cpus_bits(rank, ranks):
    for name in METHODS:
        cpu, gpu = pair()
        one, two = make(cpu, name), make(gpu, name)
        train(cpu, one, range(1, 13), rank)
        train(gpu, two, range(1, 13), rank)
        assert two._overlap.active, (name, one._overlap.active)
        assert same(cpu, gpu), name
        two.zero_grad()
        waits.clear()
        backward(gpu, 13, rank)
        two.step()
        assert [wait for wait in waits if wait != "copy_"] == [], name  # that of the batch to the device
        two.synchronize()
        whole = torch.cat([p.detach().cpu().reshape(-1) for p in gpu.parameters()])
        every = [torch.empty_like(whole) for _ in range(ranks)]
        dist.all_gather(every, whole)
        assert torch.equal(every[0], every[1]), name


def test_weights_that_others_write_count_or_are_refused():
    cpu, gpu = pair()
    one, two = make(cpu, "ZeroOneAdam"), make(gpu, "ZeroOneAdam")
    for model, optimizer in ((cpu, one), (gpu, two)):
        train(model, optimizer, range(1, 3))  # an exchange in every step until the freeze
        with torch.no_grad():
            model[0].weight.clamp_(-0.1, 0.1)
        train(model, optimizer, range(3, 5))
    assert same(cpu, gpu)
    for model, optimizer in ((cpu, one), (gpu, two)):
        while optimizer._core.in_sync:
            train(model, optimizer, [5])
        with torch.no_grad():
            model[0].bias.zero_()
        with pytest.raises(laconic.Error, match="parameter 1 was written to after step"):
            train(model, optimizer, [6])
