#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets: small inputs that reach far, and ones that ask for too much.

    seeds.py [FOLDER]    seeds/TARGET/NAME beside this script, or in FOLDER

What a fuzzer found is kept beside them as found-*, and stays.
"""
import gzip
import json
import struct
import sys
from pathlib import Path

TERA = 1 << 40


def tensor(shape, begin, end, dtype="F32"):
    return json.dumps({"dtype": dtype, "shape": shape, "data_offsets": [begin, end]})


def header(tensors, metadata=()):
    """The text of a safetensors header up to where the seal belongs."""
    text = "{" + "".join(f'"{name}":{about},' for name, about in tensors)
    return text + '"__metadata__":{' + "".join(f'"{key}":"{value}",' for key, value in metadata)


def hashes(*names):
    return [(f"hash.{name}", "0" * 16) for name in names]


def sealed(text, payload=b"", mode=b"\1"):
    return mode + struct.pack("<H", len(text.encode())) + text.encode() + payload


def safetensors():
    one = header([("w", tensor([2, 3], 0, 24))], hashes("w"))
    yield "vector", sealed(one, bytes(range(24)))
    both = header([("d", tensor([2], 0, 16, "F64")), ("f", tensor([], 16, 20))], hashes("d", "f") + [("note", "x")])
    yield "two-types", sealed(both, bytes(20))
    yield "empty", sealed(header([("e", tensor([0, TERA], 0, 0))], hashes("e")))
    yield "none", sealed(header([]))
    yield "asks-for-1-tb", sealed(header([("w", tensor([TERA // 4], 0, TERA))], hashes("w")), bytes(24))
    yield "overflows", sealed(header([("w", tensor([1 << 33, 1 << 33], 0, 0))], hashes("w")))
    yield "deep", sealed(header([("w", '{"dtype":' + "[" * 2000 + "]" * 2000 + "}")], hashes("w")))
    yield "raw-long-header", b"\0" + struct.pack("<Q", TERA) + b"{}"
    yield "raw-largest-header", b"\0" + struct.pack("<Q", (1 << 64) - 1) + b"{}" * 100
    yield "raw-plain", b"\0" + struct.pack("<Q", 2) + b"{}"


def manifest(**changes):
    """Of the two-rank checkpoint that the target makes, up to where the seal belongs."""
    ranks = changes.pop("ranks", 1)
    files = ["shared"] + [f"rank{r:05}" for r in range(ranks)]
    text = {
        "format": 1, "algorithm": "zero-one-adam", "config": {"beta1": "0.9"}, "step": 3, "ranks": ranks, "elements": 1000,
        "groups": [{"name": "matrices", "elements": 600, "lr_factor": 1.0, "weight_decay": 0.0, "compress": True}],
        "files": [{"name": f"{name}.safetensors", "bytes": 100, "seal": "0" * 16} for name in files], "extra": {},
    }
    return (json.dumps(text | changes, indent=1)[:-2] + ",\n ").encode()


def checkpoint():
    yield "manifest", b"\1" + manifest()
    yield "manifest-two-ranks", b"\5" + manifest(ranks=2)
    yield "manifest-many-ranks", b"\1" + manifest().replace(b'"ranks": 1', b'"ranks": 2000000000')
    yield "manifest-large-numbers", b"\1" + manifest(step=1e300, elements=-1)
    yield "manifest-of-another-format", b"\1" + manifest(format=2)
    yield "manifest-deep", b"\1" + manifest(extra={"a": 0}).replace(b'"a": 0', b'"a": ' + b"[" * 2000 + b"]" * 2000)
    yield "manifest-raw", b"\0" + manifest() + b'"seal":"0123456789abcdef"\n}\n'
    names = [(f"bucket{b}/{part}", count) for b, count in ((0, 300), (1, 300), (2, 400)) for part in ("m", "pending", "server")]
    at, tensors, places = 0, [], []
    for name, count in names:
        tensors.append((name, tensor([count], at, at + 4 * count)))
        places += [(f"begin.{name}", "0"), (f"spread.{name}", "owned" if name.endswith("server") else "mean")]
        at += 4 * count
    rank = header(tensors, places + hashes(*[name for name, _ in names]))
    yield "rank", sealed(rank, bytes(at), b"\3")
    yield "rank-of-two", sealed(rank, bytes(at), b"\7")
    yield "rank-that-begins-late", sealed(rank.replace('"begin.bucket0/m":"0"', f'"begin.bucket0/m":"{(1 << 64) - 1}"'), bytes(at), b"\7")
    yield "shared-weights", sealed(header([("weights", tensor([1000], 0, 4000))], hashes("weights")), bytes(4000), b"\2")
    yield "shared-other-type", sealed(header([("weights", tensor([1000], 0, 8000, "F64"))], hashes("weights")), bytes(8000), b"\6")


def config():
    toml = '[run]\ntask = "text"\nmodel = "gpt2-mini"\nsteps = 100\nlr = 1e-3\n[optimizer]\nmax_interval = 8\n[schedule]\nwarmup = 0.1\n'
    yield "toml", b"\0" + toml.encode()
    yield "toml-every-section", b"\0" + b"[data]\ncontext = 64\naugment = false\n[model]\nwidth = 8\n[schedule]\ndecay = 'linear'\n"
    yield "toml-largest-steps", b"\0" + b"[run]\nsteps = 9223372036854775807\n[optimizer]\nvariance_freeze_step = 1\n"
    yield "toml-largest-warmup", b"\0" + b"[run]\nsteps = 9223372036854775807\n[schedule]\nwarmup = 1.0\n"
    yield "toml-infinite", b"\0" + b"[run]\nlr = inf\ntimeout = nan\n"
    yield "toml-deep", b"\0" + b"a = " + b"[" * 5000 + b"]" * 5000
    yield "toml-outside", b"\0" + b"steps = 3\n"
    yield "set", b"\1" + b"run.optimizer=birder\noptimizer.exchange=count\nrun.emulate=100mbit,1ms\nrun.ranks=4"
    yield "set-unknown", b"\1" + b"run.optimiser=birder"
    yield "set-auto", b"\1" + b"optimizer.freeze_step=auto\nrun.optimizer=one-bit-adam-bf16\nrun.steps=7"


def record(**changes):
    fields = {"step": 1, "loss": 0.5, "lr": 0.1, "kind": "dense", "bytes": 8, "bytes_total": 8, "seconds": 1.0, "step_seconds": 1.0,
              "exposed_seconds": 0.0, "bad_blocks": 0, "validation_loss": 0.4, "validation_metric": 0.9}
    return json.dumps(fields | changes).encode() + b"\n"


def results():
    yield "metrics", b"\0" + record() + record(step=2, loss=None)
    yield "metrics-torn", b"\0" + record() + record(step=2)[:40]
    yield "metrics-large-numbers", b"\0" + record(step=1e300, bytes=-5)
    yield "metrics-deep", b"\0" + b"[" * 2000 + b"]" * 2000 + b"\n"
    run = {"optimizer": "adamw", "task": "text", "model": "gpt2", "seed": 1, "final_loss": 1.5, "ranks": 2, "steps": 10, "command": ["x"]}
    yield "run", b"\1" + json.dumps(run).encode()
    arm = {"optimizer": "adamw", "runs": ["."], "final_loss_mean": 1.0}
    yield "comparison", b"\1" + json.dumps({"arms": [arm, arm | {"optimizer": "</script>"}], "baseline": "adamw", "task": "t"}).encode()
    yield "comparison-of-nothing", b"\1" + b'{"arms":[]}'
    yield "other-types", b"\1" + json.dumps({key: [1] for key in run}).encode()


def idx(images, labels, form=0):
    return bytes([form]) + struct.pack("<H", len(images)) + images + labels


def idx_seeds():
    images = struct.pack(">IIII", 0x803, 2, 3, 3) + bytes(range(18))
    labels = struct.pack(">II", 0x801, 2) + b"\1\2"
    yield "plain", idx(images, labels)
    yield "gzip", idx(gzip.compress(images, mtime=0), gzip.compress(labels, mtime=0), 4)
    yield "packed-here", idx(images, labels, 8)
    yield "asks-for-1-tb", idx(struct.pack(">IIII", 0x803, 1 << 20, 1 << 10, 1 << 10), labels)
    yield "overflows", idx(struct.pack(">IIII", 0x803, *[0xFFFFFFFF] * 3), labels)
    yield "gzip-asks-for-1-tb", idx(gzip.compress(struct.pack(">IIII", 0x803, 1 << 20, 1 << 10, 1 << 10), mtime=0), labels, 1)
    yield "gzip-of-zeros", idx(gzip.compress(bytes(1 << 20), mtime=0), labels, 1)
    yield "gzip-cut", idx(gzip.compress(images, mtime=0)[:30], labels, 1)
    yield "wrong-label", idx(images, struct.pack(">II", 0x801, 2) + b"\1\x0a")
    yield "thin", idx(struct.pack(">IIII", 0x803, 2, 9, 1) + bytes(18), labels)


def cifar10():
    yield "one", bytes(3073)
    yield "two", (b"\3" + bytes(3072)) * 2
    yield "wrong-label", b"\x0a" + bytes(3072)
    yield "cut", bytes(3000)


def tsv():
    yield "named", b"\x10\0sentence\tlabel\na fine film\t1\na bad one \t0\r\n"
    yield "unnamed", b"\x10\1text\tmark\nfine\t1\nbad\t0\n"
    yield "empty-sentence", b"\x04\0label\tsentence\n1\t\n0\t\n"
    yield "three-columns", b"\x08\2id\tlabel\tsentence\n7\t1\tgood\n8\t0\tpoor\n9\t1\tfine\n"
    yield "ragged", b"\x08\0sentence\tlabel\none\n"


def merges(*pairs):
    return b"\1" + b"".join(struct.pack("<HH", *pair) for pair in pairs)


def tokenizer():
    yield "merges", merges((116, 104), (260, 101), (97, 116))
    yield "none", b"\1"
    # Each token is twice the one before: the last of these would stand for 2^60 bytes.
    yield "asks-for-1-tb", merges((97, 97), *[(token, token) for token in range(260, 319)])
    yield "of-the-future", merges((300, 301))
    yield "of-no-text", merges((256, 257))
    yield "twice", merges((97, 98), (97, 98))
    yield "raw", b"\0laconic bpe 1\n" + bytes(16)


def text():
    yield "words", b"\x20\4the cat sat on the mat. the cat, the mat; 1234 1234\n\nand that was that \xc3\xa9t\xc3\xa9"
    yield "spaces", b"\x08\2" + b"   \t\n " * 20
    yield "letters", b"\xff\x08" + b"a" * 300
    yield "bytes", b"\x40\1" + bytes(range(256))
    yield "short", b"\0\0ab"


def lie(how, payload, at=None):
    place = b"" if at is None else struct.pack("<H", at)
    return bytes([how]) + place + struct.pack("<H", len(payload)) + payload


def wire():
    for kind in (*range(8), 12, 13):
        for place in (0, 1, 6):
            start = bytes([kind]) + struct.pack("<H", 700) + bytes([place])
            yield f"kind{kind}-place{place}-sealed", start + lie(1, b"\xff" * 80) + lie(5, b"\x7f" * 40, 60) + lie(1, bytes(range(99)))
    start = bytes([2]) + struct.pack("<H", 700) + b"\0"
    yield "one-flipped", start + lie(7, b"\x55", 20)
    yield "other-header", start + lie(3, b"LC\1\1")
    yield "other-form", start + lie(6, b"\2", 3)
    yield "negative-scale", start + lie(5, struct.pack("<f", -1.0), 24)
    yield "largest-scales", start + (lie(5, struct.pack("<f", 3.4e38) * 3, 24)) * 12
    yield "nothing", bytes([4]) + b"\0\0\0" + bytes(20)
    for kind in range(8):
        yield f"kind{kind}-short", bytes([kind]) + struct.pack("<H", 700) + b"\0" + b"\xff" + struct.pack("<H", 20)


TARGETS = {"cifar10": cifar10, "checkpoint": checkpoint, "config": config, "idx": idx_seeds, "results": results, "safetensors": safetensors,
           "text": text, "tokenizer": tokenizer, "tsv": tsv, "wire": wire}


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "seeds"
    for target, seeds in TARGETS.items():
        (root / target).mkdir(parents=True, exist_ok=True)
        for name, content in seeds():
            (root / target / name).write_bytes(content)


if __name__ == "__main__":
    main()
