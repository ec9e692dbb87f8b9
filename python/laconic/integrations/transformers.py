"""Hugging Face's Trainer: checkpoints that hold the state of every rank."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from .. import checkpoint, state
from ..errors import InvalidArgument
from ..optimizer import Optimizer

_FOLDER = "laconic"


class LaconicCallback(TrainerCallback):
    """Saves every rank's state beside Trainer's checkpoint and resumes from it, bit for bit.

    Trainer itself saves the optimizer of rank 0 and gives that to all ranks. That is enough for AdamW and SGD, whose
    state is the same everywhere. The others need this callback, when saving and when resuming:

        Trainer(..., optimizers=(optimizer, schedule), callbacks=[LaconicCallback()])

    All ranks must see the folder. `resume_from` is needed only for a checkpoint outside of output_dir that is not named
    in TrainingArguments(resume_from_checkpoint=...) either.
    """

    def __init__(self, resume_from: Any = None) -> None:
        self._resume_from = resume_from
        self._optimizer: Any = None  # an Optimizer, once training has begun
        self._control: Any = None

    def on_train_begin(self, args, state_of_run, control, optimizer=None, **_: Any) -> None:
        optimizer = getattr(optimizer, "optimizer", optimizer)  # as accelerate wraps it
        if not isinstance(optimizer, Optimizer):
            raise InvalidArgument(f"LaconicCallback is for laconic's optimizers, this is {type(optimizer).__name__}")
        self._control = control
        if optimizer is not self._optimizer:
            self._optimizer = optimizer
            optimizer.register_state_dict_post_hook(self._name_the_folder)
        if state_of_run.global_step > 0 and optimizer._awaits is not None:  # else Trainer's own file held all
            self._resume(args, state_of_run.global_step)

    def on_save(self, args, state_of_run, control, **_: Any) -> None:
        if args.save_only_model:
            return
        folder = Path(args.output_dir) / f"checkpoint-{state_of_run.global_step}" / _FOLDER
        checkpoint.save(folder, self._optimizer, {"global_step": state_of_run.global_step})

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
