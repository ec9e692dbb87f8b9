"""Ranks that die: the others are told which, and a job that was killed goes on as if nothing had been."""
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from launch import HERE, start, torchrun

ENDS = r"rank \d ends with [0-9a-f]{64}"
MORTAL = HERE / "mortal.py"


def ranks_of(count, *arguments, **environment):
    return start(count, MORTAL, *arguments, environment=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize("overlap", ["overlap", "plain"])
def test_a_rank_that_is_killed_is_named_by_all_others(overlap):
    ranks = ranks_of(3, "killed", overlap)
    outputs = [rank.communicate(timeout=120) for rank in ranks]
    assert ranks[2].returncode == -signal.SIGKILL
    for out, errors in outputs[:2]:
        assert re.search(r"RankMissing: rank 2 died, left or did not arrive", out), out + errors
        seconds = float(re.search(r"after ([\d.]+) s", out)[1])
        assert seconds < 20, "the timeout is 20 s"


def test_a_rank_that_does_not_come_is_named_when_the_time_is_over():
    ranks = ranks_of(2, "late", "plain")
    out, errors = ranks[0].communicate(timeout=120)
    ranks[1].communicate(timeout=120)
    assert re.search(r"RankMissing: rank 1 died, left or did not arrive within 3 s", out), out + errors


def test_a_rank_that_never_makes_its_optimizer_is_named():
    ranks = ranks_of(2, "absent")
    out, errors = ranks[0].communicate(timeout=120)
    ranks[1].communicate(timeout=120)
    assert re.search(r"RankMissing: rank 1 died, left or did not arrive within 3 s", out), out + errors


def test_a_rank_that_dies_between_exchanges_is_named_although_nothing_is_sent():
    ranks = ranks_of(3, "silent", "killed")
    outputs = [rank.communicate(timeout=120) for rank in ranks]
    assert ranks[2].returncode == -signal.SIGKILL
    for out, errors in outputs[:2]:
        assert re.search(r"RankMissing: between exchanges: rank 2 died, left or did not arrive within 3 s", out), out + errors
        assert float(re.search(r"after ([\d.]+) s", out)[1]) < 15


def test_a_rank_that_is_busy_between_exchanges_is_alive_and_all_end_in_peace():
    ranks = ranks_of(3, "silent", "late")
    outputs = [rank.communicate(timeout=120) for rank in ranks]
    for rank, (out, errors) in enumerate(outputs):
        assert f"rank {rank} took 100 steps" in out, out + errors
        assert ranks[rank].returncode == 0, out + errors


def test_a_job_that_torchrun_starts_again_does_not_look_for_the_dead():
    done = torchrun(2, MORTAL, "restarted", options=["--max-restarts=1"])
    assert len(set(re.findall(ENDS, done.stdout))) == 2, done.stdout + done.stderr


def test_a_killed_job_goes_on_bit_for_bit(tmp_path):
    done = torchrun(2, MORTAL, "resumed", tmp_path / "straight")
    expected = sorted(re.findall(ENDS, done.stdout))
    assert len(expected) == 2
    died = torchrun(2, MORTAL, "resumed", tmp_path / "killed", check=False, environment={"DIES_AT": "17"})
    assert died.returncode != 0 and "ends with" not in died.stdout
    again = torchrun(2, MORTAL, "resumed", tmp_path / "killed")
    assert "goes on after step 12" in again.stdout
    assert sorted(re.findall(ENDS, again.stdout)) == expected


def test_a_rank_that_leaves_without_closing_anything_ends_well():
    torchrun(2, MORTAL, "leaves")


def test_mpirun_tells_ranks_too(tmp_path):
    if subprocess.run(["which", "mpirun"], capture_output=True).returncode:
        pytest.skip("no mpirun here")
    command = ["mpirun", "-n", "2", sys.executable, str(MORTAL), "resumed", str(tmp_path / "mpirun")]
    own = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    for _ in range(3):  # somebody else may take the port before the ranks do
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            own["MASTER_PORT"] = str(free.getsockname()[1])
        done = subprocess.run(command, env=os.environ | own, capture_output=True, text=True, timeout=120)
        if done.returncode == 0:
            break
    assert len(set(re.findall(ENDS, done.stdout))) == 2, done.stdout + done.stderr
