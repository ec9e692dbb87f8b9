"""A rank that runs the Python blocks of pages: torchrun --nproc-per-node 2 docs_blocks.py BLOCKS.json

BLOCKS.json has [[page, line, code], …]. Blocks of a page share their names and a folder that all ranks share. Pages begin with torch, nn, dist,
laconic, a model, batches of this rank, loss(model, batch), and ds_config.json. Ends with the first block that fails, named by page and line.
"""
import json
import os
import sys
import tempfile
import traceback
import warnings
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

import laconic


def beginning(page):
    """What a page begins with: the same model on all ranks, and data of this one."""
    torch.manual_seed(0)
    model = nn.Linear(64, 10)
    torch.manual_seed(1 + dist.get_rank())
    return {"torch": torch, "nn": nn, "dist": dist, "laconic": laconic, "__name__": page, "model": model, "batches": torch.randn(8, 4, 64),
            "loss": lambda model, batch: model(batch).square().mean()}  # fmt: skip


def run(blocks):
    names, page_before = {}, None
    for page, line, code in blocks:
        if page != page_before:
            folder = [tempfile.mkdtemp(prefix="laconic-docs-")]
            dist.broadcast_object_list(folder)
            os.chdir(folder[0])
            Path("ds_config.json").write_text(json.dumps({"optimizer": {"type": "ZeroOneAdam", "params": {"lr": 1e-3}}}))
            names, page_before = beginning(page), page
        source = "\n" * (line - 1) + code
        try:
            exec(compile(source, page, "exec"), names)
        except Exception:
            return f"{page}, block at line {line}, rank {dist.get_rank()}:\n{traceback.format_exc()}"
        dist.barrier()
    return ""


def main():
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    wrong = run(json.loads(Path(sys.argv[1]).read_text()))
    if wrong:
        print(wrong, file=sys.stderr, flush=True)
        os._exit(1)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
