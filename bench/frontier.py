"""Studies of what quality costs in bits, rounds and time: many methods on one task with equal budgets; and of the number of ranks.

They take hours. What is finished is kept under .run/studies, within a run too: `./run bench frontier --resume` goes on.
"""
import json
import math
import statistics

# What exchanges, how it is coded, and how often. Those that code exact rounds stand beside those that do not, and a freeze that
# is found while training beside the fixed share of the run.
ARMS = ("adamw,adamw:codec=int8/int4,adamw:codec=int4:feedback=ema,"
        "one-bit-adam,one-bit-adam:dense_codec=int8/int4,one-bit-adam:freeze_step=auto,"
        "zero-one-adam,zero-one-adam:dense_codec=int8/int4,zero-one-adam:schedule=published,zero-one-adam:schedule=published:dense_codec=int8,"
        "birder,birder:exchange=single-round/count,distributed-lion,"
        "local-adamw:codec=int4/sign:every=4/16,diloco:codec=int4:every=16")
# Of a model for which all of these would take days.
FEW = ("adamw,adamw:codec=int4,one-bit-adam,one-bit-adam:dense_codec=int4,one-bit-adam:freeze_step=auto,zero-one-adam,zero-one-adam:dense_codec=int8,"
       "zero-one-adam:schedule=published,birder,local-adamw:codec=int4:every=4/16")
# Of a run in which exact rounds and few updates of v weigh most.
SHORT = "adamw,one-bit-adam,zero-one-adam,zero-one-adam:schedule=published,birder"
SMALL = "--model gpt2-mini --set model.depth=2 --set model.width=64 --set data.context=64"
NETWORK = "100mbit,1ms"
FIELDS = ("optimizer", "lr", "tuning", "final_loss_mean", "final_loss_spread", "final_metric_mean", "final_metric_spread", "metric",
          "bits_per_parameter_per_step", "rounds", "bytes_sent_per_rank", "network_seconds", "steps", "ranks", "parameters")
COSTS = {"bits": "bits_per_parameter_per_step", "rounds": "rounds", "seconds": "network_seconds"}
RANKS = (1, 2, 4, 8, 16, 32)
SCALED = ("adamw", "one-bit-adam", "zero-one-adam", "birder", "birder:exchange=count")
SCALED_STEPS, SCALED_BATCH, SCALED_LR = 300, 32, "3e-3"


def compare(tools, commands, study, options, arms, steps, tune):
    """The rows of `laconic compare --frontier`: an arm each, with the frontiers that it is on; one that diverged has no loss."""
    out = tools.RUNS / study
    tools.run(commands, f"{tools.LACONIC} compare {options} --steps {steps} --seeds 3 --tune {tune} --frontier --network {NETWORK} "
                        f"--set run.checkpoint_every={max(100, steps // 10)} --set run.validate_every={steps // 10} --optimizers {arms} --out {out} --resume")
    summary = json.loads((out / "summary.json").read_text())
    rows = [{**{field: arm.get(field) for field in FIELDS}, "frontier": [cost for cost in COSTS if arm["optimizer"] in summary["frontier"][cost]],
             "network": summary["network"], "seeds": len(summary["seeds"])} for arm in summary["arms"]]
    return rows + [{"optimizer": arm, "diverged": why} for arm, why in summary["diverged"].items()]


def studies(tools):
    """{name: study} of this file. `tools` is studies.py, which has how commands are run."""
    def small(study, arms, steps, tune):
        def text(commands):
            options = f"--task text --data {tools.data('shakespeare.txt')} {SMALL} --ranks 2 --threads 1 --batch 8"
            return compare(tools, commands, study, options, arms, steps, tune)
        return text

    def text(commands):
        options = f"--task text --data {tools.data('shakespeare.txt')} --model gpt2-mini --set data.context=64 --ranks 2 --threads 1 --batch 4"
        return compare(tools, commands, "frontier_text", options, FEW, 5000, 200)

    def fashion(commands):
        options = "--task fashion-mnist --model resnet8 --set model.width=16 --ranks 2 --threads 1 --batch 32"
        return compare(tools, commands, "frontier_fashion", options, FEW, 4000, 300)

    def bert(commands):
        """Fine-tuning by each arm, from weights that AdamW pre-trained once."""
        corpus = tools.masked_corpus()
        common = f"{tools.MASKED} --set data.tokenizer_data={corpus}"
        start = tools.RUNS / "frontier_bert_start"
        tools.run(commands, f"{tools.LACONIC} train --task mlm --data {corpus} {common} --optimizer adamw --lr 3e-3 --steps 2000 "
                            f"--set run.validate_every=100000 --out {start} --overwrite", done=(start / "summary.json").exists())
        return compare(tools, commands, "frontier_bert", f"--task sst2 --data {tools.data('sst2')} {common} --init {start}/model.safetensors", FEW, 1000, 150)

    return {"frontier_text_small": small("frontier_text_small", ARMS, 5000, 300), "frontier_text": text, "frontier_fashion": fashion, "frontier_bert": bert,
            "text_500": small("text_500", SHORT, 500, 150), "ranks": lambda commands: ranks(tools, commands)}


def predicted_variance(arm, ranks):
    """Of Birder's update, against that of one rank, for equal u on all of them: its sign is drawn anew from the mean of the votes,
    1 − u² however many vote; a count is the mean of n independent votes."""
    if arm == "birder":
        return 1.0
    return 1.0 / ranks if arm == "birder:exchange=count" else None


def ranks(tools, commands):
    """1 to 32 ranks on threads, 3 seeds: one global batch that they share, and one batch for each rank."""
    rows = []
    data = f"--task text --data {tools.data('shakespeare.txt')} {SMALL.replace('context=64', 'context=32')} --threads 1 --lr {SCALED_LR}"
    for batch in ("global", "per rank"):
        for count in RANKS:
            for arm in SCALED:
                losses = []
                for seed in (1, 2, 3):
                    out = tools.RUNS / "ranks" / f"{batch.replace(' ', '-')}-{count}-{arm.replace(':', '-')}-seed{seed}"
                    each = SCALED_BATCH // count if batch == "global" else 1
                    tools.run(commands, f"{tools.LACONIC} train {data} --optimizer {arm} --ranks {count} --batch {each} --steps {SCALED_STEPS} --seed {seed} "
                                        f"--set run.validate_every=100000 --out {out} --overwrite", done=(out / "summary.json").exists())
                    losses.append(json.loads((out / "summary.json").read_text())["final_loss"])
                rows.append({"batch": batch, "ranks": count, "optimizer": arm, "final_loss_mean": statistics.mean(losses),
                             "final_loss_spread": statistics.stdev(losses), "predicted_variance": predicted_variance(arm, count)})
    return rows


def is_finite(row):
    return row.get("final_loss_mean") is not None and math.isfinite(row["final_loss_mean"])
