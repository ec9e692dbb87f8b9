"""Where this process sits, as torchrun, mpirun or SLURM set it."""

from __future__ import annotations

import hashlib
import os
import socket
from dataclasses import dataclass


@dataclass(frozen=True)
class Launch:
    """What the launcher set; a world of one when nobody did."""

    launcher: str
    rank: int = 0
    world_size: int = 1
    local_rank: int = 0


_LAUNCHERS = (
    ("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
)


def launch() -> Launch:
    """Rank and world size from the environment of torchrun, mpirun or srun.

    >>> from laconic import environment
    >>> environment.launch().world_size
    1
    """
    for name, rank, size, local in _LAUNCHERS:
        if rank in os.environ and size in os.environ:
            here = int(os.environ.get(local, 0))
            return Launch(name, int(os.environ[rank]), int(os.environ[size]), here)
    return Launch("none")


def node() -> int:
    """A number that is equal for ranks of one machine, or of one torchrun or SLURM node."""
    if "TORCHELASTIC_RUN_ID" in os.environ and "GROUP_RANK" in os.environ:
        text = f"torchrun {os.environ['GROUP_RANK']}"
    elif "SLURM_PROCID" in os.environ and "SLURM_NODEID" in os.environ:
        text = f"slurm {os.environ['SLURM_NODEID']}"
    else:
        text = f"{socket.gethostname()} {_boot()}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def attempt() -> str:
    """How often torchrun has started this job again. Its store outlives a restart, and with it the addresses of the dead, which a quick
    rank would read before the living have written theirs: names in the store must be of one attempt.

    >>> from laconic import environment
    >>> environment.attempt()
    '0'
    """
    return os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")


def init_process_group(backend: str = "gloo", **options) -> None:
    """torch.distributed.init_process_group with what torchrun, mpirun or srun set; nothing in a world of one.

    Outside torchrun, MASTER_ADDR must name the machine of rank 0; the port is 29500 unless MASTER_PORT names another.

    >>> import laconic
    >>> laconic.init_process_group()  # no launcher: a world of one
    """
    import torch.distributed as dist

    found = launch()
    if found.world_size == 1 and found.launcher != "torchrun" or dist.is_initialized():
        return
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    os.environ.setdefault("LOCAL_RANK", str(found.local_rank))
    if attempt() != "0" and "store" not in options:
        from torch.distributed.rendezvous import rendezvous

        patience = {name: value for name, value in options.items() if name == "timeout"}
        store, _, _ = next(rendezvous("env://", found.rank, found.world_size, **patience))
        options["store"] = dist.PrefixStore(f"attempt{attempt()}", store)
    dist.init_process_group(backend, rank=found.rank, world_size=found.world_size, **options)
