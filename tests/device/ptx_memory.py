"""Memory for ptx_emulator.py, which notices races and stray addresses."""

import numpy as np

NOBODY, MANY, ATOMIC = -1, -2, -3


class Touched:
    """Memory that knows which thread touched each byte since the last `forget`."""

    def __init__(self, size):
        self.bytes = np.full(size, 0xA5, np.uint8)
        self.valid = np.zeros(size, bool)
        self.writer, self.reader = np.empty((2, size), np.int32)
        self.forget()

    def forget(self):
        self.writer[:], self.reader[:] = NOBODY, NOBODY

    def _bytes_at(self, at, size):
        assert not (at % size).any(), "misaligned"
        assert at.min() >= 0 and at.max() + size <= len(self.valid), "outside the memory"
        which = at[:, None] + np.arange(size)
        assert self.valid[which].all(), "outside the arrays"
        return which

    def load(self, at, size, threads):
        if not len(at):
            return np.zeros((0, size), "u1")
        which, me = self._bytes_at(at, size), threads[:, None]
        writer, reader = self.writer[which], self.reader[which]
        assert ((writer == NOBODY) | (writer == me)).all(), "race: reads what another wrote"
        self.reader[which] = np.where((reader == NOBODY) | (reader == me), me, MANY)
        now = self.reader[which]
        if (now != me).any():
            self.reader[which[now != me]] = MANY
        return self.bytes[which]

    def store(self, at, data, threads, atomic=False):
        if not len(at):
            return
        which, me = self._bytes_at(at, data.shape[1]), threads[:, None]
        writer, reader = self.writer[which], self.reader[which]
        mine = np.broadcast_to(np.int32(ATOMIC), me.shape) if atomic else me
        assert ((writer == NOBODY) | (writer == mine)).all(), "race: writes what another wrote"
        assert ((reader == NOBODY) | (reader == me)).all(), "race: writes what another read"
        self.writer[which] = mine
        assert (self.writer[which] == mine).all(), "race: two lanes write to one place"
        self.bytes[which] = data


class Memory(Touched):
    """The device's memory. `place` copies an array in and gives its address, `fetch` copies out."""

    BASE, GUARD = 0x7000_0000_0000, 256

    def __init__(self, size):
        super().__init__(size)
        self.end = self.GUARD

    @staticmethod
    def room_for(sizes):
        return 2 * Memory.GUARD + sum(-(-size // 256) * 256 + 2 * Memory.GUARD for size in sizes)

    def place(self, data):
        at, size = self.end, len(data)
        self.bytes[at : at + size] = data
        self.valid[at : at + size] = True
        self.end = -(-(at + size + self.GUARD) // 256) * 256
        return self.BASE + at

    def fetch(self, address, size):
        return self.bytes[address - self.BASE :][:size].copy()
