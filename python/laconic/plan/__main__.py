"""The command `python -m laconic.plan`: measures the links of a process group and predicts what steps would cost on them."""

import argparse
import sys
import time

import torch
import torch.distributed as dist

from .. import environment
from ..bench.timing import table
from ..errors import InvalidArgument
from ..optimizers import methods
from . import predict


def _arms() -> list[tuple[str, dict]]:
    """The all-reduces of AdamW, and every method that codes, in each form that random signs have."""
    arms: list[tuple[str, dict]] = [("adamw", {"exchange": "all-reduce", **wire}) for wire in ({}, {"bf16": True})]
    for method in methods():
        forms = [{}, {"form": "single-round"}] if method["codec"] == "random-sign" else [{}]
        arms += [(method["name"], form) for form in forms if not method["exact"]]
    return arms


def _count(text: str) -> int:
    """A whole number, 1e6 among them."""
    value = float(text)
    if not value.is_integer() or value < 1:
        raise argparse.ArgumentTypeError(f"{text}: give a whole number >= 1, such as 110000000 or 1.1e8")
    return int(text) if text.isdigit() else int(value)


def _seconds(group: dist.ProcessGroup, size: int, times: int) -> float:
    mine, both = torch.zeros(size, dtype=torch.uint8), list(torch.zeros(2, size, dtype=torch.uint8))
    dist.all_gather(both, mine, group)
    begin = time.perf_counter()
    for _ in range(times):
        dist.all_gather(both, mine, group)
    return (time.perf_counter() - begin) / times


def measure(one: int, other: int) -> tuple[float, float]:
    """(bytes a second, seconds) between two ranks, both ways at once. Collective over all ranks."""
    group = dist.new_group([one, other], backend="gloo")
    found = torch.zeros(2, dtype=torch.float64)
    if dist.get_rank() in (one, other):
        latency, size = _seconds(group, 8, 50), 8 << 20
        seconds = _seconds(group, size, 3)
        found = torch.tensor([size / max(seconds / 2, seconds - latency), latency], dtype=torch.float64)
    dist.broadcast(found, one)
    return found[0].item(), found[1].item()


def _links() -> dict:
    hosts: list = [None] * dist.get_world_size()
    dist.all_gather_object(hosts, environment.node())
    nodes = list(dict.fromkeys(hosts))
    ranks = [[rank for rank, host in enumerate(hosts) if host == node] for node in nodes]
    if len({len(of_node) for of_node in ranks}) > 1:
        raise InvalidArgument(f"nodes have {', '.join(str(len(r)) for r in ranks)} ranks: start equally many on each")
    intra = measure(*ranks[0][:2]) if len(ranks[0]) > 1 else None
    pairs = [(a[0], b[0]) for i, a in enumerate(ranks) for b in ranks[i + 1 :]]
    inter = min((measure(*pair) for pair in pairs), default=None)
    return {"nodes": len(ranks), "per_node": len(ranks[0]), "inter": inter, "intra": intra}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m laconic.plan", description="Measures the links of a process group, and predicts what steps would cost on them."
    )
    parser.add_argument("--params", type=_count, required=True, help="parameters of the model")
    parser.add_argument("--step-ms", type=float, required=True, help="forward and backward of one rank alone")
    parser.add_argument("--threads", type=int, default=1, help="threads that code on a rank")
    options = parser.parse_args()
    try:
        environment.init_process_group()
        if not dist.is_initialized():
            raise InvalidArgument("links need ranks: torchrun --nproc-per-node 2 -m laconic.plan --params 110000000 --step-ms 90")
        cluster = _links()
        work = {"parameters": options.params, "step_seconds": options.step_ms / 1e3, "threads": options.threads}
        exchange = {"exchange": "nodes"} if cluster["per_node"] > 1 else {}
        found = [(name, how, predict(name, **{**exchange, **how}, **cluster, **work)) for name, how in _arms()]
    except InvalidArgument as error:
        sys.exit(f"laconic.plan: {error}")
    if dist.get_rank() == 0:
        for where in ("intra", "inter"):
            if cluster[where]:
                print(f"# {where}: {8e-9 * cluster[where][0]:.3g} Gbit/s, {1e6 * cluster[where][1]:.0f} us")
        fp32, bf16 = (found[i][2]["seconds"] for i in (0, 1))
        print(table([
            {"optimizer": " ".join([name, *(str(v) if v is not True else k for k, v in how.items())]), "ms": 1e3 * cost["seconds"],
             "x fp32": fp32 / cost["seconds"], "x bf16": bf16 / cost["seconds"], "exposed ms": 1e3 * cost["exposed_seconds"],
             "MB sent": 1e-6 * (cost["bytes_inside_node"] + cost["bytes_between_nodes"])}
            for name, how, cost in found
        ]))  # fmt: skip
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
