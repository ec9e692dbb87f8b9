"""Hugging Face's Trainer: gradients, clipping, checkpoints of every rank, evaluation, and what a run costs."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from .. import checkpoint, optimizers, state
from ..errors import InvalidArgument
from ..optimizer import Optimizer
from .training import Meter, hand_over, inner, refuse_clipping

_FOLDER = "laconic"
_WORDS = {"true": True, "false": False, "none": None}


def optim(name: str, args: Any) -> tuple[type[Optimizer], dict[str, Any]]:
    """A method by its name, with the settings of TrainingArguments, for Trainer(optimizer_cls_and_kwargs=...).

    TrainingArguments(optim=...) takes the names of a closed enumeration, so the name comes here. The rest is where Trainer's
    users have it: `learning_rate`; `adam_beta1`, `adam_beta2` and `adam_epsilon`, where they are not Trainer's defaults and
    the method has them; `optim_args`, the method's other options as in "freeze_step=100,exchange=auto"; `max_steps`, if it
    is set and no total_steps is given. Groups and their weight decay are Trainer's.
    """
    found = {method["name"]: method["python"] for method in optimizers.methods() if method["python"]}
    if name not in found:
        raise InvalidArgument(f"no method `{name}`: {', '.join(found)}")
    made = getattr(optimizers, found[name])
    known = inspect.signature(made).parameters
    if "inner" in known:
        raise InvalidArgument(
            f"{found[name]} stands around a torch optimizer and exchanges no gradients, which Trainer's DistributedDataParallel "
            "averages in every step: give a method that exchanges gradients"
        )
    defaults = {field.name: field.default for field in dataclasses.fields(args)}
    changed = {field for field in ("adam_beta1", "adam_beta2", "adam_epsilon") if getattr(args, field) != defaults[field]}
    options: dict[str, Any] = {"lr": args.learning_rate}
    if "betas" in known and changed & {"adam_beta1", "adam_beta2"}:
        options["betas"] = (args.adam_beta1, args.adam_beta2)
    if "eps" in known and "adam_epsilon" in changed:
        options["eps"] = args.adam_epsilon
    if "total_steps" in known and args.max_steps > 0:
        options["total_steps"] = args.max_steps
    return made, options | _options_in(args.optim_args or "")


def _options_in(text: str) -> dict[str, Any]:
    given = [one.strip() for one in text.split(",") if one.strip()]
    for one in given:
        if "=" not in one:
            raise InvalidArgument(f"optim_args has `{one}`: write name=value, with a comma between two")
    return {name.strip(): _value(value.strip()) for name, value in (one.split("=", 1) for one in given)}


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


class LaconicCallback(TrainerCallback):
    """All that Trainer needs beside an optimizer of laconic.

        Trainer(..., optimizers=(optimizer, schedule), callbacks=[LaconicCallback()])
        Trainer(..., optimizer_cls_and_kwargs=(laconic.ZeroOneAdam, options), callbacks=[LaconicCallback()])
        Trainer(..., optimizer_cls_and_kwargs=optim("zero-one-adam", arguments), callbacks=[LaconicCallback()])

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
