"""same_bits.py HERE THERE: compares what `golden` recorded on two CPUs: the same calls, the same bits in and out.

Where both sides are NaN they are equal: CPUs sign and fill theirs differently, and no mean lets one pass.
"""

import json
import pathlib
import sys

from numpy_check import differing, load


def recorded(directory):
    folder = pathlib.Path(directory)
    data = (folder / "arrays.bin").read_bytes()
    for call in json.loads((folder / "index.json").read_text()):
        runs = list(call["runs"].items())
        # The best target's name differs; the reference's does not.
        yield call["kernel"], load(call["before"], data), [(who, load(run, data)) for who, run in runs]


def main(here, there):
    calls, targets, wrong = 0, set(), []
    for one, other in zip(recorded(here), recorded(there), strict=True):
        calls += 1
        targets.add(f"{one[2][0][0]} and {other[2][0][0]}")
        if one[0] != other[0] or differing(one[1], other[1]):
            wrong.append(f"call {calls}: {one[0]} here and {other[0]} there, or other values went in")
            continue
        for (who, ours), (_, theirs) in zip(one[2], other[2], strict=True):
            if difference := differing(ours, theirs):
                wrong.append(f"call {calls}, {one[0]} on {who}: {difference}")
    for line in wrong[:20]:
        print(line)
    print(f"{calls} calls on {', '.join(targets)}: {len(wrong)} differ")
    return 1 if wrong or not calls else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
