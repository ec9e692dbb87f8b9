"""Steps of a small GPT over ranks, in turns: what its exchange adds to a step that exchanges nothing."""

from __future__ import annotations

import itertools
import statistics
import time
from typing import Any, Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import laconic

from .timing import Case, measure, row

VOCABULARY, WIDTH, DEPTH, HEADS, LENGTH, BATCH = 256, 128, 5, 4, 128, 16  # as `laconic train --model gpt2-mini`
WARM = 6  # steps until overlap has begun


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention_norm, self.feed_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query_key_value, self.attended = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.widened, self.narrowed = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.query_key_value(self.attention_norm(x)).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts)
        x = x + self.attended(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.narrowed(nn.functional.gelu(self.widened(self.feed_norm(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(DEPTH)))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions.weight
        return nn.functional.linear(self.norm(self.blocks(x)), self.tokens.weight)


class Training:
    """One model with its optimizer, on batches of random tokens."""

    def __init__(self, prepare: Callable[[nn.Module], tuple[nn.Module, torch.optim.Optimizer]]) -> None:
        torch.manual_seed(1)
        self.model, self.optimizer = prepare(Gpt())
        self.batch = torch.randint(VOCABULARY, (BATCH, LENGTH + 1), generator=torch.Generator().manual_seed(dist.get_rank()))
        self.parts: list[tuple[float, float, float]] = []  # forward, backward and optimizer.step() of each step
        for _ in range(WARM):
            self.step()

    def step(self) -> None:
        self.optimizer.zero_grad()
        times = [time.perf_counter()]
        logits = self.model(self.batch[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), self.batch[:, 1:].flatten())
        times.append(time.perf_counter())
        loss.backward()
        times.append(time.perf_counter())
        self.optimizer.step()
        times.append(time.perf_counter())
        forward, backward, update = (end - begin for begin, end in itertools.pairwise(times))
        self.parts.append((forward, backward, update))


def rows(buckets: int, repeats: int, only: str = "") -> list[dict[str, Any]]:
    alone = [dist.new_group([rank]) for rank in range(dist.get_world_size())][dist.get_rank()]
    parameters = sum(parameter.numel() for parameter in Gpt().parameters())
    bucket_mb = 4 * parameters / buckets / 2**20

    def ours(model: nn.Module, **options: Any) -> laconic.AdamW:
        return laconic.AdamW(model.parameters(), lr=1e-4, bucket_mb=bucket_mb, **options)

    def under_ddp(model: nn.Module) -> tuple[nn.Module, torch.optim.Optimizer]:
        optimizer = ours(model)
        return laconic.ddp(model, optimizer, bucket_cap_mb=bucket_mb), optimizer

    makers: dict[str, Callable[[nn.Module], tuple[nn.Module, torch.optim.Optimizer]]] = {
        "no exchange": lambda model: (model, ours(model, process_group=alone)),
        "torch AdamW under DDP": lambda model: (
            DistributedDataParallel(model, bucket_cap_mb=bucket_mb),
            torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True),
        ),
        "laconic.AdamW": lambda model: (model, ours(model)),
        "laconic.AdamW, no overlap": lambda model: (model, ours(model, overlap=False)),
        "laconic.AdamW under DDP": under_ddp,
    }
    trainings = {name: Training(make) for name, make in makers.items() if only in name or name == "no exchange"}
    measured = measure([Case(name, training.step) for name, training in trainings.items()], repeats)
    ranks = dist.get_world_size()
    found: list[dict[str, Any]] = []
    for case in measured:
        forward, backward, update = (statistics.median(part) for part in zip(*trainings[case.name].parts[WARM:]))
        one = row(case, parameters, ranks=ranks, buckets=buckets, forward_seconds=forward, backward_seconds=backward, update_seconds=update)
        found.append(one)
        one["bytes_sent"] = 0 if one is found[0] else 8 * parameters * (ranks - 1) // ranks
        one["exposed_seconds"] = one["seconds"] - found[0]["seconds"]
    return found
