# Written by tests/python/stub.py; a test compares.
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor

from .local_steps import AroundInner
from .optimizer import Optimizer

__all__ = ["SGD", "AdamW", "Lion", "LAMB", "OneBitAdam", "OneBitLAMB", "ZeroOneAdam", "Birder", "DistributedLion", "LocalSteps", "DiLoCo", "StreamingDiLoCo", "DSM", "CO2", "SparseLoCo", "methods"]

def methods() -> list[dict[str, Any]]: ...

class SGD(Optimizer):
    """SGD with momentum on the mean of the gradients, exact or with eight or four bits per parameter; weight decay is decoupled, torch.optim.SGD's is not.

    Sutskever et al., On the importance of initialization and momentum in deep learning, ICML 2013.

    Args:
        params: parameters or groups; a group may have its own lr, weight_decay and compress=False (exact means)
        lr: learning rate
        momentum: decay of the momentum
        weight_decay: decoupled weight decay; groups may have their own
        codec: how the mean of the gradients travels: int8 and int4 are lossy
        feedback: what a lossy codec leaves out: added to the next exchange, averaged over exchanges (LoCo), or
            dropped
        feedback_reset: feedback = ema begins anew after so many; 0: never
        quant_block: int8, int4 and int2: elements that share a scale
        exchange: auto: fp32, bf16, int8 or int4, whichever is measured to be fastest; with strict the codec or an
            exact one
        total_steps: length of the run, from which schedules follow
        scale_block: elements that share a scale, and are left out together when one is not finite
        bf16: send exact means as bf16
        seed: key of the random numbers
        strict: exchange = auto decides once, before the first coded step, and between the configured codec and
            exact means only
        shadow_every: compare coded with exact means every so many steps; 0: never
        verify_every: prove that replicas are equal every so many steps; 0: never
        device: where passes over weights, gradients and state run: the same bits on all; emulated: kernels for GPUs
            on the CPU, for tests
        process_group: of the ranks that train together; None: all
        ranks_per_node: exact means inside nodes of so many ranks, coded ones between nodes; auto: of a machine;
            None: coded between all ranks
        bucket_mb: MiB of float32 values that are exchanged at once
        max_grad_norm: clip gradients to this norm over all ranks; 0: never
        overlap: let exchanges begin while backward is running
        threads: threads of each rank; None: torch.get_num_threads()
        timeout: a timedelta; None: the process group's

    >>> import torch, laconic
    >>> weight = torch.nn.Parameter(torch.zeros(1000))
    >>> optimizer = laconic.SGD([weight], lr=1e-2, total_steps=100)
    >>> for _ in range(20):
    ...     optimizer.zero_grad()
    ...     (weight - 1).square().sum().backward()
    ...     optimizer.step()
    >>> optimizer.stats()["step"], bool((weight > 0).all())
    (20, True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 0.001,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        *,
        codec: Literal["fp32", "bf16", "int8", "int4"] = 'fp32',
        feedback: Literal["full", "ema", "none"] = 'full',
        feedback_reset: int = 1024,
        quant_block: int = 256,
        exchange: Literal["two-round", "auto"] = 'two-round',
        total_steps: int | None = None,
        scale_block: int = 4096,
        bf16: bool = False,
        seed: int = 0,
        strict: bool = False,
        shadow_every: int = 0,
        verify_every: int = 0,
        device: str = 'cpu',
        process_group: dist.ProcessGroup | None = None,
        ranks_per_node: int | str | None = None,
        bucket_mb: float = 25,
        max_grad_norm: float | None = None,
        overlap: bool = True,
        threads: int | None = None,
        timeout: timedelta | None = None,
    ) -> None: ...

class AdamW(Optimizer):
    """AdamW on the mean of the gradients, as torch.optim.AdamW under DistributedDataParallel; the mean is exact, or has eight or four bits per parameter.

    Loshchilov and Hutter, Decoupled Weight Decay Regularization, ICLR 2019.

    Args:
        params: parameters or groups; a group may have its own lr, weight_decay and compress=False (exact means)
        lr: learning rate
        betas: decay of the first moment; decay of the second moment
        eps: added to the root of the second moment
        weight_decay: decoupled weight decay; groups may have their own
        bias_correction: correct both moments for their start at 0
        codec: how the mean of the gradients travels: int8 and int4 are lossy
        feedback: what a lossy codec leaves out: added to the next exchange, averaged over exchanges (LoCo), or
            dropped
        feedback_reset: feedback = ema begins anew after so many; 0: never
        quant_block: int8, int4 and int2: elements that share a scale
        exchange: auto: fp32, bf16, int8 or int4, whichever is measured to be fastest; with strict the codec or an
            exact one
        total_steps: length of the run, from which schedules follow
        scale_block: elements that share a scale, and are left out together when one is not finite
        bf16: send exact means as bf16
        seed: key of the random numbers
        strict: exchange = auto decides once, before the first coded step, and between the configured codec and
            exact means only
        shadow_every: compare coded with exact means every so many steps; 0: never
        verify_every: prove that replicas are equal every so many steps; 0: never
        device: where passes over weights, gradients and state run: the same bits on all; emulated: kernels for GPUs
            on the CPU, for tests
        process_group: of the ranks that train together; None: all
        ranks_per_node: exact means inside nodes of so many ranks, coded ones between nodes; auto: of a machine;
            None: coded between all ranks
        bucket_mb: MiB of float32 values that are exchanged at once
        max_grad_norm: clip gradients to this norm over all ranks; 0: never
        overlap: let exchanges begin while backward is running
        threads: threads of each rank; None: torch.get_num_threads()
        timeout: a timedelta; None: the process group's

    >>> import torch, laconic
    >>> weight = torch.nn.Parameter(torch.zeros(1000))
    >>> optimizer = laconic.AdamW([weight], lr=1e-2, total_steps=100)
    >>> for _ in range(20):
    ...     optimizer.zero_grad()
    ...     (weight - 1).square().sum().backward()
    ...     optimizer.step()
    >>> optimizer.stats()["step"], bool((weight > 0).all())
    (20, True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.01,
        *,
        bias_correction: bool = True,
        codec: Literal["fp32", "bf16", "int8", "int4"] = 'fp32',
        feedback: Literal["full", "ema", "none"] = 'full',
        feedback_reset: int = 1024,
        quant_block: int = 256,
        exchange: Literal["two-round", "auto"] = 'two-round',
        total_steps: int | None = None,
        scale_block: int = 4096,
        bf16: bool = False,
        seed: int = 0,
        strict: bool = False,
        shadow_every: int = 0,
        verify_every: int = 0,
        device: str = 'cpu',
        process_group: dist.ProcessGroup | None = None,
        ranks_per_node: int | str | None = None,
        bucket_mb: float = 25,
        max_grad_norm: float | None = None,
        overlap: bool = True,
        threads: int | None = None,
        timeout: timedelta | None = None,
    ) -> None: ...

class Lion(Optimizer):
    """Lion: sign of a mixture of momentum and mean gradient, exact or with eight or four bits per parameter; a third to a tenth of AdamW's learning rate.

    Chen et al., Symbolic Discovery of Optimization Algorithms, NeurIPS 2023.

    Args:
        params: parameters or groups; a group may have its own lr, weight_decay and compress=False (exact means)
        lr: learning rate
        betas: share of the momentum in what is stepped by, beside the gradient; decay of the momentum
        weight_decay: decoupled weight decay; groups may have their own
        codec: how the mean of the gradients travels: int8 and int4 are lossy
        feedback: what a lossy codec leaves out: added to the next exchange, averaged over exchanges (LoCo), or
            dropped
        feedback_reset: feedback = ema begins anew after so many; 0: never
        quant_block: int8, int4 and int2: elements that share a scale
        exchange: auto: fp32, bf16, int8 or int4, whichever is measured to be fastest; with strict the codec or an
            exact one
        total_steps: length of the run, from which schedules follow
        scale_block: elements that share a scale, and are left out together when one is not finite
        bf16: send exact means as bf16
        seed: key of the random numbers
        strict: exchange = auto decides once, before the first coded step, and between the configured codec and
            exact means only
        shadow_every: compare coded with exact means every so many steps; 0: never
        verify_every: prove that replicas are equal every so many steps; 0: never
        device: where passes over weights, gradients and state run: the same bits on all; emulated: kernels for GPUs
            on the CPU, for tests
        process_group: of the ranks that train together; None: all
        ranks_per_node: exact means inside nodes of so many ranks, coded ones between nodes; auto: of a machine;
            None: coded between all ranks
        bucket_mb: MiB of float32 values that are exchanged at once
        max_grad_norm: clip gradients to this norm over all ranks; 0: never
        overlap: let exchanges begin while backward is running
        threads: threads of each rank; None: torch.get_num_threads()
        timeout: a timedelta; None: the process group's

    >>> import torch, laconic
    >>> weight = torch.nn.Parameter(torch.zeros(1000))
    >>> optimizer = laconic.Lion([weight], lr=1e-2, total_steps=100)
    >>> for _ in range(20):
    ...     optimizer.zero_grad()
    ...     (weight - 1).square().sum().backward()
    ...     optimizer.step()
    >>> optimizer.stats()["step"], bool((weight > 0).all())
    (20, True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 0.0001,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        codec: Literal["fp32", "bf16", "int8", "int4"] = 'fp32',
        feedback: Literal["full", "ema", "none"] = 'full',
        feedback_reset: int = 1024,
        quant_block: int = 256,
        exchange: Literal["two-round", "auto"] = 'two-round',
        total_steps: int | None = None,
        scale_block: int = 4096,
        bf16: bool = False,
        seed: int = 0,
        strict: bool = False,
        shadow_every: int = 0,
        verify_every: int = 0,
        device: str = 'cpu',
        process_group: dist.ProcessGroup | None = None,
        ranks_per_node: int | str | None = None,
        bucket_mb: float = 25,
        max_grad_norm: float | None = None,
        overlap: bool = True,
        threads: int | None = None,
        timeout: timedelta | None = None,
    ) -> None: ...

class LAMB(Optimizer):
    """LAMB: Adam for large batches: each tensor moves in proportion to its own norm; the mean of the gradients is exact, or has eight or four bits per parameter.

    You et al., Large Batch Optimization for Deep Learning: Training BERT in 76 minutes, ICLR 2020.

    Args:
        params: parameters or groups; a group may have its own lr, weight_decay and compress=False (exact means)
        lr: learning rate
        betas: decay of the first moment; decay of the second moment
        eps: added to the root of the second moment
        weight_decay: decoupled weight decay; groups may have their own
        bias_correction: correct both moments for their start at 0
        min_trust: least ratio of a tensor's norm to its update's
        max_trust: largest ratio of a tensor's norm to its update's
        codec: how the mean of the gradients travels: int8 and int4 are lossy
        feedback: what a lossy codec leaves out: added to the next exchange, averaged over exchanges (LoCo), or
            dropped
        feedback_reset: feedback = ema begins anew after so many; 0: never
        quant_block: int8, int4 and int2: elements that share a scale
        exchange: auto: fp32, bf16, int8 or int4, whichever is measured to be fastest; with strict the codec or an
            exact one
        total_steps: length of the run, from which schedules follow
        scale_block: elements that share a scale, and are left out together when one is not finite
        bf16: send exact means as bf16
        seed: key of the random numbers
        strict: exchange = auto decides once, before the first coded step, and between the configured codec and
            exact means only
        shadow_every: compare coded with exact means every so many steps; 0: never
        verify_every: prove that replicas are equal every so many steps; 0: never
        device: where passes over weights, gradients and state run: the same bits on all; emulated: kernels for GPUs
            on the CPU, for tests
        process_group: of the ranks that train together; None: all
        ranks_per_node: exact means inside nodes of so many ranks, coded ones between nodes; auto: of a machine;
            None: coded between all ranks
        bucket_mb: MiB of float32 values that are exchanged at once
        max_grad_norm: clip gradients to this norm over all ranks; 0: never
        overlap: let exchanges begin while backward is running
        threads: threads of each rank; None: torch.get_num_threads()
        timeout: a timedelta; None: the process group's

        DeepSpeed's names: max_coeff (max_trust), min_coeff (min_trust)

    >>> import torch, laconic
    >>> weight = torch.nn.Parameter(torch.zeros(1000))
    >>> optimizer = laconic.LAMB([weight], lr=1e-2, total_steps=100)
    >>> for _ in range(20):
    ...     optimizer.zero_grad()
    ...     (weight - 1).square().sum().backward()
    ...     optimizer.step()
    >>> optimizer.stats()["step"], bool((weight > 0).all())
    (20, True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        *,
        bias_correction: bool = True,
        min_trust: float = 0.01,
        max_trust: float = 10.0,
        codec: Literal["fp32", "bf16", "int8", "int4"] = 'fp32',
        feedback: Literal["full", "ema", "none"] = 'full',
        feedback_reset: int = 1024,
        quant_block: int = 256,
        exchange: Literal["two-round", "auto"] = 'two-round',
        total_steps: int | None = None,
        scale_block: int = 4096,
        bf16: bool = False,
        seed: int = 0,
        strict: bool = False,
        shadow_every: int = 0,
        verify_every: int = 0,
        device: str = 'cpu',
        process_group: dist.ProcessGroup | None = None,
        ranks_per_node: int | str | None = None,
        bucket_mb: float = 25,
        max_grad_norm: float | None = None,
        overlap: bool = True,
        threads: int | None = None,
        timeout: timedelta | None = None,
        max_coeff: float = ...,
        min_coeff: float = ...,
    ) -> None: ...

class OneBitAdam(Optimizer):
    """1-bit Adam: Adam on exact means until freeze_step, then one bit per parameter on every step.

    Tang et al., 1-bit Adam: Communication Efficient Large-Scale Training with Adam's Convergence Speed, ICML 2021.

    Args:
        params: parameters or groups; a group may have its own lr, weight_decay and compress=False (exact means)
        lr: learning rate
        betas: decay of the first moment; decay of the second moment
        eps: added to the root of the second moment
        weight_decay: decoupled weight decay; groups may have their own
        bias_correction: correct both moments for their start at 0
        variance_floor: least second moment of an element, as a share of its scale block's mean; 0: none
        scale_norm: norm of a scale block that its scale keeps
        exchange: auto: exact instead of coded where that is measured to be faster; otherwise coded
        dense_codec: how the mean of the gradients travels in rounds that are exact by default: int8 and int4 are
            lossy, and add what they leave out to the next such round
        quant_block: int8, int4 and int2: elements that share a scale
        freeze_step: last step with exact means, after which the variance stays; auto: when it has settled; None: 20
            % of total_steps
        total_steps: length of the run, from which schedules follow
        scale_block: elements that share a scale, and are left out together when one is not finite
        bf16: send exact means as bf16
        seed: key of the random numbers
        strict: exchange = auto decides once, before the first coded step, and between the configured codec and
            exact means only
        shadow_every: compare coded with exact means every so many steps; 0: never
        verify_every: prove that replicas are equal every so many steps; 0: never
        device: where passes over weights, gradients and state run: the same bits on all; emulated: kernels for GPUs
            on the CPU, for tests
        process_group: of the ranks that train together; None: all
        ranks_per_node: exact means inside nodes of so many ranks, coded ones between nodes; auto: of a machine;
            None: coded between all ranks
        bucket_mb: MiB of float32 values that are exchanged at once
        max_grad_norm: clip gradients to this norm over all ranks; 0: never
        overlap: let exchanges begin while backward is running
        threads: threads of each rank; None: torch.get_num_threads()
        timeout: a timedelta; None: the process group's

    >>> import torch, laconic
    >>> weight = torch.nn.Parameter(torch.zeros(1000))
    >>> optimizer = laconic.OneBitAdam([weight], lr=1e-2, total_steps=100)
    >>> for _ in range(20):
    ...     optimizer.zero_grad()
    ...     (weight - 1).square().sum().backward()
    ...     optimizer.step()
    >>> optimizer.stats()["step"], bool((weight > 0).all())
    (20, True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        *,
        bias_correction: bool = True,
        variance_floor: float = 0.01,
        scale_norm: Literal["l2", "l1"] = 'l2',
        exchange: Literal["two-round", "auto"] = 'two-round',
        dense_codec: Literal["fp32", "bf16", "int8", "int4"] = 'fp32',
        quant_block: int = 256,
        freeze_step: int | Literal["auto"] | None = None,
        total_steps: int | None = None,
        scale_block: int = 4096,
        bf16: bool = False,
        seed: int = 0,
        strict: bool = False,
        shadow_every: int = 0,
        verify_every: int = 0,
        device: str = 'cpu',
        process_group: dist.ProcessGroup | None = None,
        ranks_per_node: int | str | None = None,
        bucket_mb: float = 25,
        max_grad_norm: float | None = None,
        overlap: bool = True,
        threads: int | None = None,
        timeout: timedelta | None = None,
    ) -> None: ...

class OneBitLAMB(Optimizer):
    """1-bit LAMB: 1-bit Adam whose steps are as long as each tensor's trust ratio allows.

    Li et al., 1-bit LAMB: Communication Efficient Large-Scale Large-Batch Training with LAMB's Convergence Speed, HiPC 2022.

    Args:
        params: parameters or groups; a group may have its own lr, weight_decay and compress=False (exact means)
        lr: learning rate
        betas: decay of the first moment; decay of the second moment
        eps: added to the root of the second moment
        weight_decay: decoupled weight decay; groups may have their own
        bias_correction: correct both moments for their start at 0
        variance_floor: least second moment of an element, as a share of its scale block's mean; 0: none
        scale_norm: norm of a scale block that its scale keeps
        exchange: auto: exact instead of coded where that is measured to be faster; otherwise coded
        dense_codec: how the mean of the gradients travels in rounds that are exact by default: int8 and int4 are
            lossy, and add what they leave out to the next such round
        quant_block: int8, int4 and int2: elements that share a scale
        freeze_step: last step with exact means, after which the variance stays; auto: when it has settled; None: 20
            % of total_steps
        min_trust: least ratio of a tensor's norm to its update's
        max_trust: largest ratio of a tensor's norm to its update's
        total_steps: length of the run, from which schedules follow
        scale_block: elements that share a scale, and are left out together when one is not finite
        bf16: send exact means as bf16
        seed: key of the random numbers
        strict: exchange = auto decides once, before the first coded step, and between the configured codec and
            exact means only
        shadow_every: compare coded with exact means every so many steps; 0: never
        verify_every: prove that replicas are equal every so many steps; 0: never
        device: where passes over weights, gradients and state run: the same bits on all; emulated: kernels for GPUs
            on the CPU, for tests
        process_group: of the ranks that train together; None: all
        ranks_per_node: exact means inside nodes of so many ranks, coded ones between nodes; auto: of a machine;
            None: coded between all ranks
        bucket_mb: MiB of float32 values that are exchanged at once
        max_grad_norm: clip gradients to this norm over all ranks; 0: never
        overlap: let exchanges begin while backward is running
        threads: threads of each rank; None: torch.get_num_threads()
        timeout: a timedelta; None: the process group's

        DeepSpeed's names: max_coeff (max_trust), min_coeff (min_trust)

    >>> import torch, laconic
    >>> weight = torch.nn.Parameter(torch.zeros(1000))
    >>> optimizer = laconic.OneBitLAMB([weight], lr=1e-2, total_steps=100)
    >>> for _ in range(20):
    ...     optimizer.zero_grad()
    ...     (weight - 1).square().sum().backward()
    ...     optimizer.step()
    >>> optimizer.stats()["step"], bool((weight > 0).all())
    (20, True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        *,
        bias_correction: bool = True,
        variance_floor: float = 0.01,
        scale_norm: Literal["l2", "l1"] = 'l2',
        exchange: Literal["two-round", "auto"] = 'two-round',
        dense_codec: Literal["fp32", "bf16", "int8", "int4"] = 'fp32',
        quant_block: int = 256,
        freeze_step: int | Literal["auto"] | None = None,
        min_trust: float = 0.01,
        max_trust: float = 10.0,
        total_steps: int | None = None,
        scale_block: int = 4096,
        bf16: bool = False,
        seed: int = 0,
        strict: bool = False,
        shadow_every: int = 0,
        verify_every: int = 0,
        device: str = 'cpu',
        process_group: dist.ProcessGroup | None = None,
        ranks_per_node: int | str | None = None,
        bucket_mb: float = 25,
        max_grad_norm: float | None = None,
        overlap: bool = True,
        threads: int | None = None,
        timeout: timedelta | None = None,
        max_coeff: float = ...,
        min_coeff: float = ...,
    ) -> None: ...

class ZeroOneAdam(Optimizer):
    """0/1 Adam: Adam with one bit per parameter when ranks exchange, and local steps between.

    Lu et al., Maximizing Communication Efficiency for Large-scale Training via 0/1 Adam, ICLR 2023.

    Args:
        params: parameters or groups; a group may have its own lr, weight_decay and compress=False (exact means)
        lr: learning rate
        betas: decay of the first moment; decay of the second moment
        eps: added to the root of the second moment
        weight_decay: decoupled weight decay; groups may have their own
        bias_correction: correct both moments for their start at 0
        variance_floor: least second moment of an element, as a share of its scale block's mean; 0: none
        scale_norm: norm of a scale block that its scale keeps
        exchange: auto: exact instead of coded where that is measured to be faster; otherwise coded
        dense_codec: how the mean of the gradients travels in rounds that are exact by default: int8 and int4 are
            lossy, and add what they leave out to the next such round
        quant_block: int8, int4 and int2: elements that share a scale
        schedule: what is left open below: published: the paper's; short: fewer variance steps, over more of the
            run, a beta2 of at most 0.95, and syncs on every step for as long as that sends no more than the
            paper's; None: short where all is left open and total_steps is at most 10000, else published
        variance_freeze_step: last step on which the variance may change, the end of learning-rate warm-up; None: 15
            % of total_steps, with schedule = short up to 60 %
        variance_kappa: variance steps before the gap between them doubles; None: 16, with schedule = short 4
        double_every: steps after which the interval between syncs doubles; auto: it follows the learning rate;
            None: a sixth of the steps after the freeze, with schedule = short as late as the published volume
            allows
        max_interval: longest interval between syncs
        total_steps: length of the run, from which schedules follow
        scale_block: elements that share a scale, and are left out together when one is not finite
        bf16: send exact means as bf16
        seed: key of the random numbers
        strict: exchange = auto decides once, before the first coded step, and between the configured codec and
            exact means only
        shadow_every: compare coded with exact means every so many steps; 0: never
        verify_every: prove that replicas are equal every so many steps; 0: never
        device: where passes over weights, gradients and state run: the same bits on all; emulated: kernels for GPUs
            on the CPU, for tests
        process_group: of the ranks that train together; None: all
        ranks_per_node: exact means inside nodes of so many ranks, coded ones between nodes; auto: of a machine;
            None: coded between all ranks
        bucket_mb: MiB of float32 values that are exchanged at once
        max_grad_norm: clip gradients to this norm over all ranks; 0: never
        overlap: let exchanges begin while backward is running
        threads: threads of each rank; None: torch.get_num_threads()
        timeout: a timedelta; None: the process group's

        DeepSpeed's names: local_step_clipper (max_interval), local_step_scaler (double_every), var_freeze_step
            (variance_freeze_step), var_update_scaler (variance_kappa)

    >>> import torch, laconic
    >>> weight = torch.nn.Parameter(torch.zeros(1000))
    >>> optimizer = laconic.ZeroOneAdam([weight], lr=1e-2, total_steps=100)
    >>> for _ in range(20):
    ...     optimizer.zero_grad()
    ...     (weight - 1).square().sum().backward()
    ...     optimizer.step()
    >>> optimizer.stats()["step"], bool((weight > 0).all())
    (20, True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        *,
        bias_correction: bool = True,
        variance_floor: float = 0.01,
        scale_norm: Literal["l2", "l1"] = 'l2',
        exchange: Literal["two-round", "auto"] = 'two-round',
        dense_codec: Literal["fp32", "bf16", "int8", "int4"] = 'fp32',
        quant_block: int = 256,
        schedule: Literal["published", "short"] | None = None,
        variance_freeze_step: int | None = None,
        variance_kappa: int | None = None,
        double_every: int | Literal["auto"] | None = None,
        max_interval: int = 16,
        total_steps: int | None = None,
        scale_block: int = 4096,
        bf16: bool = False,
        seed: int = 0,
        strict: bool = False,
        shadow_every: int = 0,
        verify_every: int = 0,
        device: str = 'cpu',
        process_group: dist.ProcessGroup | None = None,
        ranks_per_node: int | str | None = None,
        bucket_mb: float = 25,
        max_grad_norm: float | None = None,
        overlap: bool = True,
        threads: int | None = None,
        timeout: timedelta | None = None,
        local_step_clipper: int = ...,
        local_step_scaler: int | Literal["auto"] | None = ...,
        var_freeze_step: int | None = ...,
        var_update_scaler: int | None = ...,
    ) -> None: ...

class Birder(Optimizer):
    """Birder: random signs from the first step on, without residuals or warm-up; about 2 to 3 times AdamW's learning rate.

    Peng et al., Birder: Communication-Efficient 1-bit Adaptive Optimizer for Practical Distributed DNN Training, NeurIPS 2023.

    Args:
        params: parameters or groups; a group may have its own lr, weight_decay and compress=False (exact means)
        lr: learning rate
        beta: decay of both moments
        weight_decay: decoupled weight decay; groups may have their own
        exchange: two-round: the paper's; single-round: half the bytes; count: less noise; auto: exact instead of
            two rounds where that is measured to be faster
        total_steps: length of the run, from which schedules follow
        scale_block: elements that share a scale, and are left out together when one is not finite
        bf16: send exact means as bf16
        seed: key of the random numbers
        strict: exchange = auto decides once, before the first coded step, and between the configured codec and
            exact means only
        shadow_every: compare coded with exact means every so many steps; 0: never
        verify_every: prove that replicas are equal every so many steps; 0: never
        device: where passes over weights, gradients and state run: the same bits on all; emulated: kernels for GPUs
            on the CPU, for tests
        process_group: of the ranks that train together; None: all
        ranks_per_node: exact means inside nodes of so many ranks, coded ones between nodes; auto: of a machine;
            None: coded between all ranks
        bucket_mb: MiB of float32 values that are exchanged at once
        max_grad_norm: clip gradients to this norm over all ranks; 0: never
        overlap: let exchanges begin while backward is running
        threads: threads of each rank; None: torch.get_num_threads()
        timeout: a timedelta; None: the process group's

    >>> import torch, laconic
    >>> weight = torch.nn.Parameter(torch.zeros(1000))
    >>> optimizer = laconic.Birder([weight], lr=1e-2, total_steps=100)
    >>> for _ in range(20):
    ...     optimizer.zero_grad()
    ...     (weight - 1).square().sum().backward()
    ...     optimizer.step()
    >>> optimizer.stats()["step"], bool((weight > 0).all())
    (20, True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor,
        beta: float = 0.9,
        weight_decay: float = 0.0,
        *,
        exchange: Literal["two-round", "single-round", "count", "auto"] = 'two-round',
        total_steps: int | None = None,
        scale_block: int = 4096,
        bf16: bool = False,
        seed: int = 0,
        strict: bool = False,
        shadow_every: int = 0,
        verify_every: int = 0,
        device: str = 'cpu',
        process_group: dist.ProcessGroup | None = None,
        ranks_per_node: int | str | None = None,
        bucket_mb: float = 25,
        max_grad_norm: float | None = None,
        overlap: bool = True,
        threads: int | None = None,
        timeout: timedelta | None = None,
    ) -> None: ...

class DistributedLion(Optimizer):
    """Distributed Lion: every rank votes with the sign of its own momentum, one bit per parameter from the first step on; a third to a tenth of AdamW's learning rate.

    Liu et al., Communication Efficient Distributed Training with Distributed Lion, NeurIPS 2024; momentum_sync_every: Ishikawa et al., Lion Cub, 2024.

    Args:
        params: parameters or groups; a group may have its own lr, weight_decay and compress=False (exact means)
        lr: learning rate
        betas: share of the momentum in what is stepped by, beside the gradient; decay of the momentum
        weight_decay: decoupled weight decay; groups may have their own
        form: vote: a step of the majority's sign; count: of the mean of the signs, in more bits on the way back
        momentum_sync_every: replace the momenta by their mean, in eight bits, every so many steps (Lion Cub); 0:
            never
        exchange: auto: the exact mean of the signs instead of the vote where that is measured to be faster;
            otherwise the vote
        total_steps: length of the run, from which schedules follow
        scale_block: elements that share a scale, and are left out together when one is not finite
        bf16: send exact means as bf16
        seed: key of the random numbers
        strict: exchange = auto decides once, before the first coded step, and between the configured codec and
            exact means only
        shadow_every: compare coded with exact means every so many steps; 0: never
        verify_every: prove that replicas are equal every so many steps; 0: never
        device: where passes over weights, gradients and state run: the same bits on all; emulated: kernels for GPUs
            on the CPU, for tests
        process_group: of the ranks that train together; None: all
        ranks_per_node: exact means inside nodes of so many ranks, coded ones between nodes; auto: of a machine;
            None: coded between all ranks
        bucket_mb: MiB of float32 values that are exchanged at once
        max_grad_norm: clip gradients to this norm over all ranks; 0: never
        overlap: let exchanges begin while backward is running
        threads: threads of each rank; None: torch.get_num_threads()
        timeout: a timedelta; None: the process group's

    >>> import torch, laconic
    >>> weight = torch.nn.Parameter(torch.zeros(1000))
    >>> optimizer = laconic.DistributedLion([weight], lr=1e-2, total_steps=100)
    >>> for _ in range(20):
    ...     optimizer.zero_grad()
    ...     (weight - 1).square().sum().backward()
    ...     optimizer.step()
    >>> optimizer.stats()["step"], bool((weight > 0).all())
    (20, True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 0.0001,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        form: Literal["vote", "count"] = 'vote',
        momentum_sync_every: int = 0,
        exchange: Literal["two-round", "auto"] = 'two-round',
        total_steps: int | None = None,
        scale_block: int = 4096,
        bf16: bool = False,
        seed: int = 0,
        strict: bool = False,
        shadow_every: int = 0,
        verify_every: int = 0,
        device: str = 'cpu',
        process_group: dist.ProcessGroup | None = None,
        ranks_per_node: int | str | None = None,
        bucket_mb: float = 25,
        max_grad_norm: float | None = None,
        overlap: bool = True,
        threads: int | None = None,
        timeout: timedelta | None = None,
    ) -> None: ...

class LocalSteps(AroundInner):
    """Local steps: each rank trains alone for some steps, then an outer rule moves the common weights by the mean of how far the ranks moved; any codec, in fragments, while training goes on.

    Wang et al., SlowMo: Improving Communication-Efficient Distributed SGD with Slow Momentum, ICLR 2020.

    Args:
        inner: the torch optimizer that moves this rank's weights, any; its groups may have compress=False (exact
            means)
        every: steps from one exchange to the next
        fragments: parts of the model that are exchanged at steps of their own
        delay: steps from the begin of an exchange to its use, in which training goes on; interval: until the next
            begins; eighth: of every
        merge: with a delay: the share of its own weights that a rank keeps; none: it keeps what it learnt meanwhile
        outer: how the mean displacement of the ranks moves the common weights
        outer_lr: learning rate of the outer rule; None: 1, with nesterov 0.7
        outer_momentum: nesterov and momentum: decay of the outer momentum
        outer_betas: sign: weight of the outer momentum in the direction; sign: decay of the outer momentum
        outer_weight_decay: sign: weight decay of the outer rule
        gap_penalty: divides the mean displacement; 1: off
        clip: bound of the outer momentum, element by element; 0: none
        codec: how the mean displacement travels: all but fp32 and bf16 are lossy
        codec_down: how the mean of a lossy codec travels back; None: int8 beside top-k, else as the codec
        top_k: top-k: elements of each 4096 that travel
        feedback: what a lossy codec leaves out: added to the next exchange, averaged over exchanges, shrunk, or
            dropped; None: full, with sign under nesterov or momentum decay
        feedback_decay: feedback = decay keeps this share; None: 0.95, with sign under nesterov or momentum 0.8
        feedback_reset: feedback = ema begins anew after so many; 0: never
        quant_block: int8, int4 and int2: elements that share a scale
        total_steps: length of the run, from which schedules follow
        scale_block: elements that share a scale, and are left out together when one is not finite
        bf16: send exact means as bf16
        seed: key of the random numbers
        shadow_every: compare coded with exact means every so many steps; 0: never
        verify_every: prove that replicas are equal every so many steps; 0: never
        device: where passes over weights, gradients and state run: the same bits on all; emulated: kernels for GPUs
            on the CPU, for tests
        process_group: of the ranks that train together; None: all
        ranks_per_node: exact means inside nodes of so many ranks, coded ones between nodes; auto: of a machine;
            None: coded between all ranks
        bucket_mb: MiB of float32 values that are exchanged at once
        threads: threads of each rank; None: torch.get_num_threads()
        timeout: a timedelta; None: the process group's

    >>> import torch, laconic
    >>> weight = torch.nn.Parameter(torch.zeros(1000))
    >>> inner = torch.optim.AdamW([weight], lr=1e-2)
    >>> optimizer = laconic.LocalSteps(inner, every=5)
    >>> for _ in range(20):
    ...     optimizer.zero_grad()
    ...     (weight - 1).square().sum().backward()
    ...     optimizer.step()
    >>> optimizer.stats()["step"], bool(weight.mean() > 0)
    (20, True)
    """

    def __init__(
        self,
        inner: torch.optim.Optimizer,
        *,
        every: int | None = 10,
        fragments: int | None = 1,
        delay: int | Literal["interval", "eighth"] | None = 0,
        merge: float | Literal["none"] | None = 'none',
        outer: Literal["average", "nesterov", "momentum", "sign"] | None = 'average',
        outer_lr: float | None = None,
        outer_momentum: float = 0.9,
        outer_betas: tuple[float, float] = (0.95, 0.98),
        outer_weight_decay: float = 0.0,
        gap_penalty: float = 1.0,
        clip: float = 0.0,
        codec: Literal["fp32", "bf16", "int8", "int4", "int2", "sign", "top-k"] | None = 'fp32',
        codec_down: Literal["fp32", "bf16", "int8", "int4", "int2", "sign", "top-k"] | None = None,
        top_k: int = 128,
        feedback: Literal["full", "ema", "none", "decay"] | None = None,
        feedback_decay: float | None = None,
        feedback_reset: int = 1024,
        quant_block: int = 256,
        total_steps: int | None = None,
        scale_block: int = 4096,
        bf16: bool = False,
        seed: int = 0,
        shadow_every: int = 0,
        verify_every: int = 0,
        device: str = 'cpu',
        process_group: dist.ProcessGroup | None = None,
        ranks_per_node: int | str | None = None,
        bucket_mb: float = 25,
        threads: int | None = None,
        timeout: timedelta | None = None,
    ) -> None: ...

class DiLoCo(LocalSteps):
    """DiLoCo: AdamW on each rank for hundreds of steps, then an outer step with Nesterov momentum.

    Douillard et al., DiLoCo: Distributed Low-Communication Training of Language Models, 2023.

    Args:
        inner: the torch optimizer that moves this rank's weights, any; its groups may have compress=False (exact
            means)
        every: steps from one exchange to the next
        fragments: parts of the model that are exchanged at steps of their own
        delay: steps from the begin of an exchange to its use, in which training goes on; interval: until the next
            begins; eighth: of every
        merge: with a delay: the share of its own weights that a rank keeps; none: it keeps what it learnt meanwhile
        outer: how the mean displacement of the ranks moves the common weights
        outer_lr: learning rate of the outer rule; None: 1, with nesterov 0.7
        outer_momentum: nesterov and momentum: decay of the outer momentum
        outer_betas: sign: weight of the outer momentum in the direction; sign: decay of the outer momentum
        outer_weight_decay: sign: weight decay of the outer rule
        gap_penalty: divides the mean displacement; 1: off
        clip: bound of the outer momentum, element by element; 0: none
        codec: how the mean displacement travels: all but fp32 and bf16 are lossy
        codec_down: how the mean of a lossy codec travels back; None: int8 beside top-k, else as the codec
        top_k: top-k: elements of each 4096 that travel
        feedback: what a lossy codec leaves out: added to the next exchange, averaged over exchanges, shrunk, or
            dropped; None: full, with sign under nesterov or momentum decay
        feedback_decay: feedback = decay keeps this share; None: 0.95, with sign under nesterov or momentum 0.8
        feedback_reset: feedback = ema begins anew after so many; 0: never
        quant_block: int8, int4 and int2: elements that share a scale
        total_steps: length of the run, from which schedules follow
        scale_block: elements that share a scale, and are left out together when one is not finite
        bf16: send exact means as bf16
        seed: key of the random numbers
        shadow_every: compare coded with exact means every so many steps; 0: never
        verify_every: prove that replicas are equal every so many steps; 0: never
        device: where passes over weights, gradients and state run: the same bits on all; emulated: kernels for GPUs
            on the CPU, for tests
        process_group: of the ranks that train together; None: all
        ranks_per_node: exact means inside nodes of so many ranks, coded ones between nodes; auto: of a machine;
            None: coded between all ranks
        bucket_mb: MiB of float32 values that are exchanged at once
        threads: threads of each rank; None: torch.get_num_threads()
        timeout: a timedelta; None: the process group's

    >>> import torch, laconic
    >>> weight = torch.nn.Parameter(torch.zeros(1000))
    >>> inner = torch.optim.AdamW([weight], lr=1e-2)
    >>> optimizer = laconic.DiLoCo(inner, every=5)
    >>> for _ in range(20):
    ...     optimizer.zero_grad()
    ...     (weight - 1).square().sum().backward()
    ...     optimizer.step()
    >>> optimizer.stats()["step"], bool(weight.mean() > 0)
    (20, True)
    """

    def __init__(
        self,
        inner: torch.optim.Optimizer,
        *,
        every: int | None = 500,
        fragments: int | None = 1,
        delay: int | Literal["interval", "eighth"] | None = 0,
        merge: float | Literal["none"] | None = 'none',
        outer: Literal["average", "nesterov", "momentum", "sign"] | None = 'nesterov',
        outer_lr: float | None = None,
        outer_momentum: float = 0.9,
        outer_betas: tuple[float, float] = (0.95, 0.98),
        outer_weight_decay: float = 0.0,
        gap_penalty: float = 1.0,
        clip: float = 0.0,
        codec: Literal["fp32", "bf16", "int8", "int4", "int2", "sign", "top-k"] | None = 'fp32',
        codec_down: Literal["fp32", "bf16", "int8", "int4", "int2", "sign", "top-k"] | None = None,
        top_k: int = 128,
        feedback: Literal["full", "ema", "none", "decay"] | None = None,
        feedback_decay: float | None = None,
        feedback_reset: int = 1024,
        quant_block: int = 256,
        total_steps: int | None = None,
        scale_block: int = 4096,
        bf16: bool = False,
        seed: int = 0,
        shadow_every: int = 0,
        verify_every: int = 0,
        device: str = 'cpu',
        process_group: dist.ProcessGroup | None = None,
        ranks_per_node: int | str | None = None,
        bucket_mb: float = 25,
        threads: int | None = None,
        timeout: timedelta | None = None,
    ) -> None: ...

class StreamingDiLoCo(LocalSteps):
    """Streaming DiLoCo: DiLoCo in fragments of four bits per parameter that are exchanged while training goes on.

    Douillard et al., Streaming DiLoCo with overlapping communication, 2025.

    Args:
        inner: the torch optimizer that moves this rank's weights, any; its groups may have compress=False (exact
            means)
        every: steps from one exchange to the next
        fragments: parts of the model that are exchanged at steps of their own
        delay: steps from the begin of an exchange to its use, in which training goes on; interval: until the next
            begins; eighth: of every
        merge: with a delay: the share of its own weights that a rank keeps; none: it keeps what it learnt meanwhile
        outer: how the mean displacement of the ranks moves the common weights
        outer_lr: learning rate of the outer rule; None: 1, with nesterov 0.7
        outer_momentum: nesterov and momentum: decay of the outer momentum
        outer_betas: sign: weight of the outer momentum in the direction; sign: decay of the outer momentum
        outer_weight_decay: sign: weight decay of the outer rule
        gap_penalty: divides the mean displacement; 1: off
        clip: bound of the outer momentum, element by element; 0: none
        codec: how the mean displacement travels: all but fp32 and bf16 are lossy
        codec_down: how the mean of a lossy codec travels back; None: int8 beside top-k, else as the codec
        top_k: top-k: elements of each 4096 that travel
        feedback: what a lossy codec leaves out: added to the next exchange, averaged over exchanges, shrunk, or
            dropped; None: full, with sign under nesterov or momentum decay
        feedback_decay: feedback = decay keeps this share; None: 0.95, with sign under nesterov or momentum 0.8
        feedback_reset: feedback = ema begins anew after so many; 0: never
        quant_block: int8, int4 and int2: elements that share a scale
        total_steps: length of the run, from which schedules follow
        scale_block: elements that share a scale, and are left out together when one is not finite
        bf16: send exact means as bf16
        seed: key of the random numbers
        shadow_every: compare coded with exact means every so many steps; 0: never
        verify_every: prove that replicas are equal every so many steps; 0: never
        device: where passes over weights, gradients and state run: the same bits on all; emulated: kernels for GPUs
            on the CPU, for tests
        process_group: of the ranks that train together; None: all
        ranks_per_node: exact means inside nodes of so many ranks, coded ones between nodes; auto: of a machine;
            None: coded between all ranks
        bucket_mb: MiB of float32 values that are exchanged at once
        threads: threads of each rank; None: torch.get_num_threads()
        timeout: a timedelta; None: the process group's

    >>> import torch, laconic
    >>> weight = torch.nn.Parameter(torch.zeros(1000))
    >>> inner = torch.optim.AdamW([weight], lr=1e-2)
    >>> optimizer = laconic.StreamingDiLoCo(inner, every=5)
    >>> for _ in range(20):
    ...     optimizer.zero_grad()
    ...     (weight - 1).square().sum().backward()
    ...     optimizer.step()
    >>> optimizer.stats()["step"], bool(weight.mean() > 0)
    (20, True)
    """

    def __init__(
        self,
        inner: torch.optim.Optimizer,
        *,
        every: int | None = 100,
        fragments: int | None = 4,
        delay: int | Literal["interval", "eighth"] | None = 'eighth',
        merge: float | Literal["none"] | None = 0.5,
        outer: Literal["average", "nesterov", "momentum", "sign"] | None = 'nesterov',
        outer_lr: float | None = None,
        outer_momentum: float = 0.9,
        outer_betas: tuple[float, float] = (0.95, 0.98),
        outer_weight_decay: float = 0.0,
        gap_penalty: float = 1.0,
        clip: float = 0.0,
        codec: Literal["fp32", "bf16", "int8", "int4", "int2", "sign", "top-k"] | None = 'int4',
        codec_down: Literal["fp32", "bf16", "int8", "int4", "int2", "sign", "top-k"] | None = None,
        top_k: int = 128,
        feedback: Literal["full", "ema", "none", "decay"] | None = None,
        feedback_decay: float | None = None,
        feedback_reset: int = 1024,
        quant_block: int = 256,
        total_steps: int | None = None,
        scale_block: int = 4096,
        bf16: bool = False,
        seed: int = 0,
        shadow_every: int = 0,
        verify_every: int = 0,
        device: str = 'cpu',
        process_group: dist.ProcessGroup | None = None,
        ranks_per_node: int | str | None = None,
        bucket_mb: float = 25,
        threads: int | None = None,
        timeout: timedelta | None = None,
    ) -> None: ...

class DSM(LocalSteps):
    """Distributed sign momentum: AdamW on each rank, then an outer step of one size by the sign of a momentum.

    Yu et al., Distributed Sign Momentum with Local Steps for Training Transformers, 2024.

    Args:
        inner: the torch optimizer that moves this rank's weights, any; its groups may have compress=False (exact
            means)
        every: steps from one exchange to the next
        fragments: parts of the model that are exchanged at steps of their own
        delay: steps from the begin of an exchange to its use, in which training goes on; interval: until the next
            begins; eighth: of every
        merge: with a delay: the share of its own weights that a rank keeps; none: it keeps what it learnt meanwhile
        outer: how the mean displacement of the ranks moves the common weights
        outer_lr: learning rate of the outer rule; None: 1, with nesterov 0.7
        outer_momentum: nesterov and momentum: decay of the outer momentum
        outer_betas: sign: weight of the outer momentum in the direction; sign: decay of the outer momentum
        outer_weight_decay: sign: weight decay of the outer rule
        gap_penalty: divides the mean displacement; 1: off
        clip: bound of the outer momentum, element by element; 0: none
        codec: how the mean displacement travels: all but fp32 and bf16 are lossy
        codec_down: how the mean of a lossy codec travels back; None: int8 beside top-k, else as the codec
        top_k: top-k: elements of each 4096 that travel
        feedback: what a lossy codec leaves out: added to the next exchange, averaged over exchanges, shrunk, or
            dropped; None: full, with sign under nesterov or momentum decay
        feedback_decay: feedback = decay keeps this share; None: 0.95, with sign under nesterov or momentum 0.8
        feedback_reset: feedback = ema begins anew after so many; 0: never
        quant_block: int8, int4 and int2: elements that share a scale
        total_steps: length of the run, from which schedules follow
        scale_block: elements that share a scale, and are left out together when one is not finite
        bf16: send exact means as bf16
        seed: key of the random numbers
        shadow_every: compare coded with exact means every so many steps; 0: never
        verify_every: prove that replicas are equal every so many steps; 0: never
        device: where passes over weights, gradients and state run: the same bits on all; emulated: kernels for GPUs
            on the CPU, for tests
        process_group: of the ranks that train together; None: all
        ranks_per_node: exact means inside nodes of so many ranks, coded ones between nodes; auto: of a machine;
            None: coded between all ranks
        bucket_mb: MiB of float32 values that are exchanged at once
        threads: threads of each rank; None: torch.get_num_threads()
        timeout: a timedelta; None: the process group's

    >>> import torch, laconic
    >>> weight = torch.nn.Parameter(torch.zeros(1000))
    >>> inner = torch.optim.AdamW([weight], lr=1e-2)
    >>> optimizer = laconic.DSM(inner, every=5)
    >>> for _ in range(20):
    ...     optimizer.zero_grad()
    ...     (weight - 1).square().sum().backward()
    ...     optimizer.step()
    >>> optimizer.stats()["step"], bool(weight.mean() > 0)
    (20, True)
    """

    def __init__(
        self,
        inner: torch.optim.Optimizer,
        *,
        every: int | None = 12,
        fragments: int | None = 1,
        delay: int | Literal["interval", "eighth"] | None = 0,
        merge: float | Literal["none"] | None = 'none',
        outer: Literal["average", "nesterov", "momentum", "sign"] | None = 'sign',
        outer_lr: float | None = None,
        outer_momentum: float = 0.9,
        outer_betas: tuple[float, float] = (0.95, 0.98),
        outer_weight_decay: float = 0.0,
        gap_penalty: float = 1.0,
        clip: float = 0.0,
        codec: Literal["fp32", "bf16", "int8", "int4", "int2", "sign", "top-k"] | None = 'fp32',
        codec_down: Literal["fp32", "bf16", "int8", "int4", "int2", "sign", "top-k"] | None = None,
        top_k: int = 128,
        feedback: Literal["full", "ema", "none", "decay"] | None = None,
        feedback_decay: float | None = None,
        feedback_reset: int = 1024,
        quant_block: int = 256,
        total_steps: int | None = None,
        scale_block: int = 4096,
        bf16: bool = False,
        seed: int = 0,
        shadow_every: int = 0,
        verify_every: int = 0,
        device: str = 'cpu',
        process_group: dist.ProcessGroup | None = None,
        ranks_per_node: int | str | None = None,
        bucket_mb: float = 25,
        threads: int | None = None,
        timeout: timedelta | None = None,
    ) -> None: ...

class CO2(LocalSteps):
    """CO2: local steps whose exchange is applied a whole interval later, with outer momentum.

    Sun et al., CO2: Efficient Distributed Training with Full Communication-Computation Overlap, ICLR 2024.

    Args:
        inner: the torch optimizer that moves this rank's weights, any; its groups may have compress=False (exact
            means)
        every: steps from one exchange to the next
        fragments: parts of the model that are exchanged at steps of their own
        delay: steps from the begin of an exchange to its use, in which training goes on; interval: until the next
            begins; eighth: of every
        merge: with a delay: the share of its own weights that a rank keeps; none: it keeps what it learnt meanwhile
        outer: how the mean displacement of the ranks moves the common weights
        outer_lr: learning rate of the outer rule; None: 1, with nesterov 0.7
        outer_momentum: nesterov and momentum: decay of the outer momentum
        outer_betas: sign: weight of the outer momentum in the direction; sign: decay of the outer momentum
        outer_weight_decay: sign: weight decay of the outer rule
        gap_penalty: divides the mean displacement; 1: off
        clip: bound of the outer momentum, element by element; 0: none
        codec: how the mean displacement travels: all but fp32 and bf16 are lossy
        codec_down: how the mean of a lossy codec travels back; None: int8 beside top-k, else as the codec
        top_k: top-k: elements of each 4096 that travel
        feedback: what a lossy codec leaves out: added to the next exchange, averaged over exchanges, shrunk, or
            dropped; None: full, with sign under nesterov or momentum decay
        feedback_decay: feedback = decay keeps this share; None: 0.95, with sign under nesterov or momentum 0.8
        feedback_reset: feedback = ema begins anew after so many; 0: never
        quant_block: int8, int4 and int2: elements that share a scale
        total_steps: length of the run, from which schedules follow
        scale_block: elements that share a scale, and are left out together when one is not finite
        bf16: send exact means as bf16
        seed: key of the random numbers
        shadow_every: compare coded with exact means every so many steps; 0: never
        verify_every: prove that replicas are equal every so many steps; 0: never
        device: where passes over weights, gradients and state run: the same bits on all; emulated: kernels for GPUs
            on the CPU, for tests
        process_group: of the ranks that train together; None: all
        ranks_per_node: exact means inside nodes of so many ranks, coded ones between nodes; auto: of a machine;
            None: coded between all ranks
        bucket_mb: MiB of float32 values that are exchanged at once
        threads: threads of each rank; None: torch.get_num_threads()
        timeout: a timedelta; None: the process group's

    >>> import torch, laconic
    >>> weight = torch.nn.Parameter(torch.zeros(1000))
    >>> inner = torch.optim.AdamW([weight], lr=1e-2)
    >>> optimizer = laconic.CO2(inner, every=5)
    >>> for _ in range(20):
    ...     optimizer.zero_grad()
    ...     (weight - 1).square().sum().backward()
    ...     optimizer.step()
    >>> optimizer.stats()["step"], bool(weight.mean() > 0)
    (20, True)
    """

    def __init__(
        self,
        inner: torch.optim.Optimizer,
        *,
        every: int | None = 12,
        fragments: int | None = 1,
        delay: int | Literal["interval", "eighth"] | None = 'interval',
        merge: float | Literal["none"] | None = 'none',
        outer: Literal["average", "nesterov", "momentum", "sign"] | None = 'momentum',
        outer_lr: float | None = None,
        outer_momentum: float = 0.9,
        outer_betas: tuple[float, float] = (0.95, 0.98),
        outer_weight_decay: float = 0.0,
        gap_penalty: float = 1.0,
        clip: float = 0.0,
        codec: Literal["fp32", "bf16", "int8", "int4", "int2", "sign", "top-k"] | None = 'fp32',
        codec_down: Literal["fp32", "bf16", "int8", "int4", "int2", "sign", "top-k"] | None = None,
        top_k: int = 128,
        feedback: Literal["full", "ema", "none", "decay"] | None = None,
        feedback_decay: float | None = None,
        feedback_reset: int = 1024,
        quant_block: int = 256,
        total_steps: int | None = None,
        scale_block: int = 4096,
        bf16: bool = False,
        seed: int = 0,
        shadow_every: int = 0,
        verify_every: int = 0,
        device: str = 'cpu',
        process_group: dist.ProcessGroup | None = None,
        ranks_per_node: int | str | None = None,
        bucket_mb: float = 25,
        threads: int | None = None,
        timeout: timedelta | None = None,
    ) -> None: ...

class SparseLoCo(LocalSteps):
    """SparseLoCo: AdamW on each rank, then the mean of the largest displacements; what is left out decays and takes the place of an outer momentum.

    Sarfi et al., Communication Efficient LLM Pre-training with SparseLoCo, 2025.

    Args:
        inner: the torch optimizer that moves this rank's weights, any; its groups may have compress=False (exact
            means)
        every: steps from one exchange to the next
        fragments: parts of the model that are exchanged at steps of their own
        delay: steps from the begin of an exchange to its use, in which training goes on; interval: until the next
            begins; eighth: of every
        merge: with a delay: the share of its own weights that a rank keeps; none: it keeps what it learnt meanwhile
        outer: how the mean displacement of the ranks moves the common weights
        outer_lr: learning rate of the outer rule; None: 1, with nesterov 0.7
        outer_momentum: nesterov and momentum: decay of the outer momentum
        outer_betas: sign: weight of the outer momentum in the direction; sign: decay of the outer momentum
        outer_weight_decay: sign: weight decay of the outer rule
        gap_penalty: divides the mean displacement; 1: off
        clip: bound of the outer momentum, element by element; 0: none
        codec: how the mean displacement travels: all but fp32 and bf16 are lossy
        codec_down: how the mean of a lossy codec travels back; None: int8 beside top-k, else as the codec
        top_k: top-k: elements of each 4096 that travel
        feedback: what a lossy codec leaves out: added to the next exchange, averaged over exchanges, shrunk, or
            dropped; None: full, with sign under nesterov or momentum decay
        feedback_decay: feedback = decay keeps this share; None: 0.95, with sign under nesterov or momentum 0.8
        feedback_reset: feedback = ema begins anew after so many; 0: never
        quant_block: int8, int4 and int2: elements that share a scale
        total_steps: length of the run, from which schedules follow
        scale_block: elements that share a scale, and are left out together when one is not finite
        bf16: send exact means as bf16
        seed: key of the random numbers
        shadow_every: compare coded with exact means every so many steps; 0: never
        verify_every: prove that replicas are equal every so many steps; 0: never
        device: where passes over weights, gradients and state run: the same bits on all; emulated: kernels for GPUs
            on the CPU, for tests
        process_group: of the ranks that train together; None: all
        ranks_per_node: exact means inside nodes of so many ranks, coded ones between nodes; auto: of a machine;
            None: coded between all ranks
        bucket_mb: MiB of float32 values that are exchanged at once
        threads: threads of each rank; None: torch.get_num_threads()
        timeout: a timedelta; None: the process group's

    >>> import torch, laconic
    >>> weight = torch.nn.Parameter(torch.zeros(1000))
    >>> inner = torch.optim.AdamW([weight], lr=1e-2)
    >>> optimizer = laconic.SparseLoCo(inner, every=5)
    >>> for _ in range(20):
    ...     optimizer.zero_grad()
    ...     (weight - 1).square().sum().backward()
    ...     optimizer.step()
    >>> optimizer.stats()["step"], bool(weight.mean() > 0)
    (20, True)
    """

    def __init__(
        self,
        inner: torch.optim.Optimizer,
        *,
        every: int | None = 30,
        fragments: int | None = 1,
        delay: int | Literal["interval", "eighth"] | None = 0,
        merge: float | Literal["none"] | None = 'none',
        outer: Literal["average", "nesterov", "momentum", "sign"] | None = 'average',
        outer_lr: float | None = None,
        outer_momentum: float = 0.9,
        outer_betas: tuple[float, float] = (0.95, 0.98),
        outer_weight_decay: float = 0.0,
        gap_penalty: float = 1.0,
        clip: float = 0.0,
        codec: Literal["fp32", "bf16", "int8", "int4", "int2", "sign", "top-k"] | None = 'top-k',
        codec_down: Literal["fp32", "bf16", "int8", "int4", "int2", "sign", "top-k"] | None = None,
        top_k: int = 128,
        feedback: Literal["full", "ema", "none", "decay"] | None = 'decay',
        feedback_decay: float | None = None,
        feedback_reset: int = 1024,
        quant_block: int = 256,
        total_steps: int | None = None,
        scale_block: int = 4096,
        bf16: bool = False,
        seed: int = 0,
        shadow_every: int = 0,
        verify_every: int = 0,
        device: str = 'cpu',
        process_group: dist.ProcessGroup | None = None,
        ranks_per_node: int | str | None = None,
        bucket_mb: float = 25,
        threads: int | None = None,
        timeout: timedelta | None = None,
    ) -> None: ...
