#!/usr/bin/env python3
"""Stands for the commands that pages name, so that docs_test.py can run every block as it is written, on one machine and in seconds.

The test links this file under the names below into a folder that comes first in PATH. What each name does differently:

    laconic    the real one; runs are cut to a few steps and small batches, measurements to short vectors
    torchrun   torch's, with node1 and node2 as this host, one rank each, and a free port
    mpirun     the real one, with two ranks on this host
    python     that of the test
    srun       one process for each of the nodes that the #SBATCH lines ask for, with SLURM's variables
    scontrol   prints this host
    run, pip, cmake, ctest    check that what they are asked for exists, and build nothing
"""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
FEW, MORE = "6", "9"  # steps of a new run, and of one that is resumed
TOOLS = ("laconic", "torchrun", "mpirun", "python", "srun", "scontrol", "run", "pip", "cmake", "ctest")


def replaced(words, option, value):
    """The words with another value of an option, where they have it."""
    return [value if i and words[i - 1] == option else word for i, word in enumerate(words)]


def given(words, option):
    return next((words[i + 1] for i, word in enumerate(words[:-1]) if word == option), None)


def short_run(words):
    """Arguments of `laconic train` or `compare` with few steps."""
    if "--keys" in words or "--help" in words:
        return words
    resumed = "--resume" in words and "--task" not in words
    if resumed:
        return replaced(words, "--steps", str(int(MORE) + 3 * words.count("--elastic")))
    words = replaced(replaced(replaced(words, "--steps", FEW), "--seconds", "1"), "--checkpoint-every", "3")
    words = replaced(words, "--emulate", "1gbit") if "compare" in words else words
    extra = ["--batch", "1", "--threads", "1", "--set", "run.validation_examples=4", "--set", "run.validate_every=1000"]
    if not {"--steps", "--seconds", "--config"} & set(words):
        extra += ["--steps", FEW]
    if not {"--data", "--config"} & set(words):
        extra += ["--data", "generated"]
    return words + extra


def short_measurement(words):
    words = replaced(replaced(words, "--elements", "65536"), "--repeats", "2")
    extra = [] if "--elements" in words or "loop" in words else ["--elements", "65536"]
    return words + extra + ([] if "--repeats" in words else ["--repeats", "2"])


def laconic(words):
    if words[:1] in (["train"], ["compare"]):
        words = short_run(words)
    elif words[:1] == ["bench"] and "--help" not in words:
        words = short_measurement(words)
    return [os.environ["DOCS_LACONIC"], *words]


def python(words):
    if words[:2] == ["-m", "laconic.bench"]:
        words = short_measurement(words)
    return [sys.executable, *words]


def torchrun(words):
    words = replaced(replaced(words, "--master-addr", HOST), "--master-port", os.environ["MASTER_PORT"])
    alone = [] if "--nnodes" in words else ["--standalone"]
    words = words if alone else replaced(words, "--nproc-per-node", "1")
    if "laconic.bench" in words:
        words = short_measurement(words)
    return [sys.executable, "-m", "torch.distributed.run", *alone, *words]


def mpirun(words):
    words = [word for i, word in enumerate(words) if word != "--host" and (i == 0 or words[i - 1] != "--host")]
    words = [word.replace("=node1", f"={HOST}") for word in words]
    words = replaced(words, "-n", "2")
    return [os.environ["DOCS_MPIRUN"], "-x", "PATH", "-x", "MASTER_PORT", *words]


def srun(words):
    nodes, per_node = int(os.environ["SLURM_NNODES"]), 1
    tasks = []
    for rank in range(nodes * per_node):
        node, local = divmod(rank, per_node)
        own = {"SLURM_PROCID": rank, "SLURM_NTASKS": nodes * per_node, "SLURM_LOCALID": local, "SLURM_NODEID": node}
        tasks.append(subprocess.Popen(words, env=os.environ | {name: str(value) for name, value in own.items()}))
    sys.exit(max(task.wait() for task in tasks))


def run(words):
    known = re.findall(r"^\./run (\w+(?: quick| soak)?)", subprocess.run([ROOT / "run", "help"], capture_output=True, text=True, check=True).stdout, re.M)
    text = " ".join(words)
    if not any(text == name or text.startswith(name + " ") for name in known):
        sys.exit(f"./run help knows no {text!r}: it has {', '.join(known)}")
    if words[:1] == ["wheel"]:
        Path("dist").mkdir(exist_ok=True)
        Path("dist/laconic-0.1.0-cp312-abi3-linux_x86_64.whl").touch()


def pip(words):
    if words[:1] != ["install"]:
        sys.exit(f"pip {' '.join(words)}: pages only install")
    for word in words[1:]:
        if "/" in word and not Path(word).exists():
            sys.exit(f"pip install: there is no {word}")


def presets(words):
    known = {one["name"] for part in ("configurePresets", "buildPresets", "testPresets") for one in json.loads((ROOT / "CMakePresets.json").read_text())[part]}
    if given(words, "--preset") not in {None, *known}:
        sys.exit(f"CMakePresets.json has no preset {given(words, '--preset')}")


def main():
    name, words = Path(sys.argv[0]).name, sys.argv[1:]
    if name == "scontrol":
        return print(HOST)
    if name in ("cmake", "ctest"):
        return presets(words)
    command = globals()[name](words)
    if command:
        os.execvp(command[0], command)


if __name__ == "__main__":
    main()
