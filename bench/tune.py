#!/usr/bin/env python3
"""Finds the learning rates of app/training/tuned.cc: the same three values' worth of budget for every optimizer.

    tune.py [STUDY...] [--arms A,B]      fashion_mnist, text, mlm; run from the project's root after ./run build

Each value is tried once, for the number of steps given here; the lowest loss wins on a tenth of the training data that is held
out (`data.validate_on=tuning`): the validation set, which results are reported on, has no part in it. `laconic compare --tune`
does the same for the arms of one comparison. A rate that diverges is not the best; any other failure ends the program, which
keeps what is finished under .run/studies/tune.
"""
import argparse
import json
import subprocess

from studies import ARMS, FASHION_MNIST, LACONIC, MASKED, PATIENT, RUNS, masked_corpus, run, text_options

ADAM = {"fashion_mnist": (3e-3, 1e-2, 3e-2), "text": (1e-3, 3e-3, 1e-2), "mlm": (1e-3, 3e-3, 1e-2)}
SGDM = (0.01, 0.03, 0.1)
DIVERGED = 4  # the exit code of `laconic train`
# Of other methods, as multiples of AdamW's: a sign has the size of its learning rate; LAMB's is a share of a tensor's norm.
SCALES = {"lion": 0.1, "distributed-lion": 0.1, "lamb": 3, "one-bit-lamb": 3}
STUDIES = {
    "fashion_mnist": lambda: f"{FASHION_MNIST} --steps 120",
    "text": lambda: f"{text_options()} --steps 150",
    "mlm": lambda: f"--task mlm --data {masked_corpus()} {MASKED} --steps 200",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="*", help=", ".join(STUDIES))
    parser.add_argument("--arms", default=f"sgdm,{ARMS}")
    options = parser.parse_args()
    for study in options.studies or STUDIES:
        for optimizer in options.arms.split(","):
            if study != "fashion_mnist" and optimizer == "sgdm":
                continue
            scale = SCALES.get(optimizer.split(":")[0], 1)
            rates = SGDM if optimizer == "sgdm" else tuple(float(f"{scale * rate:g}") for rate in ADAM[study])
            losses = {}
            for rate in rates:
                out = RUNS / "tune" / study / f"{optimizer}-{rate:g}"
                if not (out / "summary.json").exists():
                    try:
                        run([], f"{LACONIC} train {STUDIES[study]()} --optimizer {optimizer} --lr {rate} {PATIENT} --out {out} --overwrite --set run.validate_every=100000 --set data.validate_on=tuning")
                    except subprocess.CalledProcessError as error:
                        if error.returncode != DIVERGED:
                            raise  # started again, it goes on with the value that failed
                        print(f"  {rate:g} diverges", flush=True)
                        continue
                losses[rate] = json.loads((out / "summary.json").read_text())["final_loss"]
            best = min(losses, key=losses.get)
            print(f"{study:14} {optimizer:14} best {best:g}   " + "  ".join(f"{rate:g}: {loss:.4f}" for rate, loss in losses.items()), flush=True)


if __name__ == "__main__":
    main()
