# SPDX-License-Identifier: Apache-2.0
"""Loaders that deliver to the stub libraries of CUDA, whose "device" memory is the host's.

The plug-in and the stubs are those of a release build with the preset `release`; tests steer the
stubs by the functions that the stub of the driver exports.
"""

import ctypes
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
BUILD = Path(os.environ.get("FEEDRACE_BUILD", HERE.parent.parent / "build/release"))
PLUGIN = BUILD / "libfeedrace_cuda.so"
STUBS = BUILD / "stubs"
# What a loader needs to be on them.
ON_STUBS = {"cuda_plugin": PLUGIN, "cuda_libraries": STUBS}


class Stubs:
    """The controls of the stubs. Of the whole process: give all back that a test sets."""

    def __init__(self):
        # By the path that the plug-in opens it by: a process has each library once.
        self._driver = ctypes.CDLL(str(STUBS / "libcuda.so.1"))
        self._driver.feedrace_stub_calls.restype = ctypes.c_uint64
        self._driver.feedrace_stub_memory_in_use.restype = ctypes.c_size_t
        self._driver.feedrace_stub_objects.restype = ctypes.c_size_t

    def reset(self):
        self._driver.feedrace_stub_reset()

    def set_devices(self, count):
        self._driver.feedrace_stub_set_devices(count)

    def set_delay_us(self, microseconds):
        self._driver.feedrace_stub_set_delay_us(microseconds)

    def fail(self, call, nth, code):
        self._driver.feedrace_stub_fail(call.encode(), nth, code)

    def calls(self, call):
        return self._driver.feedrace_stub_calls(call.encode())

    @property
    def memory_in_use(self):
        return self._driver.feedrace_stub_memory_in_use()

    @property
    def objects(self):
        return self._driver.feedrace_stub_objects()

    def is_device_memory(self, address, count):
        return bool(
            self._driver.feedrace_stub_is_device_memory(
                ctypes.c_void_p(address), ctypes.c_size_t(count)
            )
        )

    # What a program of the consumer's does by the driver.

    @contextmanager
    def context(self, ordinal=0):
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), ordinal)
        self._call("cuCtxPushCurrent_v2", context)
        yield
        self._call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
        self._call("cuDevicePrimaryCtxRelease_v2", ordinal)

    @contextmanager
    def stream(self):
        """The handle of a new stream; at the end what is on it is waited for."""
        handle = ctypes.c_void_p()
        self._call("cuInit", 0)
        with self.context():
            self._call("cuStreamCreateWithPriority", ctypes.byref(handle), 1, 0)
        try:
            yield handle.value
        finally:
            with self.context():
                self._call("cuStreamDestroy_v2", handle)

    def synchronize(self, stream=0):
        with self.context():
            self._call("cuStreamSynchronize", ctypes.c_void_p(stream))

    def begin_read(self, array, stream):
        """Puts a copy of an array on the stream: its target, and the function that waits."""
        target = np.zeros(array.shape, array.dtype)
        address = ctypes.c_uint64(address_of(array))
        with self.context():
            # Pinned, or the copy would be waited for.
            room = ctypes.c_size_t(target.nbytes)
            self._call("cuMemHostRegister_v2", ctypes.c_void_p(target.ctypes.data), room, 0)
            handle = ctypes.c_void_p(stream)
            self._call(
                "cuMemcpyDtoHAsync_v2", ctypes.c_void_p(target.ctypes.data), address, room, handle
            )

        def end():
            self.synchronize(stream)
            with self.context():
                self._call("cuMemHostUnregister", ctypes.c_void_p(target.ctypes.data))

        return target, end

    def read(self, array, stream):
        """A copy of an array, as work on the stream finds it."""
        target, end = self.begin_read(array, stream)
        end()
        return target

    def _call(self, name, *arguments):
        code = getattr(self._driver, name)(*arguments)
        assert code == 0, f"{name}: {code}"


def address_of(array):
    """Where an array lies, by a capsule that no stream waits for."""
    capsule = array.__dlpack__(stream=-1)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    # The first member of what the capsule has is the tensor, and of that the address.
    return ctypes.c_uint64.from_address(pointer(capsule, b"dltensor")).value


def memory_of(array):
    """What lies at the address of an array on the "device" now, without a copy or a wait."""
    values = (ctypes.c_byte * array.nbytes).from_address(address_of(array))
    return np.frombuffer(values, array.dtype).reshape(array.shape)


def run_python(code, **environment):
    """A program of its own: what it printed. Its environment says what the stubs are like."""
    own = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path]),
        "FEEDRACE_CUDA_PLUGIN": str(PLUGIN),
        "FEEDRACE_CUDA_LIBRARIES": str(STUBS),
        **environment,
    }
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=own, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
