"""The version stands in one file, CMakeLists.txt; the command, the package and its metadata have it from there."""
import importlib.metadata
import re

from launch import ROOT

import laconic

VERSION = re.search(r"project\(laconic VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def test_the_package_has_the_version_of_the_library():
    assert laconic.__version__ == importlib.metadata.version("laconic") == VERSION


def test_no_other_file_states_a_version():
    assert not re.search(r"^version\s*=", (ROOT / "pyproject.toml").read_text(), re.M)
    stated = [path for path in (ROOT / "python").rglob("*.py") if VERSION in path.read_text()]
    stated += [path for top in ("app", "laconic", "python", "cmake") for path in (ROOT / top).rglob("*.[ch]*") if VERSION in path.read_text()]
    assert stated == []
