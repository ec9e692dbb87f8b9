"""What scripts that check the sources by rules share: the command line, and a tree of small files to try them on.

    SCRIPT [ROOT]         prints each violation as file:line, exits with 1 if there is one
    SCRIPT --self-test    shows that each kind of violation is caught
"""
import sys
import tempfile
from pathlib import Path


def found_in(violations, *trees):
    """What `violations(root)` yields in a tree of files, {path: text}, after each of the trees was added to it."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for files in trees:
            for path, text in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text + "\n")
            yield list(violations(root))


def expect(found, wanted):
    """REQUIRES: one violation for each place of `wanted`, "path:line:", and no other."""
    places = [line.split(" ")[0] for line in found]
    assert sorted(places) == sorted(wanted), "\n".join(found)


def run(violations, self_test, well):
    if "--self-test" in sys.argv:
        return self_test()
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = list(violations(root))
    print("\n".join(found) or well)
    return 1 if found else 0
