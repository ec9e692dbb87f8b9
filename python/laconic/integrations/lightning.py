"""Lightning: gradients, clipping, checkpoints of every rank, evaluation, and what a run costs."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch.distributed as dist
from lightning.pytorch import Callback

from .. import state
from ..errors import InvalidArgument
from ..optimizer import Optimizer
from .training import Meter, hand_over, inner, refuse_clipping

_ENTRY = "laconic"


class LaconicCallback(Callback):
    """All that Lightning's Trainer needs beside an optimizer of laconic, which configure_optimizers returns.

        Trainer(strategy="ddp", ..., callbacks=[LaconicCallback()])

    The optimizer takes over the gradients of DistributedDataParallel. Trainer(gradient_clip_val=...) is refused: give
    max_grad_norm to the optimizer. Validation and tests have the synced weights. Lightning saves the optimizer of rank 0;
    the callback puts every rank's state into the same file, and a resume goes on bit for bit. Bits per parameter, rounds
    and the time of step() are logged.
    """

    def __init__(self) -> None:
        self._optimizer: Any = None  # an Optimizer, once training has begun
        self._loaded: list[dict[str, Any]] | None = None
        self._synced = ExitStack()

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        if len(trainer.optimizers) != 1:
            raise InvalidArgument(f"configure_optimizers returned {len(trainer.optimizers)} optimizers: return one of laconic")
        optimizer = inner(trainer.optimizers[0], "LaconicCallback")
        refuse_clipping(trainer.gradient_clip_val, optimizer, "Trainer", "no gradient_clip_val")
        if optimizer is not self._optimizer:
            self._optimizer, self._meter = optimizer, Meter(optimizer)
        hand_over(trainer.strategy.model, optimizer)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if self._loaded is None:
            return
        saved, self._loaded = self._loaded, None
        own = self._optimizer._transport.rank
        if len(saved) != self._optimizer._transport.size:
            raise InvalidArgument(
                f"the checkpoint is of {len(saved)} ranks, here are {self._optimizer._transport.size}: resume with as many, or "
                "save laconic.consolidate(optimizer)"
            )
        self._optimizer.load_state_dict(saved[own])

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        if self._optimizer is None or "optimizer_states" not in checkpoint:
            return
        every = [self._optimizer.state_dict()]
        if dist.is_initialized() and dist.get_world_size() > 1:
            mine, every = every[0], [{}] * dist.get_world_size()
            dist.gather_object(mine, every if dist.get_rank() == 0 else None)
        checkpoint[_ENTRY] = every
        text = "each rank's is in the entry `laconic` of the checkpoint, give Trainer callbacks=[LaconicCallback()]"
        checkpoint["optimizer_states"] = [state.elsewhere(self._optimizer, text)]

    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        self._loaded = checkpoint.get(_ENTRY)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        if trainer.global_step % max(1, trainer.log_every_n_steps) == 0:
            pl_module.log_dict(self._meter.take())

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._optimizer.synchronize()

    # Evaluation.

    def _show_synced(self, trainer: Any, pl_module: Any) -> None:
        if isinstance(self._optimizer, Optimizer) and self._optimizer._awaits is None:
            self._synced.close()
            self._synced.enter_context(self._optimizer.synced())

    def _show_own(self, trainer: Any, pl_module: Any) -> None:
        self._synced.close()

    on_validation_start = on_test_start = _show_synced
    on_validation_end = on_test_end = _show_own
