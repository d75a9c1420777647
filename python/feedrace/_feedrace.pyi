"""The C++ library of Feedrace, for the package around it."""

from collections.abc import Sequence
from typing import Any

from feedrace import Error as Error


version: str = ...

class DeviceArray:
    """
    Memory of a GPU, which is the consumer's until the last array over it is gone.

    torch.from_dlpack, jax.dlpack.from_dlpack and cupy.from_dlpack take it without a copy, and make
    their stream go on behind the copies to the GPU. Work on another stream must be behind that one's,
    and before it again when the array is dropped.
    """

    @property
    def shape(self) -> tuple: ...

    @property
    def ndim(self) -> int: ...

    @property
    def dtype(self) -> str:
        """"float16", as NumPy and torch spell it."""

    @property
    def nbytes(self) -> int: ...

    @property
    def device(self) -> str:
        """"cuda:0\""""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> DeviceArray:
        """One of the first dimension, without a copy."""

    def __dlpack__(self, *, stream: object | None = ..., max_version: object | None = ..., dl_device: object | None = ..., copy: object | None = ...) -> object:
        """
        stream: None or 1 the default stream, 2 that of each thread, -1 none, or a handle; it goes on behind
        the copies. dl_device=(1, 0) copies to the host.
        """

    def __dlpack_device__(self) -> tuple: ...

    @property
    def __cuda_array_interface__(self) -> dict:
        """Version 3, on the default stream."""

    def __array__(self, *args, **kwargs) -> object:
        """Refused: a copy to the host is asked for by name."""

    def numpy(self) -> object:
        """A copy on the host, of NumPy; waits for it."""

    def hand_over(self, stream: int) -> None:
        """
        Makes a stream, as of __dlpack__, go on behind the copies to the GPU; the memory returns behind what is
        on it when the array is dropped.
        """

    def synchronize(self) -> None:
        """Waits until the memory is filled."""

    def __repr__(self) -> str: ...

class Batch:
    """
    What the loader gives: arrays that hold their memory, also beyond the loader.
    """

    @property
    def size(self) -> int:
        """Number of samples."""

    @property
    def epoch(self) -> int: ...

    @property
    def step(self) -> int:
        """Number of this batch in its epoch, from 0."""

    @property
    def position(self) -> int:
        """In its epoch, of the first sample of all ranks' batches."""

    @property
    def images(self) -> object:
        """
        [N, 3, H, W] or [N, H, W, 3], 64-byte aligned, writable; None when pictures differ in size or are not decoded.
        """

    @property
    def image_list(self) -> list:
        """When pictures differ in size: N of [3, H, W] or [H, W, 3]."""

    def jagged(self) -> tuple:
        """
        Pictures of different sizes as (values [E], offsets int64 [N + 1] in elements, shapes int64 [N, 3]); one copy.
        """

    @property
    def labels(self) -> object:
        """int64 [N]; -1 where the data set has no labels."""

    @property
    def indices(self) -> object:
        """int64 [N]: global numbers of the samples."""

    @property
    def flags(self) -> object:
        """
        uint8 [N]: 0 as stored, 1 a repeat that fills the batch, 2 a stand-in for a bad sample, 3 zeros for a bad one.
        """

    @property
    def keys(self) -> list:
        """[N] of str; Error once the loader is gone."""

    def field(self, name: str) -> object:
        """[N] of bytes as stored; None where a sample has none."""

    @property
    def device(self) -> int:
        """
        Number of the GPU that has images and labels; -1: they are in memory of the host.
        """

    def hand_over(self, stream: int) -> None:
        """
        Makes a stream of CUDA, by its handle (0 the default stream), go on behind the copies to the GPU.
        """

class Loader:
    """
    The loader of C++, as it is. Any thread may use it; calls that move it, or ask where it stands, wait for each other.
    """

    def __init__(self, **kwargs) -> None:
        """
        Opens the data set and makes the plan; nothing is read before the first next().

        Keyword arguments only; None is as good as leaving one out: sources, number_like, image_fields,
        label_field, label_json_key, label_file, cache_dir, subset, repeat, sets, epoch_samples, steps,
        fields, batch_size, shuffle, shuffle_chunk, shuffle_window, seed, last_batch, rank, world_size,
        all_gather, num_threads, prefetch_factor, queue_depth, backend, page_cache, shared_cache, sqpoll,
        iopoll, io_fallback, on_error, error_budget, error_budget_share, quarantine_file, memory_limit
        (bytes), device, decode_device, hardware_share, jpeg_engine, cuda_plugin, cuda_libraries,
        timeout (seconds), max_pixels, crop_index, metrics, live_socket. feedrace.ImageLoader explains them.
        """

    def __del__(*args, **kwargs) -> Any: ...

    def next(self) -> object:
        """
        The next batch; None at the end of the epoch, and the call after that begins the next.
        """

    def pause(self) -> None:
        """
        Ends all threads and gives memory back; next() goes on behind the last batch.
        """

    def interrupt(self, is_on: bool) -> None:
        """
        On: a next() that waits, on whatever thread, gives Error cancelled, until it is off.
        """

    def leave(self) -> None:
        """
        Ends all threads for good, and waits until no thread of Python is inside.
        """

    def set_epoch(self, epoch: int) -> None:
        """Begins the epoch anew, unless a state that was just loaded is in it."""

    def load_state(self, state: str, accept_changed_data: bool = ...) -> list:
        """Goes on from a state; gives what differs and may, one sentence each."""

    def state(self) -> str:
        """One line of JSON: behind the last batch."""

    def state_after(self, batch: Batch) -> str:
        """The state right behind a batch of this loader."""

    def state_before(self, batch: Batch) -> str:
        """The state right before a batch of this loader."""

    def start_trace(self, path: bytes) -> None:
        """Writes what every thread does to a file, until stop_trace()."""

    def stop_trace(self) -> None:
        """Ends the file; Error where it could not be written."""

    def cancel(self) -> None:
        """Ends a next() that waits, for good; from any thread."""

    @property
    def metrics_address(self) -> str:
        """Where metrics are served; empty: nowhere."""

    @property
    def epoch(self) -> int:
        """Of the next batch."""

    def plan_text(self) -> object:
        """The plan for a person."""

    def plan_json(self) -> str:
        """The plan as JSON."""

    def stats(self) -> dict:
        """Counters since the loader was made."""

    def verdict(self, ceilings: str, gpu_dmon: str | None) -> str:
        """
        What limits, as JSON; with what bench ceilings and nvidia-smi dmon wrote.
        """

    def note_handing(self, seconds: float) -> None:
        """Time that Python took to make a batch what the loop gets."""

    @property
    def classes(self) -> list:
        """Names by class number; empty when only numbers are known."""

    @property
    def sample_count(self) -> int:
        """Of the data sets, before any subset."""

    @property
    def stored_fields(self) -> list:
        """Names of the fields that samples have in their shards."""

    def key(self, index: int) -> object:
        """Of a sample."""

    def where(self, index: int) -> object:
        """Where a sample lies, for messages."""

    def label(self, index: int) -> int:
        """Of a sample; -1 where the data set has none."""

    def trace_sample(self, index: int, epoch: int) -> object:
        """
        What is done to a sample in an epoch, step by step, with the numbers drawn for it.
        """

def pack(options: dict, progress: object | None, dry_run: bool) -> tuple[bytes, bytes]:
    """
    Packs, or plans only; the report or plan as JSON, and as lines for a person.
    """

def finish_pack(options: dict, progress: object | None) -> tuple[bytes, bytes]:
    """Makes one set of parts; the report as JSON, and as lines for a person."""

def verify(sources: list, decode: bool, allow_flagged: bool, require: list, bad_file: bytes, threads: int, max_pixels: int, image_fields: Sequence[str] | None, label_field: str, label_json_key: str, label_file: bytes, progress: object | None) -> tuple[str, str]:
    """
    What is wrong with a data set, as JSON, and as lines for a person. Paths and names come as bytes.
    """

def recipe(name: str) -> list:
    """The steps of a recipe."""

def recipe_names() -> list[str]: ...

def gpu_info(plugin: Sequence[str], libraries: Sequence[str]) -> str:
    """
    What of a GPU this machine has, as JSON; plugin and libraries: where they are looked for.
    """

def describe(steps: list) -> dict:
    """
    Checks steps; gives text, notes (what does not fuse, and why), size, dtype, layout.
    """
