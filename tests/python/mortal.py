"""Ranks that may die. mortal.py killed|late overlap|plain; mortal.py resumed FOLDER; mortal.py leaves|absent|restarted."""
import faulthandler
import hashlib
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parent))
from models import flat, loss_of, network, train  # noqa: E402

import laconic  # noqa: E402


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
    {"resumed": resumed, "leaves": leaves, "absent": absent, "restarted": restarted}.get(sys.argv[1], lambda *rest: dies(sys.argv[1], *rest))(*sys.argv[2:])
