"""Hugging Face's Trainer: gradients, clipping, checkpoints of every rank, evaluation, and what a run costs."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from .. import checkpoint, state
from ..errors import InvalidArgument
from ..optimizer import Optimizer
from .training import Meter, hand_over, inner, refuse_clipping

_FOLDER = "laconic"


class LaconicCallback(TrainerCallback):
    """All that Trainer needs beside an optimizer of laconic.

        Trainer(..., optimizers=(optimizer, schedule), callbacks=[LaconicCallback()])
        Trainer(..., optimizer_cls_and_kwargs=(laconic.ZeroOneAdam, options), callbacks=[LaconicCallback()])

    The optimizer takes over the gradients of Trainer's DistributedDataParallel. Trainer's own clipping is refused: give
    max_grad_norm to the optimizer. Evaluation, and the model in a checkpoint, have the synced weights. Trainer saves the
    optimizer of rank 0 and gives that to all ranks; the callback saves every rank's state beside it and resumes from it,
    bit for bit. Bits per parameter, rounds and the time of step() are logged.

    All ranks must see the folder. `resume_from` is needed only for a checkpoint outside of output_dir that is not named
    in TrainingArguments(resume_from_checkpoint=...) either.
    """

    def __init__(self, resume_from: Any = None) -> None:
        self._resume_from = resume_from
        self._optimizer: Any = None  # an Optimizer, once training has begun
        self._control: Any = None
        self._synced = ExitStack()

    def on_train_begin(self, args, state_of_run, control, optimizer=None, model=None, **_: Any) -> None:
        optimizer = inner(optimizer, "LaconicCallback")
        if optimizer._transport.size > 1 or optimizer._options["max_grad_norm"] not in ("0.0", "0"):
            refuse_clipping(args.max_grad_norm, optimizer, "Trainer", "TrainingArguments(max_grad_norm=0)")
        self._control = control
        if optimizer is not self._optimizer:
            self._optimizer, self._meter = optimizer, Meter(optimizer)
            optimizer.register_state_dict_post_hook(self._name_the_folder)
        if model is not None:
            hand_over(model, optimizer)
        if state_of_run.global_step > 0 and optimizer._awaits is not None:  # else Trainer's own file held all
            self._resume(args, state_of_run.global_step)

    # Between two steps Trainer logs, evaluates and saves, in this order.

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._synced.close()

    def on_step_end(self, args, state_of_run, control, **_: Any) -> None:
        if control.should_evaluate or control.should_save:
            self._show_synced()

    def on_epoch_end(self, args, state_of_run, control, **_: Any) -> None:
        self.on_step_end(args, state_of_run, control)

    def _show_synced(self) -> None:
        self._synced.close()
        self._synced.enter_context(self._optimizer.synced())

    def on_evaluate(self, args, state_of_run, control, **_: Any) -> None:
        if not control.should_save:
            self._synced.close()

    def on_save(self, args, state_of_run, control, **_: Any) -> None:
        self._synced.close()
        if args.save_only_model:
            return
        folder = Path(args.output_dir) / f"checkpoint-{state_of_run.global_step}" / _FOLDER
        checkpoint.save(folder, self._optimizer, {"global_step": state_of_run.global_step})

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self._synced.close()
        self._optimizer.synchronize()

    def on_log(self, args, state_of_run, control, logs=None, **_: Any) -> None:
        if logs is not None and "loss" in logs and self._optimizer is not None:
            costs = self._meter.take()
            logs |= costs
            if state_of_run.log_history:
                state_of_run.log_history[-1].update(costs)

    def _resume(self, args, global_step: int) -> None:
        last = Path(args.output_dir) / f"checkpoint-{global_step}"
        folder = Path(self._resume_from or args.resume_from_checkpoint or last) / _FOLDER
        if not folder.is_dir():
            raise InvalidArgument(
                f"{folder} is not there, and it holds the optimizer's state: give LaconicCallback(resume_from=...), the "
                "checkpoint that Trainer resumes from"
            )
        extra = checkpoint.resume(folder, self._optimizer)
        if extra["global_step"] != global_step:
            steps = f"step {extra['global_step']}, Trainer resumes from step {global_step}"
            raise InvalidArgument(f"{folder} is of {steps}: give LaconicCallback(resume_from=...)")

    def _name_the_folder(self, optimizer: Optimizer, _: dict) -> dict | None:
        """Trainer's own file holds no state of rank 0 alone, which would not fit the other ranks."""
        if not self._control.should_save:
            return None
        text = "each rank's is in the folder `laconic` of the checkpoint, give Trainer callbacks=[LaconicCallback()]"
        return state.elsewhere(optimizer, text)
