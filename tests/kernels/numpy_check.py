"""numpy_check.py DIRECTORY: recomputes every call that `golden` recorded and compares all bits.

Where both sides are NaN they are equal.
"""

import json
import pathlib
import sys

import numpy as np

from numpy_kernels import KERNELS, F, philox


def load(node, data):
    """A copy of the JSON tree with its arrays in place of what describes them."""
    if isinstance(node, dict) and "type" in node:
        return np.frombuffer(data, np.dtype(node["type"]), node["count"], node["at"])
    if isinstance(node, dict):
        return {name: load(child, data) for name, child in node.items()}
    if isinstance(node, list):
        return [load(child, data) for child in node]
    return node


def differing(want, got):
    """Where two arrays or trees differ: a sentence, or None."""
    if isinstance(want, (list, dict)):
        keys = want if isinstance(want, dict) else range(len(want))
        return next((d for key in keys if (d := differing(want[key], got[key]))), None)
    if not isinstance(want, np.ndarray):
        want, got = (np.atleast_1d(np.asarray(one)) for one in (want, got))
        if want.dtype.kind == "f":
            want, got = want.astype(F), got.astype(F)
    if want.shape != got.shape or want.dtype != got.dtype:
        return f"{want.dtype} of {want.shape} here, {got.dtype} of {got.shape} there"
    if want.dtype == F:
        equal = (want.view(np.uint32) == got.view(np.uint32)) | (np.isnan(want) & np.isnan(got))
    elif want.dtype == np.uint16:  # bf16: any quiet NaN
        equal = (want == got) | ((want & 0x7FC0 == 0x7FC0) & (got & 0x7FC0 == 0x7FC0))
    else:
        equal = want == got
    if np.all(equal):
        return None
    k = int(np.argmin(equal))
    count = f"{np.count_nonzero(~equal)} of {len(equal)} differ"
    return f"[{k}] is {got[k]!r}, not {want[k]!r} ({count})"


def check(call, data):
    """Compares every run of one call; returns the differences."""
    before = load(call["before"], data)
    name = call["kernel"]
    with np.errstate(all="ignore"):
        after = KERNELS[name if name in KERNELS else name + "_"](**before)
    result = after.pop("result", None)
    wrong = []
    for who, run in call["runs"].items():
        pairs = {"result": (result, run["result"])}
        for arg, got in load(run["after"], data).items():
            pairs[arg] = (after.get(arg, before[arg]), got)
        for arg, (want, got) in pairs.items():
            if want is None and got is None:
                continue
            if difference := differing(want, got):
                wrong.append(f"{name} on {who}: {arg}{difference}")
    return wrong


def main(directory):
    directory = pathlib.Path(directory)
    data = (directory / "arrays.bin").read_bytes()
    calls = json.loads((directory / "index.json").read_text())
    published = [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    assert [int(part) for part in philox([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2)] == published
    wrong = {}
    seen = {}
    for call in calls:
        wrong.setdefault(call["kernel"], []).extend(check(call, data))
        seen.setdefault(call["kernel"], []).append(" and ".join(call["runs"]))
    for name, differences in wrong.items():
        verdict = "equal" if not differences else f"{len(differences)} DIFFERENCES"
        print(f"{name:18} {len(seen[name]):3} calls on {seen[name][0]}: {verdict}")
        for difference in differences[:5]:
            print(f"    {difference}")
    missing = {name.rstrip("_") for name in KERNELS} - set(seen)
    if missing:
        print(f"never called: {', '.join(sorted(missing))}")
    return 1 if missing or any(wrong.values()) else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
