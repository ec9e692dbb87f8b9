"""The command `python -m laconic.bench`."""

import argparse
import json
import sys

import torch.distributed as dist

from .. import environment
from ..errors import InvalidArgument
from ..units import link
from . import means, overlap, steps
from .timing import sweep_table, table


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m laconic.bench",
        description="Means over ranks, steps of a small GPT over ranks (start both with torchrun), or steps of optimizers without exchange, side by side.",
    )
    parser.add_argument("what", nargs="?", choices=["means", "overlap", "steps"], default="means")
    parser.add_argument("--elements", type=int, help="default: 25 Mi for means, 64 Mi for steps")
    parser.add_argument("--buckets", type=int, default=16, help="overlap: of the model")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--only", default="", help="rows whose name holds this")
    parser.add_argument("--emulate", help="hold laconic's means back to a link such as 1gbit,50us (needs no root)")
    parser.add_argument("--device", help="count also what this network device sends for our means: eth0, or that of GLOO_SOCKET_IFNAME")
    parser.add_argument("--sweep", action="store_true", help="means: every codec beside all_reduce, from 1 Ki elements to --elements (64 Mi)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    try:
        if options.emulate and options.what != "means":
            raise InvalidArgument(
                f"--emulate holds back means, not {options.what}; as root, bench/cluster --rates 250mbit -- overlap has links of its own"
            )
        if options.buckets < 1:
            raise InvalidArgument(f"--buckets {options.buckets}: give at least 1")
        if options.what == "steps":
            found = steps.rows(options.elements or 64 << 20, options.repeats, options.only)
        else:
            environment.init_process_group()
            if not dist.is_initialized():
                raise InvalidArgument(f"{options.what} needs ranks: torchrun --nproc-per-node 2 -m laconic.bench {options.what}")
            if options.what == "overlap":
                found = overlap.rows(options.buckets, options.repeats, options.only)
            elif options.sweep:
                found = means.sweep(options.elements or 64 << 20, options.repeats, options.only, options.emulate and link(options.emulate))
            else:
                found = means.rows(options.elements or 25 << 20, options.repeats, options.only, options.emulate and link(options.emulate), options.device)
    except InvalidArgument as error:
        sys.exit(f"laconic.bench: {error}")
    if not dist.is_initialized() or dist.get_rank() == 0:
        print(json.dumps(found, indent=1) if options.json else sweep_table(found) if options.sweep else table(found))
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
