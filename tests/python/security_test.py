"""Checkpoints and states are data: nothing in them is executed."""

import ast
import pathlib
import pickle

import laconic
import pytest
import torch

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "python" / "laconic"
MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}


def nodes():
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            yield f"{path.name}:{getattr(node, 'lineno', 0)}", node


def imported(node):
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def test_the_package_imports_nothing_that_executes_data():
    found = [f"{place} {name}" for place, node in nodes() for name in imported(node) if name.split(".")[0] in MODULES]
    assert not found


def test_the_package_calls_nothing_that_executes_text():
    calls = [(place, ast.unparse(node.func)) for place, node in nodes() if isinstance(node, ast.Call)]
    assert len(calls) > 100
    assert not [call for call in calls if call[1] in ("eval", "exec", "compile", "__import__")]


def test_torch_load_takes_only_weights():
    loads = [(place, node) for place, node in nodes() if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load"]
    assert loads
    for place, node in loads:
        assert any(word.arg == "weights_only" and ast.unparse(word.value) == "True" for word in node.keywords), place


def trained(steps=3):
    weight = torch.nn.Parameter(torch.ones(100))
    optimizer = laconic.ZeroOneAdam([weight], lr=0.1, variance_freeze_step=2, double_every=2)
    for step in range(steps):
        weight.grad = torch.full((100,), 1.0 + step)
        optimizer.step()
    return weight, optimizer


@pytest.fixture
def no_pickle(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("something was unpickled")

    trained()  # torch subclasses Unpickler in modules that it imports late
    monkeypatch.setattr(pickle, "loads", refuse)
    monkeypatch.setattr(pickle, "load", refuse)
    monkeypatch.setattr(pickle, "Unpickler", refuse)
    monkeypatch.setattr(torch, "load", refuse)


def test_save_and_resume_need_no_pickle(no_pickle, tmp_path):
    weight, optimizer = trained()
    laconic.save(tmp_path / "checkpoint", optimizer, {"epoch": "3"})
    other_weight, other = trained(0)
    assert laconic.resume(tmp_path / "checkpoint", other) == {"epoch": "3"}
    assert torch.equal(weight.detach(), other_weight.detach())


def test_a_state_dict_loads_as_weights_only(tmp_path):
    weight, optimizer = trained()
    torch.save(optimizer.state_dict(), tmp_path / "state.pt")
    _, other = trained(0)
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for name, tensor in optimizer.state_dict()["state"].items():
        assert torch.equal(tensor, other.state_dict()["state"][name]), name
