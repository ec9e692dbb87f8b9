"""Ranks that may die. mortal.py killed|late|interrupted overlap|plain; mortal.py resumed FOLDER; mortal.py silent
killed|late; mortal.py leaves|absent|restarted|hooked."""
import faulthandler
import hashlib
import os
import signal
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parent))
from models import flat, loss_of, network, train  # noqa: E402

import laconic  # noqa: E402
from laconic import _core  # noqa: E402


def dies(what, overlap):
    """The last rank is killed in the middle of a step (its backward is over), or comes too late."""
    seconds = 20 if what == "killed" else 3
    laconic.init_process_group(timeout=timedelta(seconds=60))
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    model = network()
    optimizer = laconic.AdamW(
        model.parameters(), lr=1e-3, overlap=overlap == "overlap", timeout=timedelta(seconds=seconds), bucket_mb=1 / 256
    )
    train(model, optimizer, 6, rank)
    optimizer.zero_grad()
    if rank == last and what == "killed":
        model[2].weight.register_hook(lambda _: os.kill(os.getpid(), signal.SIGKILL))
    if rank == last and what == "late":
        dist.distributed_c10d._get_default_store().wait(["over0"], timedelta(seconds=60))
        return
    begin = time.monotonic()
    try:
        loss_of(model, 7, rank).backward()
        optimizer.step()
    except laconic.RankMissing as error:
        print(f"RankMissing: {error} after {time.monotonic() - begin:.1f} s", flush=True)
    store = dist.distributed_c10d._get_default_store()
    store.set(f"over{rank}", "1")
    if rank == 0:  # it holds the store, which the others still need
        store.wait([f"over{other}" for other in range(last)], timedelta(seconds=60))
    os._exit(0)


def interrupted(overlap):
    """Ctrl-C reaches rank 0 when it waits in step() for rank 1, which does not come before that is over."""
    laconic.init_process_group(timeout=timedelta(seconds=60))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start jobs in the background without
    rank, store = dist.get_rank(), dist.distributed_c10d._get_default_store()
    model = network()
    optimizer = laconic.AdamW(model.parameters(), lr=1e-3, overlap=overlap == "overlap", timeout=timedelta(seconds=15))
    train(model, optimizer, 6, rank)
    if rank == 1:
        store.wait(["over"], timedelta(seconds=60))
        os._exit(0)
    optimizer.zero_grad()
    loss_of(model, 7, rank).backward()
    assert optimizer._begun == (overlap == "overlap")
    threading.Thread(target=interrupt_inside, args=("_finish", "_wait_until"), daemon=True).start()
    try:
        optimizer.step()
    except BaseException as error:
        print(f"the first step: {type(error).__name__}", flush=True)
        try:
            optimizer.step()
        except laconic.Error as error:
            print(f"the second step: {error}", flush=True)
        store.set("over", "1")
        raise


def interrupt_inside(*names):
    """Sends SIGINT once the innermost frame of the main thread is one of these functions of laconic."""
    main = threading.main_thread().ident
    while True:
        code = sys._current_frames()[main].f_code
        if code.co_name in names and "laconic" in code.co_filename:
            return os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)


def hooked():
    """Rank 1 is killed in a backward pass with codec_hook."""
    laconic.init_process_group(timeout=timedelta(seconds=60))
    rank, store = dist.get_rank(), dist.distributed_c10d._get_default_store()
    model = torch.nn.parallel.DistributedDataParallel(network())
    model.register_comm_hook(laconic.CodecState(timeout=timedelta(seconds=20)), laconic.codec_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, optimizer, 3, rank)
    if rank == 1:
        model.module[2].weight.register_hook(lambda _: os.kill(os.getpid(), signal.SIGKILL))
    try:
        loss_of(model, 4, rank).backward()
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", flush=True)
    store.set("over", "1")
    os._exit(0)


def silent(how):
    """Ranks of local steps that exchange nothing for long. killed: the last one dies; late: it is busy for longer than the timeout, then all end, one after the other."""
    global core
    laconic.init_process_group(timeout=timedelta(seconds=60))
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    transport, _ = laconic.transport.connect(timeout=timedelta(seconds=3))
    weights = torch.zeros(1000)
    options = {"algorithm": "local-steps", "every": "1000000", "bucket_elements": "1000"}
    gradient = torch.ones(1000)
    core = _core.Optimizer(options, weights.numpy(), gradient.numpy(), [("all", 1000, True, 0)], [("all", 0, 1000)], False, True, transport)
    begin = time.monotonic()
    try:
        for step in range(200 if how == "killed" else 100):
            core.begin([(0.01, 0.0)])
            core.step()
            time.sleep(0.05)
            if step == 4 and rank == last:
                os.kill(os.getpid(), signal.SIGKILL) if how == "killed" else time.sleep(5)
    except laconic.Error as error:
        print(f"{type(error).__name__}: {error} after {time.monotonic() - begin:.1f} s", flush=True)
        store = dist.distributed_c10d._get_default_store()
        store.set(f"over{rank}", "1")
        if rank == 0:
            store.wait([f"over{other}" for other in range(last)], timedelta(seconds=60))
        os._exit(0)
    print(f"rank {rank} took {step + 1} steps", flush=True)
    time.sleep(1.5 * rank)  # and the interpreter ends while `core` lives


def absent():
    """The last rank never makes its optimizer."""
    laconic.init_process_group(timeout=timedelta(seconds=60))
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == dist.get_world_size() - 1:
        store.wait(["over"], timedelta(seconds=60))
        return
    try:
        laconic.AdamW(network().parameters(), lr=1e-3, timeout=timedelta(seconds=3))
    except laconic.RankMissing as error:
        print(f"RankMissing: {error}", flush=True)
    store.set("over", "1")
    os._exit(0)


def restarted():
    """The last rank dies and torchrun starts all again; this time the first is late, so that the last one looks for it too early."""
    again, rank = os.environ["TORCHELASTIC_RESTART_COUNT"] != "0", int(os.environ["RANK"])
    time.sleep(4 if again and rank == 0 else 0)
    laconic.init_process_group()
    model = network()
    optimizer = laconic.AdamW(model.parameters(), lr=1e-3)
    if rank == 1 and not again:
        os.kill(os.getpid(), signal.SIGKILL)
    train(model, optimizer, 2, rank)
    print(f"rank {rank} ends with {hashlib.sha256(flat(model).numpy().tobytes()).hexdigest()}", flush=True)


def resumed(folder):
    """30 steps, a checkpoint every 6; all ranks are killed in step DIES_AT."""
    laconic.init_process_group()
    rank = dist.get_rank()
    model = network()
    optimizer = laconic.ZeroOneAdam(model.parameters(), lr=1e-2, variance_freeze_step=6, double_every=4, max_interval=4)
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    file, done = folder / f"rank{rank}.pt", 0
    if file.exists():
        saved = torch.load(file, weights_only=True)
        done = saved["step"]
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        print(f"goes on after step {done}", flush=True)
    for step in range(done + 1, 31):
        if step == int(os.environ.get("DIES_AT", 0)):
            os.kill(os.getpid(), signal.SIGKILL)
        train(model, optimizer, 1, rank, step)
        if step % 6 == 0:
            partial = file.with_suffix(".partial")
            torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, partial)
            os.replace(partial, file)
            dist.barrier()
    print(f"rank {rank} ends with {hashlib.sha256(flat(model).numpy().tobytes()).hexdigest()}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def leaves():
    """Ends right after an exchange, closing nothing, while Gloo's threads still wait for the interpreter's lock."""
    global groups
    laconic.init_process_group()
    groups = [laconic.transport.connect()[1] for _ in range(8)]
    sys.setswitchinterval(1000)
    for group in groups:
        group.gather(torch.zeros(4))


if __name__ == "__main__":
    faulthandler.dump_traceback_later(90, exit=True)
    parts = (resumed, leaves, absent, restarted, interrupted, hooked, silent)
    {part.__name__: part for part in parts}.get(sys.argv[1], lambda *rest: dies(sys.argv[1], *rest))(*sys.argv[2:])
