"""NVRTC through ctypes: CUDA C++ to PTX and machine code, with no GPU, driver or toolkit."""

import ctypes as C
import glob
import importlib.util
import os


def find_library():
    """The NVRTC of the nvidia wheels, which torch's CUDA wheels bring too, else the system's."""
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations if spec else []:
        for found in sorted(glob.glob(f"{folder}/*/lib/libnvrtc.so.*")):
            return found
    return "libnvrtc.so"


class Nvrtc:
    """Raises OSError where there is none."""

    def __init__(self):
        self.lib = C.CDLL(os.environ.get("LACONIC_NVRTC") or find_library())
        self.lib.nvrtcGetErrorString.restype = C.c_char_p

    def _call(self, name, *args):
        status = getattr(self.lib, name)(*args)
        if status:
            raise RuntimeError(f"{name}: {self.lib.nvrtcGetErrorString(status).decode()}")

    def version(self):
        major, minor = C.c_int(), C.c_int()
        self._call("nvrtcVersion", C.byref(major), C.byref(minor))
        return f"{major.value}.{minor.value}"

    def architectures(self):
        count = C.c_int()
        self._call("nvrtcGetNumSupportedArchs", C.byref(count))
        numbers = (C.c_int * count.value)()
        self._call("nvrtcGetSupportedArchs", numbers)
        return list(numbers)

    def compile(self, source, name, options, headers):
        """(PTX, machine code, log). `headers` maps names that #include may ask for to texts."""
        program = C.c_void_p()
        texts = (C.c_char_p * len(headers))(*[text.encode() for text in headers.values()])
        names = (C.c_char_p * len(headers))(*[key.encode() for key in headers])
        self._call(
            "nvrtcCreateProgram", C.byref(program), source.encode(), name.encode(), len(headers), texts, names
        )
        try:
            given = (C.c_char_p * len(options))(*[one.encode() for one in options])
            failed = self.lib.nvrtcCompileProgram(program, len(options), given)
            log = self._text(program, "nvrtcGetProgramLog").decode().rstrip("\0")
            if failed:
                raise RuntimeError(log)
            ptx = self._text(program, "nvrtcGetPTX").decode().rstrip("\0")
            return ptx, self._text(program, "nvrtcGetCUBIN"), log
        finally:
            self.lib.nvrtcDestroyProgram(C.byref(program))

    def _text(self, program, getter):
        size = C.c_size_t()
        self._call(getter + "Size", program, C.byref(size))
        text = C.create_string_buffer(size.value)
        self._call(getter, program, text)
        return text.raw
