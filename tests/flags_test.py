#!/usr/bin/env python3
"""Every file that computes rounds each operation: with fused multiply-adds a machine that has them (ARM) would decide
differently from one that has not.

    flags_test.py BUILD/compile_commands.json
"""
import json
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = ""
FLAG = "-ffp-contract=off"
OURS = {"app", "laconic", "python", "tests"}  # those of examples are up to who builds them


def folder_of(file):
    """Files that CMake compiles as one stand below the build folder as their CMakeLists.txt does below ours."""
    build = Path(COMMANDS).resolve().parent
    if file.name.startswith("unity_") and file.is_relative_to(build):
        first = file.relative_to(build).parts[0]
        return "laconic" if first == "CMakeFiles" else first
    return file.relative_to(ROOT).parts[0] if file.is_relative_to(ROOT) else ""


class Flags(unittest.TestCase):
    def test_no_file_of_the_project_is_compiled_with_fused_operations(self):
        seen, fused, together = set(), [], 0
        for entry in json.loads(Path(COMMANDS).read_text()):
            file = Path(entry["directory"], entry["file"]).resolve()
            folder = folder_of(file)
            if folder in OURS:
                seen.add(folder)
                together += file.name.startswith("unity_")
                words = entry["command"].split()
                last = [word for word in words if word.startswith("-ffp-contract")][-1:]
                if last != [FLAG] or "-ffast-math" in words:
                    fused.append(str(file.relative_to(ROOT)))
        self.assertLessEqual({"app", "laconic", "tests"}, seen)
        self.assertGreater(together, 0, "no unity_*.cxx was looked at: is LACONIC_UNITY off?")
        self.assertEqual(sorted(fused), [])


if __name__ == "__main__":
    COMMANDS = sys.argv.pop(1)
    unittest.main()
