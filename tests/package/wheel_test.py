#!/usr/bin/env python3
"""A wheel as one who installs it sees it: in a fresh environment, without a compiler and without Debian's packages.

    wheel_test.py WHEEL SDIST FOLDER     makes an environment below FOLDER; torch is that of the Python that runs this
"""
import os
import re
import shutil
import subprocess
import sys
import unittest
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WHEEL, SDIST, FOLDER = Path(), Path(), Path()
NATIVE = ("libfmt", "libhwy", "libxxhash")
# Where the loader finds each of these after `import laconic`.
LOADED = """
import re, laconic
names = {line.split()[-1] for line in open("/proc/self/maps") if "/" in line}
print(laconic.__file__)
for name in sorted(names):
    if re.search("lib(fmt|hwy|xxhash)", name): print(name)
"""


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(FOLDER, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", FOLDER], check=True)
        cls.python = FOLDER / "bin" / "python"
        cls.packages = next(FOLDER.glob("lib/python3*/site-packages"))
        subprocess.run([cls.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", WHEEL], check=True)
        # torch is 200 MB of downloads that prove nothing here: it comes from the environment that runs this.
        import torch
        (cls.packages / "torch.pth").write_text(str(Path(torch.__file__).parents[1]) + "\n")

    def run_alone(self, *command):
        """No compiler on the PATH, no variable of this shell."""
        done = subprocess.run([self.python, *map(str, command)], capture_output=True, text=True, cwd=FOLDER, timeout=300,
                              env={"PATH": str(FOLDER / "bin"), "HOME": str(FOLDER), "OMP_NUM_THREADS": "1"})
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done.stdout

    def test_it_is_named_for_every_linux_of_its_time(self):
        self.assertRegex(WHEEL.name, r"manylinux_2_\d+_")

    def test_its_native_libraries_are_inside(self):
        names = zipfile.ZipFile(WHEEL).namelist()
        for library in NATIVE:
            self.assertTrue([n for n in names if re.match(rf"laconic\.libs/{library}", n)], (library, names))
        package, *libraries = self.run_alone("-c", LOADED).splitlines()
        self.assertTrue(package.startswith(str(self.packages)), package)
        self.assertGreaterEqual(len(libraries), len(NATIVE))
        for path in libraries:
            self.assertTrue(path.startswith(str(self.packages)), f"{path} is not the wheel's")

    def test_the_example_trains_under_torchrun(self):
        text = self.run_alone("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", ROOT / "examples/train.py", "60")
        self.assertRegex(text, r"loss [0-9.]+, [0-9.]+ bits per parameter and step")

    def test_the_source_distribution_names_the_packages_that_it_lacks(self):
        done = subprocess.run([sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w", FOLDER / "never", SDIST],
                              capture_output=True, text=True,
                              env=os.environ | {"SKBUILD_CMAKE_DEFINE": "CMAKE_DISABLE_FIND_PACKAGE_fmt=ON;CMAKE_DISABLE_FIND_PACKAGE_xxhash=ON"})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("apt-get install -y libfmt-dev libxxhash-dev", done.stdout + done.stderr)


if __name__ == "__main__":
    WHEEL, SDIST, FOLDER = (Path(word).resolve() for word in sys.argv[1:4])
    del sys.argv[1:4]
    unittest.main()
