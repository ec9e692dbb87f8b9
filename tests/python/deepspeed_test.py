"""DeepSpeed's configurations give the same optimizers, or an error that names the key."""
import json
import warnings

import pytest
import torch
from torch import nn

import laconic

# As in DeepSpeed's documentation.
ONE_BIT = {"lr": 0.001, "betas": [0.8, 0.999], "eps": 1e-6, "weight_decay": 3e-7, "freeze_step": 400, "cuda_aware": False, "comm_backend_name": "nccl"}
ZERO_ONE = {
    "lr": 1e-3, "weight_decay": 0.01, "bias_correction": False, "var_freeze_step": 1000, "var_update_scaler": 8,
    "local_step_scaler": 2000, "local_step_clipper": 4, "cuda_aware": False, "comm_backend_name": "nccl",
}  # fmt: skip

ONE_BIT_LAMB = {
    "lr": 11e-3, "max_coeff": 0.3, "min_coeff": 0.02, "freeze_step": 1000, "cuda_aware": False, "comm_backend_name": "nccl",
    "coeff_beta": 0.9, "factor_max": 4.0, "factor_min": 0.5, "factor_threshold": 0.1,
}  # fmt: skip


def weights():
    return [nn.Parameter(torch.zeros(10))]


def made(kind, params, top=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return laconic.from_deepspeed({"optimizer": {"type": kind, "params": params}, **(top or {})}, weights(), **options)


def test_every_key_of_one_bit_adam_arrives():
    optimizer = made("OneBitAdam", ONE_BIT, {"gradient_clipping": 0.5})
    config, group = optimizer._core.config(), optimizer.param_groups[0]
    assert isinstance(optimizer, laconic.OneBitAdam)
    assert (group["lr"], group["betas"], group["eps"], group["weight_decay"]) == (0.001, (0.8, 0.999), 1e-6, 3e-7)
    assert (config["freeze_step"], config["beta1"], config["max_grad_norm"]) == ("400", "0.8", "0.5")


def test_every_key_of_zero_one_adam_arrives_from_a_file(tmp_path):
    path = tmp_path / "ds_config.json"
    path.write_text(json.dumps({"optimizer": {"type": "ZeroOneAdam", "params": ZERO_ONE}}))
    with pytest.warns(UserWarning, match="comm_backend_name, cuda_aware: no meaning"):
        config = laconic.from_deepspeed(path, weights())._core.config()
    names = ("variance_freeze_step", "variance_kappa", "double_every", "max_interval", "bias_correction", "weight_decay")
    assert [config[name] for name in names] == ["1000", "8", "2000", "4", "false", "0.01"]


def test_every_key_of_one_bit_lamb_arrives_or_is_named():
    section = {"optimizer": {"type": "OneBitLamb", "params": ONE_BIT_LAMB}}
    with pytest.warns(UserWarning, match="coeff_beta, comm_backend_name, cuda_aware, factor_max, factor_min, factor_threshold: no meaning"):
        optimizer = laconic.from_deepspeed(section, weights())
    config = optimizer._core.config()
    assert isinstance(optimizer, laconic.OneBitLAMB) and optimizer.param_groups[0]["lr"] == 11e-3
    assert (config["freeze_step"], config["max_trust"], config["min_trust"]) == ("1000", "0.3", "0.02")
    config = made("OneBitLamb", {})._core.config()
    assert (config["freeze_step"], config["max_trust"], config["min_trust"]) == ("100000", "10", "0.01")


def test_lamb_takes_the_same_bounds():
    optimizer = made("Lamb", {"lr": 1e-3, "max_coeff": 0.3, "min_coeff": 0.01})
    assert isinstance(optimizer, laconic.LAMB) and optimizer._core.config()["max_trust"] == "0.3"


def test_defaults_are_deepspeeds_unless_the_length_of_the_run_is_given():
    config = made("ZeroOneAdam", {"lr": 1e-3})._core.config()
    assert (config["variance_freeze_step"], config["double_every"], config["max_interval"]) == ("100000", "32678", "16")
    assert made("OneBitAdam", {})._core.config()["freeze_step"] == "100000"
    assert made("OneBitAdam", {}, total_steps=1000)._core.config()["freeze_step"] == "200"
    config = made("ZeroOneAdam", {"var_freeze_step": 50}, double_every=7)._core.config()
    assert (config["variance_freeze_step"], config["double_every"]) == ("50", "7")


def test_options_come_before_the_configuration():
    optimizer = made("ZeroOneAdam", ZERO_ONE | {"lr": "auto"}, lr=0.25, max_interval=2)
    assert optimizer.param_groups[0]["lr"] == 0.25 and optimizer._core.config()["max_interval"] == "2"


@pytest.mark.parametrize("kind, params, top, message", [
    ("OneBitAdm", {}, {}, 'no optimizer "OneBitAdm", did you mean "OneBitAdam"'),
    ("ZeroOneAdam", {"var_freze_step": 3}, {}, 'no parameter "var_freze_step", did you mean "var_freeze_step"'),
    ("OneBitAdam", {"params": []}, {}, 'no parameter "params"'),
    ("OneBitAdam", {"lr": "auto"}, {}, "from_deepspeed\\(..., lr="),
    ("OneBitAdam", {"amsgrad": True}, {}, "amsgrad"),
    ("OneBitAdam", {"coeff_beta": 0.9}, {}, 'no parameter "coeff_beta"'),
    ("OneBitLamb", {"max_coef": 3}, {}, 'no parameter "max_coef", did you mean "max_coeff"'),
    ("Lamb", {"factor_max": 4.0}, {}, 'no parameter "factor_max"'),
    ("OneBitAdam", {"max_grad_norm": 1.0}, {"gradient_clipping": 2.0}, "gradient_clipping is 2.0 and max_grad_norm 1.0"),
])  # fmt: skip
def test_what_cannot_be_taken_over_is_an_error(kind, params, top, message):
    with pytest.raises(laconic.InvalidArgument, match=message):
        made(kind, params, top)


def test_a_type_without_a_class_names_those_that_there_are():
    with pytest.raises(laconic.InvalidArgument, match='no optimizer "CPUAdam": there are .*OneBitAdam'):
        made("CPUAdam", {"lr": 1e-3})
    with pytest.raises(laconic.InvalidArgument, match='no section "optimizer"'):
        laconic.from_deepspeed({"optimiser": {}}, weights())


def test_only_sections_that_ask_for_something_are_named():
    plain = {"optimizer": {"type": "OneBitAdam", "params": {"lr": 1e-3}}, "train_batch_size": 8, "gradient_accumulation_steps": 1}
    off = {"fp16": {"enabled": False}, "zero_optimization": {"stage": 0}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        laconic.from_deepspeed(plain | off, weights())
    on = {"fp16": {"enabled": True}, "zero_optimization": {"stage": 1}, "scheduler": {"type": "WarmupLR"}, "gradient_accumulation_steps": 4}
    with pytest.warns(UserWarning, match="scheduler: .*fp16: .*zero_optimization: .*gradient_accumulation_steps: "):
        laconic.from_deepspeed(plain | on, weights())
