"""read_test.py FOLDER: reads what `sample` saved with the safetensors package and compares every value."""

import json
import pathlib
import sys

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file

BUCKETS = [300, 300, 400]
CHUNKS = [[(0, 150), (150, 300)], [(0, 150), (150, 300)], [(0, 200), (200, 400)]]


def sample(name, rank, begin, end):
    salt = 0
    for c in name.encode():
        salt = salt * 3 + c
    k = np.arange(begin, end, dtype=np.uint64)
    value = (k * np.uint64(37) + np.uint64((salt + 101 * rank) % 2**64)) % np.uint64(1009)
    return (value.astype(np.float32) / np.float32(16) - np.float32(30)).astype(np.float32)


def expected():
    shared = {"weights": sample("synced", 0, 0, 1000), "counters": np.array([10, 0.1, -0.0, np.nan])}
    ranks = [{"weights": sample("weights", rank, 0, 1000)} for rank in (0, 1)]
    for b, count in enumerate(BUCKETS):
        shared[f"bucket{b}/v"] = sample(f"bucket{b}/v", 0, 0, count)
        for rank, tensors in enumerate(ranks):
            for name in ("m", "pending"):
                tensors[f"bucket{b}/{name}"] = sample(f"bucket{b}/{name}", rank, 0, count)
            tensors[f"bucket{b}/server"] = sample(f"bucket{b}/server", 0, *CHUNKS[b][rank])
    return {"shared.safetensors": shared, "rank00000.safetensors": ranks[0], "rank00001.safetensors": ranks[1]}


def main():
    folder = pathlib.Path(sys.argv[1])
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["format"] == 1 and manifest["ranks"] == 2 and manifest["step"] == 10, manifest
    assert manifest["extra"] == {"position": "7"}, manifest
    for name, want in expected().items():
        got = load_file(folder / name)
        assert got.keys() == want.keys(), (name, got.keys() ^ want.keys())
        for key, values in want.items():
            assert got[key].dtype == values.dtype and got[key].tobytes() == values.tobytes(), (name, key)
        with safe_open(folder / name, "numpy") as file:
            metadata = file.metadata()
        listed = next(file for file in manifest["files"] if file["name"] == name)
        assert listed == {"name": name, "bytes": (folder / name).stat().st_size, "seal": metadata["seal"]}, listed
        assert all("hash." + key in metadata for key in want), metadata
    print(f"{len(manifest['files'])} files agree")


main()
