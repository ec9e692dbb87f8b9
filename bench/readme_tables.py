"""README's two tables, written from what is recorded under bench/results/."""
import math


def at_most(value, digits=1):
    """Rounded up: a bound holds as it is printed."""
    return f"{math.ceil(value * 10**digits) / 10**digits:.{digits}f}"


def at_least(value, digits=2):
    return f"{math.floor(value * 10**digits) / 10**digits:.{digits}f}"


def milliseconds(row):
    value = 1e3 * (row["seconds"] if "seconds" in row else row["step_seconds"])
    return f"{value:.1f} ms" if value < 20 else f"{value:.0f} ms"


def one(rows, **fields):
    """The row with these values."""
    found = [row for row in rows if all(row.get(name) == value for name, value in fields.items())]
    assert len(found) == 1, f"{len(found)} rows with {fields}"
    return found[0]


def link(name):
    return f"[{name}](bench/results/{name}.json)"


def quality(records, table):
    text, images, network = (records[name] for name in ("text", "fashion_mnist", "network_text_100mbit"))
    steps = max(row["rounds"] for row in text)
    lines = []
    for row in text:
        image = one(images, optimizer=row["optimizer"])
        lines.append([row["optimizer"], f"{row['final_loss_mean']:.3f} ± {row['final_loss_spread']:.3f}",
                      f"{100 * image['final_metric_mean']:.1f} ± {100 * image['final_metric_spread']:.1f}", f"{row['bits_per_parameter_per_step']:.2f}",
                      row["rounds"], milliseconds(one(network, optimizer=row["optimizer"]))])
    return table(["optimizer", "GPT-2 mini on Shakespeare: validation loss", "ResNet-20-like on Fashion-MNIST: accuracy, %", "bits per parameter and step",
                  f"rounds of {steps}", "step at 100 Mbit/s, 4 ranks"], lines)


def times_faster(rows, **fields):
    return one(rows, kind="dense", **fields)["seconds"] / one(rows, kind="one-bit", **fields)["seconds"]


def mean_mpi(rows):
    reduces = [1e3 * row["mpi_allreduce_seconds"] for row in rows]
    coded = one(rows, kind="one-bit")
    return f"{milliseconds(coded)}, against {min(reduces):.0f} to {max(reduces):.0f} ms of `MPI_Allreduce` in the same run ({link('mean_mpi')})"


def mean_threads(rows):
    return f"{milliseconds(one(rows, kind='one-bit'))}, against {milliseconds(one(rows, kind='dense'))} of our exact mean ({link('mean_threads')})"


def mean_100mbit(rows):
    sizes = sorted({row["elements"] for row in rows})
    least = min(times_faster(rows, elements=size) for size in sizes)
    share = min(one(rows, kind="one-bit", elements=size)["wire_share"] for size in sizes)
    return f"{math.floor(least)} times faster than fp32; {100 * share:.0f} % of the time the wire is busy ({link('mean_100mbit')})"


def mean_1gbit(rows):
    return f"{math.floor(times_faster(rows))} times faster than fp32 ({link('mean_1gbit')})"


def mean_nodes(rows):
    flat, nodes = (one(rows, kind="one-bit", ranks_per_node=per_node) for per_node in (1, 2))
    leave = flat["bytes_between_nodes"] * 2 / 3  # of three receivers, two are on the other node
    return (f"{nodes['bytes_between_nodes'] / leave:.2f} of the bytes of a flat exchange leave a node, in twice the rounds: "
            f"{milliseconds(nodes)} against {milliseconds(flat)} ({link('mean_nodes')})")


def python_means(rows, cluster):
    coded, dense, chain = (one(rows, name=name) for name in ("laconic one-bit", "laconic dense fp32", "one-bit as a chain of torch operations"))
    behind = [math.floor(one(cluster, name="laconic one-bit", link=rate)["speed_against_fp32_all_reduce"]) for rate in ("1gbit", "100mbit")]
    return (f"{coded['speed_against_fp32_all_reduce']:.1f} times as fast as `all_reduce` in fp32, {chain['seconds'] / coded['seconds']:.0f} times as fast as "
            f"a chain of torch operations ({link('python_means')}); behind real 1 Gbit/s and 100 Mbit/s links {behind[0]} and {behind[1]} times as fast as fp32 "
            f"({link('python_cluster')}). Our exact mean takes {1 / dense['speed_against_fp32_all_reduce']:.1f} times as long as Gloo's own")


def python_steps(rows):
    speeds = [f"{one(rows, name=name)['speed_against_torch']:.2f}" for name in ("laconic.AdamW", "laconic.ZeroOneAdam, silent steps")]
    return f"AdamW {speeds[0]} and 0/1 Adam without exchange {speeds[1]} of the speed of `torch.optim.AdamW(fused=True)` ({link('python_steps')})"


def on_each_target(rows):
    """The least ratio of each instruction set, AVX-512 (Highway's AVX3) first."""
    least = {}
    for row in rows:
        name = row["target"].replace("AVX3", "AVX-512") if "target" in row else ""
        least[name] = min(row["ratio"], least.get(name, math.inf))
    return " and ".join(f"{at_least(ratio)}{f' ({name})' if len(least) > 1 else ''}" for name, ratio in least.items())


def kernels(rows):
    return f"at least {on_each_target([row for row in rows if row['class'] == 'streaming'])} of a plain loop with the same memory traffic ({link('kernels')})"


def step(rows, torch):
    return (f"at least {on_each_target(rows)} of it ({link('step')}); AdamW runs at {torch[0]['speed_against_torch']:.2f} of the speed of "
            f"`torch.optim.AdamW(fused=True)` ({link('torch_adamw')})")


def plan(forecast):
    return (f"median error {100 * forecast.median_error:.1f} %, worst {at_most(100 * forecast.worst_error)} %; following its advice costs at most {at_most(100 * forecast.lost)} %, and "
            f"`--exchange auto` takes at most {at_most(100 * forecast.auto_longer)} % longer than the better of exact and coded ({link('plan')})")


def speed(records, table, forecast):
    lines = [
        ["one-bit mean of 25 Mi floats, 2 MPI processes on one host", mean_mpi(records["mean_mpi"])],
        ["the same on threads, where nothing is copied", mean_threads(records["mean_threads"])],
        ["4 ranks at an emulated 100 Mbit/s", mean_100mbit(records["mean_100mbit"])],
        ["2 ranks at an emulated 1 Gbit/s", mean_1gbit(records["mean_1gbit"])],
        ["2 nodes of 2 ranks at 1 Gbit/s, 4 Mi floats", mean_nodes(records["mean_nodes"])],
        ["25 Mi floats over Gloo, 2 processes, from Python", python_means(records["python_means"], records["python_cluster"])],
        ["`optimizer.step()` in Python, 64 Mi parameters", python_steps(records["python_steps"])],
        ["every streaming kernel, one thread", kernels(records["kernels"])],
        ["a step without its exchange", step(records["step"], records["torch_adamw"])],
        [f"step times that `laconic plan` predicts, {len(records['plan'])} settings here", plan(forecast)],
    ]
    return table(["what", "measured"], lines)
