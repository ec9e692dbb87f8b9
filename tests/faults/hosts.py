"""Two "hosts" of this machine, a network namespace each, joined by a link that can be cut or slowed. Needs root."""
import contextlib
import itertools
import os
import subprocess

ADDRESSES = ("10.77.1.1", "10.77.1.2")
DEVICE = "eth0"
_numbers = itertools.count()


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


class Hosts:
    def __init__(self, names):
        self.names = names

    def on(self, host, command):
        return ["ip", "netns", "exec", self.names[host], *command]

    def cut(self):
        ip("-n", self.names[0], "link", "set", DEVICE, "down")

    def slow(self, rate):
        for host in (0, 1):
            shape = f"tc qdisc add dev {DEVICE} root tbf rate {rate} burst 16kb limit 256kb"
            subprocess.run(self.on(host, shape.split()), check=True, capture_output=True)


@contextlib.contextmanager
def joined():
    names = [f"laconic-faults-{os.getpid()}-{next(_numbers)}" for _ in ADDRESSES]
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", DEVICE, "netns", names[0], "type", "veth", "peer", "name", DEVICE, "netns", names[1])
        for name, address in zip(names, ADDRESSES):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", DEVICE)
            for device in ("lo", DEVICE):
                ip("-n", name, "link", "set", device, "up")
        yield Hosts(names)
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def available():
    """Whether such hosts can be made here."""
    try:
        with joined():
            return True
    except (OSError, subprocess.CalledProcessError):
        return False
