"""How a job is started: ranks that are threads (and come back by themselves), under mpirun, under torchrun, and one process
a host. Each gives command lines, says who its ranks are, and what must be told after a fault."""
import json
import os
import re
import signal
from pathlib import Path

import hosts

HERE = Path(__file__).resolve().parent
STEPS, EVERY = 40, 7  # of a job, and of its checkpoints
TEXT = ["--task", "text", "--model", "gpt2-mini", "--set", "model.depth=1", "--set", "model.width=16", "--set", "data.context=16",
        "--batch", "1"]
IMAGES = ["--task", "fashion-mnist", "--model", "resnet8", "--set", "model.width=4", "--batch", "2"]
TINY = ["--data", "generated", "--threads", "1", "--steps", str(STEPS), "--checkpoint-every", str(EVERY),
        "--set", "run.validation_examples=4", "--set", "run.validate_every=1000"]
SHAPES = {
    "text": (TEXT, "zero-one-adam"),
    "images": (IMAGES, "one-bit-adam"),
    "signs": (TEXT, "birder"),
    "exact": (IMAGES, "adamw"),
    # Ranks that exchange every third step, while the next ones run: checkpoints come in the middle of it.
    "delayed": (TEXT, "local-steps:outer=nesterov:codec=int4:every=6:fragments=2:delay=3"),
    # Ranks that are silent for most of a job.
    "silent": (TEXT, "local-steps:every=30"),
}
FILE_CALLS, MPI_CALLS, SOCKET_CALLS = ("write", "fsync", "rename", "open"), ("MPI_Isend", "MPI_Irecv", "MPI_Testsome"), ("writev", "recv")
ALONE, COMES_BACK = "kill, mpirun looks away", "kill, --max-restarts"
FULL, READ_ONLY = "No space left on device", "Read-only file system"


def mpi_environment():
    """A launcher around this program is not a launcher of the jobs; root and few cores are no hindrance."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_COMM_", "PMI_", "PMIX_", "FAULT_"))}
    return own | {
        "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1", "OMP_NUM_THREADS": "1",
    }  # fmt: skip


def ranks_of(tag):
    """{rank: pid} of the processes of a job; of threads, the process that has them."""
    found, tagged = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                environment = (folder / "environ").read_bytes().split(b"\0")
                parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            if f"FAULT_JOB={tag}".encode() in environment:
                tagged[int(folder.name)] = (parent, environment)
    for pid, (parent, environment) in tagged.items():
        rank = next((int(v[len(k):]) for v in environment for k in (b"OMPI_COMM_WORLD_RANK=", b"RANK=") if v.startswith(k)), None)
        if rank is not None or parent in tagged:
            found[rank or 0] = pid
    return found, set(tagged)


class Launcher:
    name, ranks, calls, grace = "", 2, (), 0.0

    def __init__(self, tools, shape):
        self.tools, self.shape = tools, shape

    def train(self, folder, timeout):
        options, optimizer = SHAPES[self.shape]
        return [self.tools.laconic, "train", *options, *TINY, "--optimizer", optimizer, "--out", str(folder), "--resume", "--overwrite",
                "--set", f"run.timeout={timeout}"]

    def commands(self, folder, timeout, kind):
        """[(command, environment)], a process each; `kind` is the fault that will come, if any."""
        raise NotImplementedError

    def told(self, kind, rank, codes, text):
        """Whether what the processes ended with and said is what is documented."""
        raise NotImplementedError


class Threads(Launcher):
    """A kill brings a restart; it is the process that dies."""

    name, calls = "threads", FILE_CALLS

    def commands(self, folder, timeout, kind):
        return [([*self.train(folder, timeout), "--ranks", "2", *(["--restarts", "2"] if kind else [])], {})]

    def told(self, kind, rank, codes, text):
        if kind.startswith("kill"):
            return codes == [0] and "signal 9 ended the run; restart 1 of 2" in text
        return codes == [1] and (FULL if "disk" in kind else READ_ONLY) in text


class Mpirun(Launcher):
    """mpirun ends the others when one dies; a rank that is silent is found out by the others."""

    name, calls = "mpirun", FILE_CALLS + MPI_CALLS

    def __init__(self, tools, shape, ranks):
        super().__init__(tools, shape)
        self.ranks = ranks

    def commands(self, folder, timeout, kind):
        alone = ["--enable-recovery"] if kind == ALONE else []  # then it leaves the others to themselves, and ends with 0
        return [(["mpirun", *alone, "-n", str(self.ranks), *self.train(folder, timeout)], {})]

    def told(self, kind, rank, codes, text):
        silent = re.search(rf"laconic: rank \d+: .*ranks? [\d, and]*\b{rank}\b.* did not (send|take) exchange", text) is not None
        silent = silent or "MPI_Comm_split did not end within" in text  # it does not say who is missing
        if kind == ALONE:  # mpirun may fail to unpack its own report of how a rank ended
            return silent and ("errorcode 3" in text or "ORTE_ERROR_LOG" in text)
        if kind.startswith("kill"):
            return codes == [128 + signal.SIGKILL] and f"process rank {rank}" in text and "signal 9" in text
        if kind.startswith("stop"):
            return codes == [3] and silent
        return codes == [1] and (FULL if "disk" in kind else READ_ONLY) in text


class Torch(Launcher):
    """Ranks of the Python package; grace is what they take to find out who is missing."""

    calls, grace = FILE_CALLS + SOCKET_CALLS, 6.0

    def script(self, folder, timeout):
        return [str(HERE / "torch_job.py"), str(folder), str(STEPS), str(EVERY), str(timeout)]

    def told(self, kind, rank, codes, text):
        missing = re.search(r"RankMissing: ranks? [\d, and]*\d died, left or did not arrive within", text) is not None
        if kind == COMES_BACK:
            return codes == [0]
        if kind.startswith("kill"):
            return any(codes) and (missing or f"exitcode  : -{int(signal.SIGKILL)}" in text or "Signal 9" in text)
        if kind.startswith(("stop", "cut")):
            return any(codes) and missing
        return any(codes) and (FULL if "disk" in kind else READ_ONLY) in text


class Torchrun(Torch):
    name = "torchrun"

    def commands(self, folder, timeout, kind):
        again = ["--max-restarts=1"] if kind == COMES_BACK else []
        launch = [self.tools.python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={self.ranks}", *again]
        return [([*launch, *self.script(folder, timeout)], {})]


class OnHosts(Torch):
    """One process a host, without a launcher."""

    name = "hosts"

    def __init__(self, tools, shape):
        super().__init__(tools, shape)
        self.net = None  # hosts.Hosts while a job runs

    def commands(self, folder, timeout, kind):
        world = {"WORLD_SIZE": "2", "MASTER_ADDR": hosts.ADDRESSES[0], "MASTER_PORT": "29511", "GLOO_SOCKET_IFNAME": hosts.DEVICE}
        command = [self.tools.python, *self.script(folder, timeout)]
        return [(self.net.on(rank, command), world | {"RANK": str(rank), "LOCAL_RANK": "0"}) for rank in range(self.ranks)]


def results(folder):
    """(steps in metrics.jsonl, the checkpoint's step, the final weights' hash or None) of a job."""
    metrics, summary = folder / "metrics.jsonl", folder / "summary.json"
    lines = metrics.read_text().split("\n")[:-1] if metrics.exists() else []
    steps = [json.loads(line)["step"] for line in lines]
    manifests = [folder / name / "manifest.json" for name in ("checkpoint", "checkpoint.laconic-old")]
    saved = next((json.loads(m.read_text())["step"] for m in manifests if m.exists()), 0)
    return steps, saved, json.loads(summary.read_text())["weights_hash"] if summary.exists() else None
