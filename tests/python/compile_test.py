"""Compiled modules: exchanges start during backward, and results are those of plain ones."""
import warnings

import torch
import torch.distributed as dist
from launch import over
from models import Checkpointed, flat, loss_of, network
from sharded import close, make, meshes, sharded, train, whole
from torch.distributed.fsdp import fully_shard

import laconic


@over(2)
def test_a_compiled_module_overlaps_and_trains_as_a_plain_one(rank, ranks):
    """Its activations are checkpointed."""
    ends = []
    for compiled in (True, False):
        model = Checkpointed() if compiled else network()
        run = torch.compile(model) if compiled else model
        optimizer = laconic.AdamW(model.parameters(), lr=1e-2)
        started, start = [], optimizer._start
        optimizer._start = lambda bucket, start=start, started=started: (started.append(bucket), start(bucket))[1]
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            for step in range(1, 8):
                optimizer.zero_grad()
                loss_of(run, step, rank).backward()
                before = len(started)
                optimizer.step()
        assert before, "nothing was exchanged before step()"
        ends.append(flat(model))
    assert close(*ends, 1e-5)


@over(2)
def test_compiled_layers_of_a_sharded_model_overlap(rank, ranks):
    ends = []
    for compiled in (True, False):
        model, mesh = network(), meshes(2, 1) if ranks == 2 else meshes()
        for i in (0, 2, 4):
            if compiled:
                model[i].compile()
            fully_shard(model[i], mesh=mesh["shard"])
        fully_shard(model, mesh=mesh["shard"])
        optimizer = make("ZeroOneAdam", model, mesh)
        train(model, optimizer, 8, rank)
        assert optimizer._overlap.active
        optimizer.synchronize()
        ends.append(whole(model))
    every = [torch.empty_like(ends[0]) for _ in range(ranks)]
    dist.all_gather(every, ends[0])
    assert all(torch.equal(one, ends[0]) for one in every)
    assert sharded and close(ends[0], ends[1], 0.2)  # a sign may fall otherwise where rounding differs
