"""The one-bit mean as a chain of torch operations: what is written without kernels, as a baseline to measure against."""

from __future__ import annotations

import torch
import torch.distributed as dist


class ChainedMean:
    """Two rounds with error feedback, one scale per chunk, every operation a pass over memory. Elements: a multiple of 8n."""

    def __init__(self, elements: int) -> None:
        self.ranks, self.rank = dist.get_world_size(), dist.get_rank()
        self.chunk = elements // self.ranks
        self.worker_error = torch.zeros(elements)
        self.server_error = torch.zeros(self.chunk)
        self.powers = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8)

    def pack(self, values: torch.Tensor) -> torch.Tensor:
        bits = values.ge(0).to(torch.uint8).view(-1, 8)
        return (bits * self.powers).sum(1, dtype=torch.uint8)

    def unpack(self, packed: torch.Tensor) -> torch.Tensor:
        bits = packed.unsqueeze(-1).bitwise_and(self.powers).ne(0)
        return bits.view(-1).to(torch.float32).mul_(2).sub_(1)

    def code(self, values: torch.Tensor, error: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Scale and bits of values + error; error takes what they leave out."""
        values = values.add_(error)
        scale = values.norm() / values.numel() ** 0.5
        signs = values.sign().add_(1).bool().float().mul_(2).sub_(1)
        error.copy_(values - scale * signs)
        return scale.reshape(1), self.pack(values)

    def reduce(self, values: torch.Tensor) -> torch.Tensor:
        scale, bits = self.code(values.clone(), self.worker_error)
        received = torch.empty_like(bits)
        dist.all_to_all_single(received, bits)
        scales = [torch.empty(1) for _ in range(self.ranks)]
        dist.all_gather(scales, scale)
        mean = torch.zeros(self.chunk)
        for part, one in zip(received.chunk(self.ranks), scales):
            mean += one * self.unpack(part)
        scale, bits = self.code(mean.div_(self.ranks), self.server_error)
        parts = [torch.empty_like(bits) for _ in range(self.ranks)]
        dist.all_gather(parts, bits)
        dist.all_gather(scales, scale)
        return torch.cat([one * self.unpack(part) for part, one in zip(parts, scales)])
