"""Classes of the package are those of the registry; nothing of a method is written again in Python."""
import inspect
import json
import os
import subprocess
import sys

import pytest
import torch
from stub import STUB, stub
from torch import nn

import laconic
from laconic import _core, optimizers

METHODS = {method["python"]: method for method in laconic.methods() if method["python"]}  # others are of the command
AROUND = {name for name in METHODS if issubclass(getattr(laconic, name), laconic.LocalSteps)}  # a torch optimizer


def test_methods_are_those_of_the_command():
    command = os.environ.get("LACONIC_COMMAND")
    if not command or not os.path.exists(command):
        pytest.skip("LACONIC_COMMAND names no laconic")
    done = subprocess.run([command, "methods", "--json"], check=True, capture_output=True, text=True)
    assert laconic.methods() == json.loads(done.stdout)


def test_the_stub_is_what_the_registry_gives():
    assert STUB.read_text() == stub(), "run tests/python/stub.py"


@pytest.fixture(scope="module")
def mypy(tmp_path_factory):
    """Runs mypy, with what it has read of the packages before; returns what it printed."""
    pytest.importorskip("mypy")
    folder = tmp_path_factory.mktemp("mypy")
    skipped = "".join(f"[mypy-{name}.*]\nfollow_imports = skip\n" for name in ("lightning", "torch", "transformers"))
    (folder / "mypy.ini").write_text(f"[mypy]\nfollow_imports = silent\n{skipped}")

    def run(*arguments):
        command = [sys.executable, "-m", "mypy", "--config-file", folder / "mypy.ini", "--cache-dir", folder, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        return done.stdout + done.stderr

    return run


def test_the_types_of_the_package_fit(mypy):
    assert mypy("-p", "laconic").startswith("Success"), mypy("-p", "laconic")


def test_type_checkers_find_what_is_wrong_and_nothing_else(mypy, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import laconic, torch\n"
        "weights = [torch.nn.Parameter(torch.zeros(3))]\n"
        'laconic.ZeroOneAdam(weights, 1e-3, total_steps=100, double_every="auto", var_freeze_step=3).step()\n'
        "laconic.OneBitAdam(weights, variance_kapa=3)\n"
        'laconic.Birder(weights, lr=1e-2, exchange="three-round")\n'
        'state: laconic.CodecState = laconic.OneBitState()\n'
        "laconic.CodecState(codec=4)\n"
        "inner = torch.optim.SGD(weights)\n"
        'laconic.LocalSteps(inner, every=4, outer="nesterov", outer_betas=(0.5, 0.9), delay="interval", feedback=None).synchronize()\n'
        'laconic.DiLoCo(inner, outer="adam")\n'
        "laconic.DiLoCo(inner, lr=0.1)\n"
    )
    found = mypy(program)
    assert [int(line.split(":")[1]) for line in found.splitlines() if ": error:" in line] == [4, 5, 7, 10, 11], found


def test_arguments_by_position_are_torchs():
    for cls, names in {
        laconic.AdamW: ["params", "lr", "betas", "eps", "weight_decay"],
        laconic.OneBitAdam: ["params", "lr", "betas", "eps", "weight_decay"],
        laconic.SGD: ["params", "lr", "momentum", "weight_decay"],
        laconic.Birder: ["params", "lr", "beta", "weight_decay"],
    }.items():
        parameters = inspect.signature(cls).parameters.values()
        assert [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD] == names
    default = {p.name: p.default for p in inspect.signature(laconic.AdamW).parameters.values()}
    assert (default["lr"], default["betas"], default["eps"], default["weight_decay"]) == (1e-3, (0.9, 0.999), 1e-8, 1e-2)
    assert inspect.signature(laconic.SGD).parameters["momentum"].default == 0
    with pytest.raises(TypeError, match="lr"):
        laconic.Birder([nn.Parameter(torch.zeros(3))])


@pytest.mark.parametrize("python", METHODS)
def test_every_option_is_documented_and_reaches_the_core(python):
    cls, method = getattr(laconic, python), METHODS[python]
    assert method["summary"] in cls.__doc__ and method["paper"] in cls.__doc__
    names = inspect.signature(cls).parameters
    assert all(f"{name}: " in cls.__doc__ for name in names)
    if python in AROUND:
        return
    assert all(alias in cls.__doc__ for alias in method["aliases"])
    others = {"number": lambda text: float(text) + 0.03125, "boolean": lambda text: text != "true"}
    others |= {"integer": lambda text: 64 + (int(text) if text.isdigit() else 0)}
    for option in method["options"]:
        if option["name"] not in names or option["name"] in ("device", "ranks_per_node", "strict", "threads"):
            continue
        last = next((word for word in reversed(option["words"]) if word != "sign"), "")  # it is refused, with the reason
        value = last if option["type"] == "choice" else others[option["type"]](option["default"])
        if option["name"] in ("beta", "momentum"):
            value = 0.5
        given = {"lr": 0.1, "total_steps": 1000, option["name"]: value}
        config = cls([nn.Parameter(torch.zeros(3))], **given)._core.config()
        assert config[option["name"]] in (str(value), repr(value), str(value).lower()), option["name"]


@pytest.mark.parametrize("python", sorted(AROUND))
def test_every_option_of_local_steps_reaches_the_core(python):
    cls, method = getattr(laconic, python), METHODS[python]
    names = inspect.signature(cls).parameters
    given = dict(every=20, outer="momentum", outer_lr=0.25, outer_momentum=0.5, outer_weight_decay=0.125, gap_penalty=1.5, clip=2.0)
    given |= dict(codec="int2", codec_down="int8", feedback="decay", feedback_decay=0.5, feedback_reset=7, quant_block=64, top_k=32)
    given |= dict(fragments=2, delay=3, merge=0.25, total_steps=90, scale_block=128, bf16=True, seed=3, shadow_every=0, verify_every=5)
    config = cls(torch.optim.SGD([nn.Parameter(torch.zeros(300))]), outer_betas=(0.5, 0.75), **given)._core.config()
    for name, value in given.items():
        assert config[name] == str(value).lower() or isinstance(value, float) and float(config[name]) == value, name
    assert (config["outer_beta1"], config["outer_beta2"], config["inner"]) == ("0.5", "0.75", "none")
    others = {"inner", "outer_betas", "device", "process_group", "ranks_per_node", "bucket_mb", "threads", "timeout"}
    assert set(names) == {*given, *others}
    defaults = {option["name"]: option["default"] for option in method["options"]}
    for name in set(given) - {"total_steps"}:  # what the signature shows is what the registry has
        shown = names[name].default
        assert str("default" if shown is None else shown).lower() in (defaults[name], f"{defaults[name]}.0"), name


def test_deepspeeds_names_are_aliases():
    weight = nn.Parameter(torch.zeros(3))
    names = {"var_freeze_step": 11, "var_update_scaler": 7, "local_step_scaler": 13, "local_step_clipper": 4}
    config = laconic.ZeroOneAdam([weight], **names)._core.config()
    found = [config[name] for name in ("variance_freeze_step", "variance_kappa", "double_every", "max_interval")]
    assert found == ["11", "7", "13", "4"]
    with pytest.raises(TypeError, match="var_freeze_step"):
        laconic.AdamW([weight], var_freeze_step=11)


def test_a_method_that_python_has_never_heard_of_gets_its_class():
    """Its own options as keywords, torch's spelling, defaults of its own."""
    adamw = next(method for method in _core.methods() if method["name"] == "adamw")
    method = adamw | {"python": "Fresh", "title": "Fresh", "python_defaults": {"beta2": "0.5", "lr": "0.25"}}
    own = {"name": "warmth", "type": "integer", "default": "unset", "words": ["unset", "auto"], "help": "degrees"}
    text = {"name": "label", "type": "text", "default": "none", "words": [], "help": "printed"}
    method["options"] = [own, text, *adamw["options"]]
    cls = optimizers._class_of(method)
    parameters = inspect.signature(cls).parameters
    assert parameters["lr"].default == 0.25 and parameters["betas"].default == (0.9, 0.5)
    assert (parameters["warmth"].default, parameters["warmth"].annotation) == (None, 'int | Literal["auto"] | None')
    assert (parameters["label"].default, parameters["label"].annotation) == ("none", "str")
    assert "warmth: degrees" in cls.__doc__
    with pytest.raises(laconic.InvalidArgument, match='no option "label"'):  # the core has not heard of it
        cls([nn.Parameter(torch.zeros(3))], warmth=3)
