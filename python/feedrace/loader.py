# SPDX-License-Identifier: Apache-2.0
"""`ImageLoader`: batches of pictures from a folder, tar shards, or a list."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, NoReturn

from feedrace import _feedrace, arguments, ending
from feedrace.batches import BatchMaker
from feedrace.counterparts import unknown_argument
from feedrace.course import MAX_EPOCH, BatchIterator, Course
from feedrace.errors import check_bool, check_int, check_path, invalid, shown, unknown
from feedrace.opening import open_native
from feedrace.outputs import choose_output
from feedrace.pipeline import Pipeline, PipelineFunction
from feedrace.plan import DatasetView, Plan, Sampler, instead_of_a_data_loader
from feedrace.trace_file import TraceFile
from feedrace.verdict import CachedBatches, Verdict, ceilings_text, dmon_text

__all__ = ["ImageLoader"]

Path = str | PathLike[str]
Transform = str | Pipeline | Callable[..., Any]
DEFAULT_FIELDS = ("image", "label")


class ImageLoader:
    """Batches of decoded, augmented pictures with their labels; one process, native threads.

    ``for images, labels in loader`` gives one epoch; the next loop the next one. A batch is a tuple
    in the order of `fields`: "image" an array [N, 3, H, W] or [N, H, W, 3] as the transform says,
    "label" int64 [N]. An array is the consumer's for as long as it lives; batches that are kept
    take memory of their own, up to `memory_limit`.

    Order, crops and all other random numbers are functions of (seed, epoch, sample): the same for
    any number of threads or ranks, stopped or not.

    Args:
        source: A folder of class folders, tar shards (file, folder, glob or brace pattern) or a
            list (.csv, .jsonl, .txt); several in a list.
        batch_size: Samples of a batch of this rank, 1 to 1,048,576.
        transform: A recipe ("imagenet-train": random crop 224, flip, float16 CHW, normalized;
            "imagenet-val": resize 256, centre crop 224, likewise; "read": no pictures;
            "raw": .npy arrays as they are), a `feedrace.Pipeline`, or a transform of torchvision.
        shuffle: None: by the transform (one that crops at random is for training and shuffles) and
            the source; True or "global": any sample may follow any other; "window": chunks of
            `shuffle_chunk` neighbours, mixed among `shuffle_window`; False or "none": as stored.
        seed: From 0 to 2^64 - 1.
        last_batch: "drop", "pad" (repeats, flagged, the same short batch on all ranks), "partial"
            or "fill" (repeats to a full batch). None: "drop" when shuffling, else "partial", on
            several ranks "pad".
        subset: A dict of "indices", "keys", "key_pattern", "share" ((0, 0.9) of the hashes of keys)
            and "share_salt"; or a list of sample numbers or keys, a range, or an array of integers.
            None: all.
        num_threads: Decode threads. None: the cores that this process may use.
        prefetch_factor: Batches being made or ready ahead of the loop.
        device: Where images and labels are delivered: None or "cpu", host memory; "cuda:1", that
            GPU; "cuda", torch's current GPU once the program has torch use GPUs, else the first;
            "auto": "cuda" where it can be used, else host memory, and the plan says why. A number
            or a torch.device will do. Needs the package feedrace-cuda. Other fields stay on the
            host.
        decode_device: Where JPEG pictures for a GPU are decoded: "cuda", there; "cpu"; "auto":
            there where nvJPEG is and the transform is one fused pass, and the plan says why. What
            nvJPEG refuses is decoded on the CPU, and counted.
        hardware_share: Of encoded bytes, for the GPU's JPEG engine where it has one, in [0, 1].
        jpeg_engine: Who decodes JPEG on the CPU: "feedrace", its own decoder, and libjpeg-turbo
            what is unusual or damaged, counted in `stats()["jpeg"]`; "libjpeg-turbo", all. Pixels
            are the same.
        fields: What a batch consists of: "image", "label", "index" (global sample number, int64
            [N]), "key" (list of str), "flag" (uint8 [N]: 0 real, 1 padded, 2 substituted, 3 blank)
            and any field of the shards ("json", "txt", "cls" and "npy" are parsed, others bytes;
            "txt?" where samples may lack it: None).
        output: "torch", "jax", "numpy" or "dlpack". None: torch where it can be imported, else
            NumPy. On a GPU "dlpack", for CuPy and others, is `feedrace.DeviceArray`; on the host it
            is NumPy.
        ragged: Where the transform leaves pictures of different sizes: "list" of arrays, or
            "jagged": one buffer with offsets, `feedrace.Jagged`, for one copy.
        on_error: Of a sample that can't be read or decoded: "raise"; "replace" by another one;
            "zero", a blank one. Replaced and blank ones are flagged and counted. A further field
            that can't be parsed is None then, counted as "bad_fields".
        error_budget, error_budget_share: Bad samples tolerated in an epoch: a count, and a share
            in [0, 1]. None: any.
        quarantine_file: JSON lines of bad samples are added to it.
        io: "auto", "uring", "direct" (O_DIRECT) or "buffered".
        io_fallback: "warn", or "error" to refuse another way than `io` says.
        page_cache: "auto", "keep" or "drop".
        queue_depth: Reads in flight, 1 to 4096.
        memory_limit: Of this process, as bytes or "4GB". None: half of what is free.
        rank, world_size: Which process of how many. None: from torch.distributed where it is
            initialised, else from the environment of the launcher, else the only one.
        rank_check: With torch.distributed: compare data and settings of all ranks.
        on_unknown: What becomes of members of a torchvision transform that have no native operator:
            "python": they run as Python behind the native part; "error": refused.
        orientation: "upright" turns pictures by EXIF. None: as the transform says ("keep").
        sets: Instead of `source`, several data sets: dicts of "sources", "name", "subset",
            "repeat", "weight" and "number_like".
        number_like: Number the samples as the data set of these sources does, matched by key: an
            order that was saved over a folder goes on over shards that hold it in another order.
        repeat: Passes over the data in an epoch, each in another order.
        epoch_samples: Of an epoch when sets are mixed by weight. None: as many as they have.
        shuffle_chunk, shuffle_window: Samples, for ``shuffle="window"``.
        image_fields: Fields of shards that hold the picture, the first found. None: jpg, jpeg,
            png, webp; in shards without any of these npy, npy.lz4, npy.zst (decoded pictures).
        label_field: "auto", "cls", "json" or "none": where shards have the label.
        label_json_key: The member of the json field that is the label.
        label_file: Lines "key label" that give the labels instead.
        cache_dir: For indexes of shards in folders that can't be written.
        shared_cache: Memory in which the processes of this machine keep encoded samples together:
            "20GB", or a dict of "limit", "name" and "folder".
        timeout: Seconds, above 0, that the loop waits for a batch before an Error names what it
            waits for. None: for ever.
        max_pixels: A larger picture is a bad sample.
        crop_index: "auto": crops are decoded from what ``feedrace index PATH --crop-index`` made,
            where a picture has it, but not with jpeg_engine="libjpeg-turbo"; "off". Pixels are the
            same.
        metrics: Serve them for Prometheus on this port of the loopback, or "0.0.0.0:9400"; 0: any
            free port, and `metrics_address` says which. None: nowhere.
        live_socket: ``feedrace top`` of this user finds the loader while its loop runs.
        sqpoll, iopoll: Of io_uring: a kernel thread submits; completions are polled.
        cuda_plugin: libfeedrace_cuda.so or its folder. None: as the environment's
            FEEDRACE_CUDA_PLUGIN says, else in the package feedrace_cuda, else as the system finds
            it.
        cuda_libraries: Folders with NVIDIA's libraries, before the system's places. None: as
            FEEDRACE_CUDA_LIBRARIES says, else nvidia/cu13/lib in site-packages.

    Raises:
        Error: An argument can't be ("invalid_argument"), nothing is there ("not_found"), the
            storage fails ("io"), or this version or machine lacks something ("unsupported").

    One thread at a time uses a loader. It can't be copied, pickled, or used in a forked child.
    """

    def __init__(
        self,
        source: Path | Sequence[Path] | None = None,
        *extra: NoReturn,
        batch_size: int = 64,
        transform: Transform = "imagenet-train",
        shuffle: bool | Literal["global", "window", "none"] | None = None,
        seed: int = 0,
        last_batch: Literal["drop", "pad", "partial", "fill"] | None = None,
        subset: Mapping[str, Any] | Sequence[int] | Sequence[str] | None = None,
        num_threads: int | None = None,
        prefetch_factor: int = 3,
        device: Any = None,
        decode_device: Literal["auto", "cpu", "cuda"] = "auto",
        hardware_share: float = 0.65,
        jpeg_engine: Literal["feedrace", "libjpeg-turbo"] = "feedrace",
        fields: str | Sequence[str] = DEFAULT_FIELDS,
        output: Literal["torch", "jax", "numpy", "dlpack"] | None = None,
        ragged: Literal["list", "jagged"] = "list",
        on_error: Literal["raise", "replace", "zero"] = "raise",
        error_budget: int | None = None,
        error_budget_share: float | None = None,
        quarantine_file: Path | None = None,
        io: Literal["auto", "uring", "direct", "buffered", "cufile"] = "auto",
        io_fallback: Literal["warn", "error"] = "warn",
        page_cache: Literal["auto", "keep", "drop"] = "auto",
        queue_depth: int = 32,
        memory_limit: int | str | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        rank_check: bool = True,
        on_unknown: Literal["python", "error"] = "python",
        orientation: Literal["keep", "upright"] | None = None,
        sets: Sequence[Mapping[str, Any]] | None = None,
        number_like: Path | Sequence[Path] | None = None,
        repeat: int = 1,
        epoch_samples: int | None = None,
        shuffle_chunk: int = 16,
        shuffle_window: int = 4096,
        image_fields: str | Sequence[str] | None = None,
        label_field: Literal["auto", "cls", "json", "none"] = "auto",
        label_json_key: str = "label",
        label_file: Path | None = None,
        cache_dir: Path | None = None,
        shared_cache: int | str | Mapping[str, Any] | None = None,
        timeout: float | None = 300.0,
        max_pixels: int = 178_956_970,
        crop_index: Literal["auto", "off"] = "auto",
        metrics: int | str | None = None,
        live_socket: bool = True,
        sqpoll: bool | None = None,
        iopoll: bool = False,
        cuda_plugin: Path | Sequence[Path] | None = None,
        cuda_libraries: Path | Sequence[Path] | None = None,
        **others: NoReturn,
    ) -> None:
        # The parameters above, by name; before any other local name exists.
        given = {name: value for name, value in locals().items() if name in arguments.ARGUMENTS}
        self._native: Any = None
        self._consumer_rate: float | None = None  # As `cached` saw it last.
        self._pid = os.getpid()
        if extra:
            fix = "name the others, such as batch_size=64"
            found = f"{1 + len(extra)} arguments without a name, but only the source has none"
            raise invalid(arguments.WHERE, found, fix)
        for name in others:
            raise unknown_argument(arguments.WHERE, name, arguments.ARGUMENTS)
        ending.refuse_at_exit(arguments.WHERE)
        checked = arguments.check(given)
        self._transform = _pipeline_of(checked["transform"], checked["on_unknown"])
        if checked["orientation"] is not None:
            self._transform = self._transform.with_orientation(checked["orientation"])
        needed = self._needed_fields(checked["fields"])
        self._fields: tuple[str, ...] = self._transform.outputs or needed
        self._batch_size: int = checked["batch_size"]
        form = {name: checked[name] for name in ("ragged", "on_error")}
        form["output"] = choose_output(checked["output"])
        opened = open_native({**checked, "fields": needed}, self._transform, form["output"])
        self._native, self._plan = opened
        if self._plan.device != "cpu" and form["output"] == "numpy":
            form["output"] = "dlpack"
        self._maker = BatchMaker(self._native, self._transform, needed, checked["seed"], **form)
        self._course = Course(self._native, self._maker, self._plan)
        # Also at the interpreter's exit: a thread that then asks for its lock, to call a Python
        # function or coming back from next(), would end the process. Not by a reference that holds:
        # a function that refers to this loader would keep it for ever.
        self._finalizer = weakref.finalize(self, _leave, weakref.ref(self._course), self._pid)
        self._log_plan()

    def _needed_fields(self, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """What the native loader must deliver: what is wanted, or what the pipeline works with."""
        own = self._transform.fields
        if own is not None and wanted != DEFAULT_FIELDS:
            fix = "leave it out, or return other fields from the pipeline"
            found = f"fields is {shown(wanted)}, but the pipeline returns its own"
            raise invalid(arguments.WHERE, found, fix)
        fields = wanted if own is None else arguments.fields("fields", own)
        has_images = any(self._transform.step(op) is not None for op in ("decode", "raw"))
        if "image" in fields and not has_images:
            fix = "leave 'image' out: fields=('label', 'index')"
            raise invalid(arguments.WHERE, "the transform delivers no pictures", fix)
        return fields

    def _log_plan(self) -> None:
        if self._plan.rank != 0:
            return
        import logging

        logger = logging.getLogger("feedrace")
        logger.info("%s", self._plan)
        for warning in (*self._plan.warnings, *self._transform.notes):
            logger.warning("%s", warning)

    # What a loop needs.

    def __iter__(self) -> BatchIterator:
        """The rest of the epoch that a state or `set_epoch` named, else the next epoch.

        An iterator that was made before and has not come to its end gives an Error from then on.
        """
        self._living()
        return BatchIterator(self, self._course.begin())

    def __len__(self) -> int:
        """Batches of a whole epoch, the same on each rank."""
        return int(self._plan.steps)

    def __getitem__(self, index: object) -> NoReturn:
        """Refused: a `DataLoader` that is given a loader asks for single samples so."""
        found = "it gives batches in a loop, and has no samples by number"
        raise invalid("ImageLoader", found, instead_of_a_data_loader())

    def _take(self, iterator: BatchIterator) -> tuple[Any, ...] | None:
        """The next batch of an iterator; None at the epoch's end."""
        self._living()
        return self._course.take(iterator)

    def _leave(self, iterator: BatchIterator) -> None:
        """An iterator was dropped before its end."""
        # At the interpreter's exit the loader may have ended before its iterators.
        if self._native is not None and self._finalizer.alive and not self._is_forked():
            self._course.leave(iterator)

    # Epochs and states.

    @property
    def epoch(self) -> int:
        """The epoch of the next batch; at the end of an epoch already the following one."""
        self._living()
        return self._course.epoch

    def set_epoch(self, epoch: int) -> None:
        """Begins this epoch anew with the next loop.

        Right after `load_state_dict`, the epoch of the state keeps its position. A loop that is in
        the middle of an epoch ends with it: its iterator gives an Error.
        """
        self._living()
        self._course.set_epoch(check_int("set_epoch", "epoch", epoch, 0, MAX_EPOCH))

    def state_dict(self) -> dict[str, Any]:
        """Where the loop stands: behind the last batch that it got. About a kilobyte of plain data.

        The same on every rank; take any rank's, for any number of ranks.
        """
        self._living()
        state: dict[str, Any] = json.loads(self._course.state())
        return state

    def load_state_dict(
        self, state: Mapping[str, Any], *, accept_changed_data: bool = False
    ) -> None:
        """Goes on behind the batch after which the state was taken, in constant time.

        Threads, ranks, batch size, and whether samples lie in a folder or in shards may differ.
        What differs is logged as a warning. A loop that is in the middle of an epoch ends with it.

        Args:
            state: What `state_dict` gave, also by way of JSON.
            accept_changed_data: Go on although the same number of samples has other content.

        Raises:
            Error: The state is damaged, newer, or of other data or settings; nothing has changed.
        """
        self._living()
        if not isinstance(state, Mapping):
            fix = "give the dict that state_dict() returned"
            raise invalid("load_state_dict", f"state is {shown(state)}", fix)
        try:
            text = json.dumps(dict(state), allow_nan=False)
        except (TypeError, ValueError, RecursionError) as e:
            fix = "give the dict that state_dict() returned, as it was"
            raise invalid("load_state_dict", f"state can't be JSON ({e})", fix) from e
        accept = check_bool("load_state_dict", "accept_changed_data", accept_changed_data)
        notes = self._course.load_state(text, accept)
        if notes and self._plan.rank == 0:
            import logging

            for note in notes:
                logging.getLogger("feedrace").warning("%s", note)

    @property
    def sampler(self) -> Sampler:
        """Has `set_epoch` and the state, where trainers look for them."""
        return Sampler(self)

    @property
    def batch_sampler(self) -> None:
        """There is none. Lightning asks every loader that has a sampler."""
        return None

    # What there is to know.

    @property
    def batch_size(self) -> int:
        return self._batch_size

    @property
    def fields(self) -> tuple[str, ...]:
        """What a batch consists of, in order."""
        return self._fields

    @property
    def transform(self) -> Pipeline:
        return self._transform

    @property
    def plan(self) -> Plan:
        """What will happen, known before the first read."""
        return self._plan

    @property
    def dataset(self) -> DatasetView:
        """The samples that `subset` chose, by number: `len`, `sample_count`, `key`, `label`."""
        return DatasetView(self._living())

    @property
    def classes(self) -> list[str]:
        """Class names by number, as torchvision's ImageFolder numbers them; empty where unknown."""
        return self.dataset.classes

    @property
    def class_to_idx(self) -> dict[str, int]:
        return self.dataset.class_to_idx

    def stats(self) -> dict[str, Any]:
        """Counters since the loader was made: samples, bytes by path, stages, fallbacks, ...

        "jpeg" has pictures by who decoded them. "crop_indexed" counts those decoded with their crop
        index (``loader.plan.crop_index`` says of how many there is one), "crop_index_refused" those
        whose index did not fit. All three are with what is read ahead: compare them with each
        other, not with "samples".
        """
        return {**self._living().stats(), "bad_fields": self._maker.bad_fields}

    @property
    def metrics_address(self) -> str:
        """ "127.0.0.1:9400", where metrics are served until `close`; "" where they are not."""
        return str(self._living().metrics_address)

    def verdict(
        self, ceilings: Path | Mapping[str, Any] | None = None, dmon: Path | None = None
    ) -> Verdict:
        """Why batches do not come faster: what limits, evidence, ceilings, remedies and gains.

        It speaks of the last half of the run or more, so ask while the loop runs, or behind it.

        Args:
            ceilings: What ``feedrace bench ceilings PATH --json`` wrote, as a file or its content:
                with it gains are predicted that a run alone can't tell. What `cached` measured is
                known anyway.
            dmon: What ``nvidia-smi dmon -s u`` wrote while the loop ran: a loop that never waits is
                limited by the GPU only if that was busy.

        Raises:
            Error: `ceilings` or `dmon` is something else, or can't be read.
        """
        measured = ceilings_text(ceilings, self._consumer_rate)
        return Verdict.of_json(self._living().verdict(measured, dmon_text(dmon)))

    def cached(self, steps: int = 50) -> CachedBatches:
        """One batch, `steps` times, for a loop that shall show how fast it is by itself.

        ::

            for images, labels in (cached := loader.cached(100)):
                train(images, labels)
            print(cached.images_per_second)  # No loader makes it faster.

        The loader stands where it stood before; a loop that is in the middle of an epoch ends.
        """
        self._living()
        return CachedBatches(self, check_int("cached", "steps", steps, 1, 1 << 40))

    def explain(self) -> str:
        """The verdict in a line; then what does not fuse, and what Python costs."""
        verdict = str(self.verdict())
        own = [*self._transform.notes, *self._transform.unfused, *self._maker.sentences()]
        return "\n".join([verdict, *own])

    def trace(self, file: Path) -> TraceFile:
        """Writes what every thread does to a file, for ui.perfetto.dev or chrome://tracing.

        It begins at once, and ends with its ``with``, with its ``stop()``, or with the loader::

            with loader.trace("trace.json"):
                for images, labels in loader:
                    ...
        """
        return TraceFile(self, check_path("trace", "file", file))

    def trace_sample(self, index: int, epoch: int = 0) -> list[dict[str, Any]]:
        """What is done to a sample in an epoch, step by step, with the numbers drawn for it."""
        number = check_int("trace_sample", "index", index, 0, self.dataset.sample_count - 1)
        checked = check_int("trace_sample", "epoch", epoch, 0, MAX_EPOCH)
        return list(self._living().trace_sample(number, checked))

    # Its end.

    def close(self) -> None:
        """Ends all threads and gives memory back, for good. Batches that are kept stay valid."""
        native, self._native = self._native, None
        if native is None or self._is_forked():
            return
        self._finalizer.detach()
        native.cancel()
        self._course.stop()
        del self._course, self._maker

    def __enter__(self) -> ImageLoader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        fix = (
            "make it in the process that uses it, from the same arguments; a state_dict() is what "
            "travels. It needs no worker processes: DataLoader(num_workers=0)"
        )
        found = "it can't be copied, pickled or sent to another process: it has threads of its own"
        raise invalid("ImageLoader", found, fix)

    def __repr__(self) -> str:
        if self._native is None:
            return "<feedrace.ImageLoader, closed>"
        plan = self._plan
        return (
            f"<feedrace.ImageLoader of {plan.epoch_samples} samples an epoch, {len(self)} batches "
            f"of {self._batch_size} on rank {plan.rank} of {plan.world_size}, {self._transform}>"
        )

    def _is_forked(self) -> bool:
        return os.getpid() != self._pid

    def _living(self) -> Any:
        """The native loader, if it may be used."""
        if self._native is None:
            raise invalid("ImageLoader", "it is closed", "make another one")
        if self._is_forked():
            found = f"it was made in process {self._pid} and is used in its forked child"
            fix = "threads don't survive a fork: make it in the child, or start that by 'spawn'"
            raise invalid("ImageLoader", found, fix)
        return self._native


def _leave(course_of: weakref.ref[Course], pid: int) -> None:
    course = course_of()
    if course is not None and os.getpid() == pid:  # In a forked child there is nothing to end.
        course.leave_for_good()


def _pipeline_of(transform: Any, on_unknown: Literal["python", "error"]) -> Pipeline:
    """What may be given as `transform`, as a pipeline."""
    if isinstance(transform, Pipeline):
        return transform
    if isinstance(transform, str):
        known = _feedrace.recipe_names()
        if transform not in known:
            raise unknown("ImageLoader: transform", "recipe", transform, known)
        return Pipeline.recipe(transform)
    fix = "give a recipe's name, a feedrace.Pipeline, or a transform of torchvision"
    if isinstance(transform, PipelineFunction):
        fix = f"call it, which gives a loader: {transform.__name__}(source)"  # type: ignore
        raise invalid(arguments.WHERE, f"transform is {shown(transform)}", fix)
    families = {base.__module__.partition(".")[0] for base in type(transform).__mro__}
    if not families & {"torch", "torchvision"}:
        if callable(transform):
            fix += "; your own functions run as fr.fn.python_function in a @fr.pipeline"
        raise invalid(arguments.WHERE, f"transform is {shown(transform)}", fix)
    from feedrace.transforms import translate

    made: Pipeline = translate(transform, on_unknown=on_unknown)
    return made
