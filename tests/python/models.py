"""Small models and data that the tests train on."""
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import laconic


def network(seed=1, width=32):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(16, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 4))


def batch(step, rank, size=8):
    """Inputs and labels of one rank in one step, the same in every run."""
    random = torch.Generator().manual_seed(1000 * step + rank)
    inputs = torch.randn(size, 16, generator=random)
    return inputs, (inputs[:, :4] > 0).float().argmax(1)


def loss_of(model, step, rank, size=8):
    inputs, labels = batch(step, rank, size)
    return nn.functional.cross_entropy(model(inputs), labels)


def train(model, optimizer, steps, rank, first=1):
    for step in range(first, first + steps):
        optimizer.zero_grad()
        loss_of(model, step, rank).backward()
        optimizer.step()


def flat(model):
    return torch.cat([p.detach().float().reshape(-1) for p in model.parameters()])


class Checkpointed(nn.Module):
    """The network, whose activations are computed again in backward."""

    def __init__(self):
        super().__init__()
        self.layers = network()

    def forward(self, x):
        return self.layers[4](checkpoint(self.layers[:4], x, use_reentrant=False))


class Crossed(nn.Module):
    """Layers that are used in another order than they are declared, so that DDP cuts other buckets after a step."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layers = nn.ModuleList([nn.Linear(16, 16) for _ in range(6)])

    def forward(self, x):
        for i in (3, 0, 5, 1, 4, 2):
            x = torch.tanh(self.layers[i](x))
        return x


def hooked(model, codec="int4", wrap=None, **options):
    """The module under DistributedDataParallel with `wrap` of its arguments, averaged by laconic.codec_hook, and the state."""
    wrapped, state = DistributedDataParallel(model, **(wrap or {})), laconic.CodecState(codec, **options)
    wrapped.register_comm_hook(state, laconic.codec_hook)
    return wrapped, state
