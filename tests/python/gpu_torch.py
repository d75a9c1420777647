# SPDX-License-Identifier: Apache-2.0
"""A stand-in for a torch that has CUDA, over the stub libraries' memory, which is the host's."""

import ctypes
import threading
from types import SimpleNamespace

_DEVICE_KIND_AT = (
    40  # In a DLManagedTensorVersioned, behind version, context, deleter, flags, data.
)


class Cuda:
    """torch.cuda of a torch with CUDA, as far as the loader and from_dlpack ask it."""

    def __init__(self):
        self.streams = threading.local()
        self.waits = []
        self.is_in_use = False
        self.current = 0
        # Called with a stream behind each hand-over, where torch itself works on a tensor: its work
        # here is the host's, and ordered by no stream.
        self.synchronize = None

    def use(self, handle):
        """Makes a stream this thread's current one."""
        waits = self.waits
        self.streams.current = SimpleNamespace(
            cuda_stream=handle, wait_stream=lambda other: waits.append((handle, other.cuda_stream))
        )

    def current_stream(self, device=None):
        if not hasattr(self.streams, "current"):
            self.use(0)
        return self.streams.current

    def is_initialized(self):
        return self.is_in_use

    def current_device(self):
        return self.current


def give_torch_cuda(monkeypatch):
    """torch as if it had CUDA; tensors of its GPU are over the stubs' memory."""
    import torch

    made = Cuda()
    of_host = torch.from_dlpack

    def from_dlpack(array):
        kind, number = array.__dlpack_device__()
        if kind != 2:
            return of_host(array)
        stream = made.current_stream(f"cuda:{number}").cuda_stream
        capsule = array.__dlpack__(stream=stream or 1, max_version=(1, 0))
        if made.synchronize is not None:
            made.synchronize(stream)
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        managed = pointer(capsule, b"dltensor_versioned")
        place = ctypes.c_int32.from_address(managed + _DEVICE_KIND_AT)
        assert place.value == 2
        place.value = 1
        return torch._C._from_dlpack(capsule)

    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
    monkeypatch.setattr(torch, "from_dlpack", from_dlpack)
    for name in ("current_stream", "is_initialized", "current_device"):
        monkeypatch.setattr(torch.cuda, name, getattr(made, name))
    return made
