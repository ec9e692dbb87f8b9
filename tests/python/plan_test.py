"""laconic.plan says what `laconic plan` says, refuses what cannot be, and measures links under torchrun."""
import json
import math
import os
import subprocess
import sys

import laconic
import laconic.plan
import pytest

CLUSTER = dict(parameters=109_482_240, step_seconds=0.09, nodes=8, per_node=8, inter="10gbit,20us", intra="600gbit,3us")


def test_figures_are_those_of_the_command():
    command = os.environ.get("LACONIC_COMMAND")
    if not command or not os.path.exists(command):
        pytest.skip("LACONIC_COMMAND names no laconic")
    words = "plan --model bert-base --nodes 8 --per-node 8 --inter 10gbit,20us --intra 600gbit,3us --step-ms 90 --json"
    done = subprocess.run([command, *words.split()], check=True, capture_output=True, text=True)
    for row in json.loads(done.stdout)["rows"]:
        if row["exchange"] != "all-reduce":  # the only one without slices, of which torch.distributed has fewer
            continue
        found = laconic.plan.predict(row["optimizer"], exchange=row["exchange"], bf16=row["wire"] == "bf16", **CLUSTER)
        for name in ("seconds", "exposed_seconds", "bytes_between_nodes", "memory_bytes"):
            assert found[name] == pytest.approx(row[name]), (row["optimizer"], name)


def test_coding_pays_on_a_slow_network_and_not_on_a_fast_one():
    slow, fast = ({**CLUSTER, "inter": inter, "step_seconds": 0.5} for inter in ("100mbit", "400gbit"))
    for cluster, pays in ((slow, True), (fast, False)):
        dense = laconic.plan.predict("adamw", exchange="all-reduce", bf16=True, **cluster)
        coded = laconic.plan.predict("zero-one-adam", exchange="nodes", **cluster)
        assert (coded["seconds"] < dense["seconds"]) == pays
    rate = laconic.plan.break_even("zero-one-adam", exchange="nodes", **slow)
    assert 1e8 < rate < 4e11
    assert laconic.plan.break_even("adamw", exchange="all-reduce", bf16=True, **slow) == math.inf


def test_dense_codec_is_what_dense_steps_send():
    sent = [laconic.plan.predict("one-bit-adam", dense_codec=codec, **CLUSTER)["steps"]["dense"]["bytes_between_nodes"] for codec in ("", "int8")]
    assert 3.9 < sent[0] / sent[1] < 3.95
    for optimizer, codec in (("adamw", "int8"), ("one-bit-adam", "sign")):
        with pytest.raises(laconic.InvalidArgument, match="dense_codec"):
            laconic.plan.predict(optimizer, dense_codec=codec, **CLUSTER)


def test_shares_follow_the_recipe():
    found = laconic.plan.predict("zero-one-adam", recipe="bert-base", **CLUSTER)
    assert found["dense_share"] == pytest.approx(153 / 118_000)
    assert found["dense_share"] + found["coded_share"] + found["silent_share"] == pytest.approx(1)
    recipe = laconic.plan.recipe("bert-large")
    assert (recipe["steps"], round(recipe["volume_reduction"], 3), round(recipe["round_reduction"], 3)) == (152_000, 0.846, 0.511)


@pytest.mark.parametrize("wrong, remedy", [
    (dict(nodes=0), "8 nodes of 8"), (dict(inter="10parsec"), "1gbit,50us"), (dict(exchange="star"), "nodes"),
    (dict(total_steps=3), "100000"), (dict(recipe="bert-huge"), "bert-large"), (dict(parameters=0), "110000000"),
])  # fmt: skip
def test_what_cannot_be_is_refused_with_a_remedy(wrong, remedy):
    with pytest.raises(laconic.InvalidArgument, match=remedy):
        laconic.plan.predict("zero-one-adam", **{**CLUSTER, **wrong})


def test_a_fraction_of_a_parameter_is_refused():
    command = [sys.executable, "-m", "laconic.plan", "--params", "1.5", "--step-ms", "5"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "1.5: give a whole number" in done.stderr


def test_links_of_a_process_group_are_measured():
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    arguments = ["-m", "laconic.plan", "--params", "1e6", "--step-ms", "5"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=200, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert "# intra: " in done.stdout and "Gbit/s" in done.stdout
    assert done.stdout.count("\nbirder") == 2


def test_shards_divide_the_parameters_and_the_link_of_a_node():
    whole = dict(parameters=1_000_001, step_seconds=0.1, nodes=4)
    for method in ("adamw", "one-bit-adam", "zero-one-adam", "birder"):
        mine = laconic.plan.predict(method, shards=4, inter="1gbit,20us", **whole)
        alone = laconic.plan.predict(method, inter=(125e6 / 4, 20e-6), **{**whole, "parameters": 250_001})
        assert mine == alone
        assert mine["memory_bytes"] < 0.26 * laconic.plan.predict(method, inter="1gbit,20us", **whole)["memory_bytes"]
    with pytest.raises(laconic.InvalidArgument, match="8 shards in nodes of 2 ranks"):
        laconic.plan.predict("adamw", shards=8, per_node=2, inter="1gbit", intra="1gbit", **whole)
