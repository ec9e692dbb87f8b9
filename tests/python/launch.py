"""Tests that run on every rank: all those of a file in one launch for each number of ranks.

    launch.py FILE OUT    a rank: runs the tests of FILE that are for this number of ranks, writes what failed to OUT;
                          with ONLY=text in the environment, those whose name holds it
"""
import faulthandler
import functools
import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from datetime import timedelta
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/optim"))

registered = []


def torchrun(ranks, script, *arguments, timeout=240, environment=None, check=True, options=()):
    """Runs a script under torchrun; returns the finished process."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", *options]
    own = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE), **(environment or {})}
    done = subprocess.run(
        [*command, str(script), *map(str, arguments)],
        capture_output=True, text=True, timeout=timeout, env=os.environ | own,
    )  # fmt: skip
    return _passed(done, script) if check else done


def _passed(done, script):
    if done.returncode:
        pytest.fail(f"{script}: exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}")
    return done


def start(ranks, script, *arguments, environment=None, **options):
    """Processes of a script, without torchrun, whose agent would import torch once more and end the others when one ends."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    own = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1", **(environment or {})}
    command = [sys.executable, str(script), *map(str, arguments)]
    return [
        subprocess.Popen(command, env=os.environ | own | {"RANK": str(rank), "LOCAL_RANK": str(rank)}, text=True, **options)
        for rank in range(ranks)
    ]


def started(ranks, script, *arguments, timeout=240, check=True):
    """As torchrun() without its agent: the first rank that fails ends the others."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        running = start(ranks, script, *arguments, environment={"PYTHONPATH": str(HERE)}, stdout=out, stderr=errors)
        end = time.monotonic() + timeout
        while None in (codes := [one.poll() for one in running]) and not any(codes) and time.monotonic() < end:
            time.sleep(0.05)
        for one in running:
            if one.poll() is None:
                one.terminate()
        codes = [one.wait(30) for one in running]
        out.seek(0)
        errors.seek(0)
        done = subprocess.CompletedProcess(running[0].args, next((code for code in codes if code), 0), out.read(), errors.read())
    return _passed(done, script) if check else done


@functools.lru_cache(maxsize=None)
def results(path, ranks):
    """What each test of the file said on the ranks: None, or the traceback of the first rank that failed."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "results.json"
        done = started(ranks, HERE / "launch.py", path, out, check=False)
        found = json.loads(out.read_text()) if out.exists() else {}
    found["-"] = f"the ranks ended with {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    return found


def over(*counts):
    """Decorates a test that every rank runs, with so many ranks; it is given the rank and their number."""

    def decorate(test):
        registered.append((counts, test))

        @pytest.mark.parametrize("ranks", counts)
        def run(ranks):
            found = results(test.__code__.co_filename, ranks)
            wrong = found.get(test.__name__, found["-"])
            if wrong:
                pytest.fail(wrong, pytrace=False)

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run

    return decorate


def main(path, out):
    import torch
    import torch.distributed as dist

    faulthandler.dump_traceback_later(220, exit=True)
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    rank, ranks = dist.get_rank(), dist.get_world_size()
    sys.modules["launch"] = sys.modules["__main__"]
    spec = importlib.util.spec_from_file_location("tests_on_ranks", path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    found = {}
    for counts, test in registered:
        if ranks not in counts or os.environ.get("ONLY", "") not in test.__name__:
            continue
        torch.manual_seed(rank)
        try:
            wrong = test(rank, ranks)
        except BaseException:
            wrong = f"rank {rank}:\n{traceback.format_exc()}"
        every = [None] * ranks
        dist.all_gather_object(every, wrong)
        found[test.__name__] = next((text for text in every if text), None)
        if rank == 0:
            Path(out).write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
