"""Event files are read by TensorBoard, where it is installed, and by a reader written from the formats' definitions.

    tensorboard_test.py path/to/event_sample
"""
import math
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SAMPLE = ""


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """The payloads of TFRecord framing: length, its checksum, payload, its checksum."""
    while data:
        length, length_crc = struct.unpack("<QI", data[:12])
        assert masked(data[:8]) == length_crc, "checksum of a length"
        payload, (crc,) = data[12:12 + length], struct.unpack("<I", data[12 + length:16 + length])
        assert masked(payload) == crc, "checksum of a record"
        yield payload
        data = data[16 + length:]


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """(number, value) of each field of a protobuf message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
            assert len(value) == size
        else:
            size, form = {1: (8, "<d"), 5: (4, "<f")}[kind]
            (value,), at = struct.unpack(form, data[at:at + size]), at + size
        yield number, value


def read_events(path):
    for payload in records(path.read_bytes()):
        event = dict(fields(payload))  # Event: 1 wall_time, 2 step, 3 file_version, 5 summary
        values = [dict(fields(value)) for number, value in fields(event.get(5, b"")) if number == 1]  # Value: 1 tag, 2 simple_value
        yield event, {value[1].decode(): value[2] for value in values}


class EventFile(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        subprocess.run([SAMPLE, self.folder.name], check=True, timeout=60)
        (self.path,) = Path(self.folder.name).iterdir()

    def test_name_is_one_that_tensorboard_looks_for(self):
        self.assertIn("tfevents", self.path.name)

    def test_records_hold_what_was_appended(self):
        events = list(read_events(self.path))
        self.assertEqual(len(events), 303)
        self.assertEqual(events[0][0][3], b"brain.Event:2")
        for step in range(1, 301):
            event, values = events[step]
            self.assertEqual(event[2], step)
            self.assertAlmostEqual(event[1], time.time(), delta=3600)
            self.assertAlmostEqual(values["loss/training"], 1 / step, places=6)
            self.assertEqual(values["lr"], 0.5)
        self.assertEqual((events[301][0][2], events[301][1]), (1 << 40, {"loss/validation": -2.25}))
        self.assertTrue(math.isnan(events[302][1]["loss/training"]))

    def test_the_reader_here_sees_a_flipped_bit(self):
        data = bytearray(self.path.read_bytes())
        data[100] ^= 1
        with self.assertRaises(AssertionError):
            list(records(bytes(data)))

    def test_tensorboard_reads_it(self):
        try:
            from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        except ImportError:
            self.skipTest("the package tensorboard is not installed: only the reader of this test was used")
        events = EventAccumulator(self.folder.name, size_guidance={"scalars": 0}).Reload()
        self.assertEqual(set(events.Tags()["scalars"]), {"loss/training", "lr", "loss/validation"})
        self.assertEqual([(e.step, e.value) for e in events.Scalars("lr")], [(step, 0.5) for step in range(1, 301)])


if __name__ == "__main__":
    SAMPLE = sys.argv.pop(1)
    unittest.main()
