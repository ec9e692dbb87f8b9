"""One rank of a C++ suite over torch.distributed: torch_main.cc runs this inside the test program."""
import faulthandler
import sys
from datetime import timedelta

import laconic_suite
import torch
import torch.distributed as dist

from laconic.transport import Group

faulthandler.dump_traceback_later(800, exit=True)
dist.init_process_group("gloo", timeout=timedelta(minutes=10))
rank, size = dist.get_rank(), dist.get_world_size()


def open_group(milliseconds):
    group = Group(list(range(size)), timedelta(milliseconds=milliseconds))
    dist.barrier()  # a test that is over at once must not leave while another rank still connects
    return group


failed = torch.tensor([not laconic_suite.run(sys.argv, rank, size, open_group)], dtype=torch.int32)
dist.all_reduce(failed)
dist.destroy_process_group()
sys.exit(bool(failed))
