"""`boxscore devices`: compare and time every way to evaluate arrays, on every device of this machine.

For each device of PyTorch, JAX and TensorFlow, each geometry and each way: whether the bits are those of host memory,
reads that block, times, memory. PyTorch's ways are also counted on the counting device, which needs no accelerator.
"""

import argparse
import contextlib
import gc
import importlib
import os
import platform
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import boxscore
from boxscore._support import text
from boxscore.cli import arguments
from boxscore.cli.outputs import as_json, check_outputs, deliver
from boxscore.cli.parsing import HelpFormatter
from boxscore.cli.terminal import Outcome, Progress

FRAMEWORKS = {"torch": "PyTorch", "jax": "JAX", "tensorflow": "TensorFlow"}
HOST_COPY = "host copy"
"""The way that the others are compared with: the caller copies each array to host memory."""
SLOW = 3.0
"""A way whose first update takes this many seconds is timed once, with one update."""
REPEATS = 3
"""Number of times that other ways are timed; the fastest counts."""

_EXAMPLES = """\
examples:
  boxscore devices
  boxscore devices --frameworks torch --json devices.json   # to send with a report
  boxscore devices --images 64 --updates 20"""


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "devices",
        help="check and time evaluation on the accelerators of this machine",
        description="Check and time evaluation on the devices of PyTorch, JAX and TensorFlow.",
        epilog=_EXAMPLES,
        formatter_class=HelpFormatter,
    )
    parser.add_argument(
        "--frameworks",
        type=frameworks,
        default=tuple(FRAMEWORKS),
        metavar="NAMES",
        help="only these frameworks: torch,jax,tensorflow (default: all that are installed)",
    )
    parser.add_argument(
        "--images", type=arguments.positive, default=16, metavar="N", help="images per update (default: 16)"
    )
    parser.add_argument(
        "--updates", type=arguments.positive, default=5, metavar="N", help="updates that are timed (default: 5)"
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write all results as JSON; `-`: to stdout, instead of the table"
    )
    arguments.add_quiet(parser)
    parser.set_defaults(run=run)


def frameworks(words: str) -> tuple[str, ...]:
    """Names of frameworks, separated by commas."""
    names = tuple(arguments.words(words))
    if unknown := [name for name in names if name not in FRAMEWORKS]:
        raise argparse.ArgumentTypeError(f"must be among {', '.join(FRAMEWORKS)}; got {unknown[0]!r}")
    return names


def run(options: argparse.Namespace) -> Outcome:
    """Measure, print the tables, write the JSON. The exit code is 1 if any bits differ or a way fails."""
    check_outputs(options)
    installed = [name for name in options.frameworks if find_spec(name) is not None]
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow greets on stderr
    cases = [make(options.images) for make in (_boxes, _masks, _poses, _oriented)]
    rows: list[Row] = []
    with Progress(len(installed) + 1, is_quiet=options.quiet) as progress, _double_precision(installed):
        for name in installed:
            progress.step(FRAMEWORKS[name])
            for device in _DEVICES[name]():
                rows += _measure(device, cases, options.updates)
        if "torch" in installed:
            progress.step("counting device")
            rows += _count(cases)
    versions = {name: _module(name).__version__ if name in installed else None for name in options.frameworks}
    document = {
        "boxscore": boxscore.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "frameworks": versions,
        "images": options.images,
        "updates": options.updates,
        "rows": [{name: value for name, value in row._asdict().items() if value is not None} for row in rows],
    }
    is_right = all(row.bits in ("equal", "single") for row in rows)
    documents = {"json": lambda: as_json(document)}
    return deliver(options, documents, lambda: _tables(document, rows), 0 if is_right else 1)


class Row(NamedTuple):
    """One way to evaluate one geometry on one device. None: not measured there."""

    framework: str
    device: str
    geometry: str
    way: str
    bits: str
    """"equal" to the result from host memory, "differ", "failed", or "single": equal to 1e-6, in single precision."""
    error: str | None = None
    update_ms: float | None = None
    """The median time that an update keeps the training loop waiting."""
    total_ms: float | None = None
    """All updates and the result, per update."""
    memory_bytes: int | None = None
    """The most memory that was taken in addition: of the device, or of the process if the device is the CPU."""
    reads: int | None = None
    """Times that an update waits for the device."""
    launches: int | None = None
    copies_to_device: int | None = None
    copies_to_host: int | None = None
    bytes_to_host: int | None = None


class Case(NamedTuple):
    """A batch of one geometry in host memory: one dict per image, and the same as padded arrays."""

    geometry: str
    settings: dict[str, Any]
    preds: list[dict[str, Any]]
    targets: list[dict[str, Any]]


class Device:
    """A device of a framework. This class is the CPU; others replace what they do otherwise."""

    def __init__(self, framework: str, name: str, place: Callable[[Any], Any]) -> None:
        self.framework, self.name, self.place = framework, name, place

    def wait(self) -> None:
        """Wait until all work on the device is done."""

    def start_memory(self) -> int | None:
        """Begin to measure memory; the memory in use in bytes, or None if it can't be measured."""
        with contextlib.suppress(OSError):
            with open("/proc/self/clear_refs", "w") as file:  # noqa: PTH123 (Linux; reset the peak)
                file.write("5")
            return _status("VmRSS")
        return None

    def peak_memory(self) -> int:
        """The most memory in use since `start_memory`."""
        return _status("VmHWM")

    @contextlib.contextmanager
    def reads(self) -> Iterator[Callable[[], int | None]]:
        """Count how often the host waits for the device inside the block."""
        yield lambda: None


def _status(name: str) -> int:
    with open("/proc/self/status") as file:  # noqa: PTH123 (Linux)
        line = next(line for line in file if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


class TorchAccelerator(Device):
    """CUDA, MPS and XPU."""

    def wait(self) -> None:
        """Wait until all work on the device is done."""
        getattr(_module("torch"), self.name.partition(":")[0]).synchronize()

    def start_memory(self) -> int | None:
        """Begin to measure memory; only CUDA tells its peak."""
        torch = _module("torch")
        if not self.name.startswith("cuda"):
            return None
        torch.cuda.reset_peak_memory_stats(self.name)
        return int(torch.cuda.memory_allocated(self.name))

    def peak_memory(self) -> int:
        """The most memory in use since `start_memory`."""
        return int(_module("torch").cuda.max_memory_allocated(self.name))

    @contextlib.contextmanager
    def reads(self) -> Iterator[Callable[[], int | None]]:
        """Count the warnings of CUDA's sync debug mode."""
        if not self.name.startswith("cuda"):
            yield lambda: None
            return
        torch = _module("torch")
        before = torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings(record=True, action="always") as caught:
            torch.cuda.set_sync_debug_mode("warn")
            try:
                yield lambda: sum("synchroniz" in str(each.message) for each in caught)
            finally:
                torch.cuda.set_sync_debug_mode(before)


class JaxAccelerator(Device):
    """GPUs and TPUs, whose peaks of memory can't be reset."""

    def wait(self) -> None:
        """Wait until all work on the device is done."""
        (self.place(0.0) + 1).block_until_ready()

    def start_memory(self) -> int | None:
        """Measure nothing."""
        return None


class TensorFlowAccelerator(Device):
    """GPUs and TPUs."""

    def wait(self) -> None:
        """Wait until all work on the device is done."""
        _module("tensorflow").test.experimental.sync_devices()

    def start_memory(self) -> int | None:
        """Begin to measure memory, where TensorFlow can."""
        memory = _module("tensorflow").config.experimental
        try:
            memory.reset_memory_stats(self.name)
            return int(memory.get_memory_info(self.name)["current"])
        except ValueError:
            return None

    def peak_memory(self) -> int:
        """The most memory in use since `start_memory`."""
        return int(_module("tensorflow").config.experimental.get_memory_info(self.name)["peak"])


def _module(name: str) -> Any:
    return importlib.import_module(name)


def _torch_devices() -> Iterator[Device]:
    torch = _module("torch")
    yield Device("torch", "cpu", torch.from_numpy)
    names = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        names.append("mps")
    if hasattr(torch, "xpu") and torch.xpu.is_available():
        names += [f"xpu:{index}" for index in range(torch.xpu.device_count())]
    for name in names:
        yield TorchAccelerator("torch", name, partial(_to_torch, device=name))


def _to_torch(array: Any, *, device: str) -> Any:
    return _module("torch").from_numpy(array).to(device)


def _jax_devices() -> Iterator[Device]:
    jax = _module("jax")
    for each in {str(each): each for each in (*jax.devices("cpu")[:1], *jax.devices())}.values():
        is_host = each.platform == "cpu"
        name = "cpu" if is_host and each.id == 0 else f"{each.platform}:{each.id}"
        kind = Device if is_host else JaxAccelerator
        yield kind("jax", name, partial(jax.device_put, device=each))


def _tensorflow_devices() -> Iterator[Device]:
    tf = _module("tensorflow")
    for each in tf.config.list_logical_devices():
        is_host = each.device_type == "CPU"
        name = "cpu" if is_host else each.name.removeprefix("/device:")

        def place(array: Any, to: str = each.name) -> Any:
            with tf.device(to):
                return tf.identity(tf.convert_to_tensor(array))

        if each.device_type in ("CPU", "GPU", "TPU"):
            yield (Device if is_host else TensorFlowAccelerator)("tensorflow", name, place)


_DEVICES: Mapping[str, Callable[[], Iterator[Device]]] = {
    "torch": _torch_devices,
    "jax": _jax_devices,
    "tensorflow": _tensorflow_devices,
}


@contextlib.contextmanager
def _double_precision(frameworks: Sequence[str]) -> Iterator[None]:
    """Let JAX have double precision inside the block, if it is among the frameworks."""
    if "jax" not in frameworks:
        yield
        return
    config = _module("jax").config
    before = config.jax_enable_x64
    config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        config.update("jax_enable_x64", before)


# Data


def _boxes(num_images: int) -> Case:
    """100 boxes and 20 truths per image, of ten classes, with ties in score."""
    import numpy as np

    random = np.random.default_rng(0)
    preds, targets = [], []
    for _ in range(num_images):
        corner = random.uniform(0, 500, (20, 2))
        truths = np.concatenate([corner, corner + random.lognormal(4, 0.8, (20, 2))], axis=1)
        labels = random.integers(0, 10, 20)
        row = random.integers(0, 20, 100)
        near = truths[row] + random.normal(0, 6, (100, 4))
        boxes = np.concatenate([near[:, :2], np.maximum(near[:, :2], near[:, 2:])], axis=1).astype(np.float32)
        preds.append(_found(random, {"boxes": boxes}, labels[row]))
        targets.append({"boxes": truths.astype(np.float32), "labels": labels, "iscrowd": random.random(20) < 0.1})
    return Case("boxes", {"protocol": "coco"}, preds, targets)


def _masks(num_images: int) -> Case:
    """20 masks and 8 truths per image of 160 x 160 pixels."""
    import numpy as np

    random = np.random.default_rng(1)
    y, x = np.mgrid[:160, :160]
    preds, targets = [], []
    for _ in range(num_images):
        middle, size, labels = random.uniform(20, 140, (8, 2)), random.uniform(5, 50, (8, 2)), random.integers(0, 3, 8)
        row = random.integers(0, 8, 20)

        def ellipses(middle: Any, size: Any) -> Any:
            across, down = (
                (x - middle[:, :1, None]) / size[:, :1, None],
                (y - middle[:, 1:, None]) / size[:, 1:, None],
            )
            return across**2 + down**2 < 1

        found = ellipses(middle[row] + random.normal(0, 3, (20, 2)), size[row] * random.lognormal(0, 0.1, (20, 2)))
        preds.append(_found(random, {"masks": found}, labels[row]))
        targets.append({"masks": ellipses(middle, size), "labels": labels, "iscrowd": random.random(8) < 0.1})
    return Case("masks", {"protocol": "coco", "iou_type": "segm"}, preds, targets)


def _poses(num_images: int) -> Case:
    """20 poses and 6 truths per image, of one class."""
    import numpy as np

    random = np.random.default_rng(2)
    preds, targets = [], []
    for _ in range(num_images):
        points, row = random.uniform(0, 300, (6, 17, 2)), random.integers(0, 6, 20)
        near = points[row] + random.normal(0, 5, (20, 17, 2))
        found = np.concatenate([near, np.ones((20, 17, 1))], axis=2).astype(np.float32)
        true = np.concatenate([points, random.integers(0, 3, (6, 17, 1))], axis=2).astype(np.float32)
        preds.append(_found(random, {"keypoints": found}, np.ones(20, np.int64)))
        area = random.uniform(2000, 20000, 6).astype(np.float32)
        targets.append({"keypoints": true, "labels": np.ones(6, np.int64), "area": area})
    return Case("keypoints", {"protocol": "coco_keypoints"}, preds, targets)


def _oriented(num_images: int) -> Case:
    """50 oriented boxes and 15 truths per image."""
    import numpy as np

    random = np.random.default_rng(3)
    preds, targets = [], []
    for _ in range(num_images):
        middle, size = random.uniform(0, 400, (15, 2)), random.uniform(10, 90, (15, 2))
        truths = np.concatenate([middle, size, random.uniform(-1.5, 1.5, (15, 1))], axis=1)
        labels, row = random.integers(0, 5, 15), random.integers(0, 15, 50)
        boxes = truths[row] + random.normal(0, 1, (50, 5)) * [3, 3, 2, 2, 0.05]
        preds.append(_found(random, {"boxes": boxes.astype(np.float32)}, labels[row]))
        targets.append({"boxes": truths.astype(np.float32), "labels": labels})
    return Case("oriented boxes", {"protocol": "coco", "box_format": "cxcywha:radians"}, preds, targets)


def _found(random: Any, shapes: dict[str, Any], labels: Any) -> dict[str, Any]:
    """A dict of detections, of which every image has another number."""
    import numpy as np

    num = int(random.integers(len(labels) // 2, len(labels) + 1))
    scores = (random.integers(1, 200, len(labels)) / 200).astype(np.float32)
    return {name: column[:num] for name, column in {**shapes, "scores": scores, "labels": labels}.items()}


def _padded(images: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Dicts as one padded batch; a label of -1 is padding."""
    import numpy as np

    length = max(len(image["labels"]) for image in images)

    def pad(column: Any, fill: int) -> Any:
        rest = np.full((length - len(column), *column.shape[1:]), fill, column.dtype)
        return np.concatenate([column, rest])

    return {key: np.stack([pad(image[key], -1 if key == "labels" else 0) for image in images]) for key in images[0]}


# Ways


class Stream(NamedTuple):
    """An evaluation that has begun: what a training loop calls for each batch, and at the end."""

    update: Callable[[], object]
    compute: Callable[[], Any]


Way = Callable[[Case, Callable[[Any], Any], int], Stream]
"""Begins an evaluation on a device, of at most a number of updates."""


def _in_host_memory(case: Case, place: Callable[[Any], Any] = lambda array: array, num_updates: int = 0) -> Stream:  # noqa: ARG001
    metric = _metric(case)
    preds, targets = _placed(case, place)
    return Stream(lambda: metric.update(preds, targets), metric.compute)


def _copied(case: Case, place: Callable[[Any], Any], num_updates: int) -> Stream:  # noqa: ARG001
    from boxscore.arrays import to_numpy

    metric = _metric(case)
    sides = _placed(case, place)

    def update() -> None:
        metric.update(*([{key: to_numpy(value) for key, value in each.items()} for each in side] for side in sides))

    return Stream(update, metric.compute)


def _padded_arrays(case: Case, place: Callable[[Any], Any], num_updates: int) -> Stream:  # noqa: ARG001
    metric = _metric(case)
    preds, targets = (_moved(_padded(side), place) for side in (case.preds, case.targets))
    return Stream(lambda: metric.update(preds, targets), metric.compute)


def _parallel(case: Case, place: Callable[[Any], Any], num_updates: int) -> Stream:  # noqa: ARG001
    metric = _metric(case, engine="parallel")
    preds, targets = _placed(case, place)
    return Stream(lambda: metric.update(preds, targets), metric.compute)


def _jax_state(case: Case, place: Callable[[Any], Any], num_updates: int) -> Stream:
    import boxscore.training.jax as state

    jax = _module("jax")
    preds, targets = (_moved(_padded(side), place) for side in (case.preds, case.targets))
    num_images, num_rows = preds["labels"].shape
    empty = state.init(num_images * num_rows * num_updates, case.settings["protocol"])
    holder = [jax.device_put(empty, preds["labels"].device)]
    ids = [place(_image_ids(num_images, index)) for index in range(num_updates)]
    step = jax.jit(state.update, donate_argnums=0)

    def update() -> None:
        holder[0] = step(holder[0], preds, targets, ids.pop(0))

    return Stream(update, lambda: state.compute(holder[0]))


def _torch_state(case: Case, place: Callable[[Any], Any], num_updates: int) -> Stream:
    import boxscore.training.torch as state

    preds, targets = (_moved(_padded(side), place) for side in (case.preds, case.targets))
    num_images, num_rows = preds["labels"].shape
    capacity = num_images * num_rows * num_updates
    holder = [state.init(capacity, case.settings["protocol"], device=preds["labels"].device)]
    ids = [place(_image_ids(num_images, index)) for index in range(num_updates)]

    def update() -> None:
        holder[0] = state.update(holder[0], preds, targets, ids.pop(0))

    return Stream(update, lambda: state.compute(holder[0]))


def _image_ids(num_images: int, index: int) -> Any:
    import numpy as np

    return np.arange(index * num_images, (index + 1) * num_images)


def _metric(case: Case, **more: Any) -> Any:
    from boxscore import MeanAveragePrecision

    return MeanAveragePrecision(**case.settings, **more, warn=False)


def _placed(case: Case, place: Callable[[Any], Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    return [_moved(each, place) for each in case.preds], [_moved(each, place) for each in case.targets]


def _moved(columns: Mapping[str, Any], place: Callable[[Any], Any]) -> dict[str, Any]:
    return {name: place(column) for name, column in columns.items()}


WAYS: Mapping[str, Way] = {
    HOST_COPY: _copied,
    "lists": _in_host_memory,
    "padded": _padded_arrays,
    'engine="parallel"': _parallel,
}
"""The ways of every framework: a copy by the caller, `update` with lists and padded arrays, shapes compared there."""


class State(NamedTuple):
    """The state inside compiled steps, of one framework."""

    name: str
    way: Way
    geometries: tuple[str, ...]


STATES: Mapping[str, State] = {
    "torch": State("boxscore.torch", _torch_state, ("boxes",)),
    "jax": State("boxscore.jax", _jax_state, ("boxes",)),
}


def _ways(framework: str, case: Case) -> dict[str, Way]:
    """The ways of a framework to evaluate a geometry."""
    state = STATES.get(framework)
    return {**WAYS, **({state.name: state.way} if state and case.geometry in state.geometries else {})}


# Measuring


def _measure(device: Device, cases: Sequence[Case], num_updates: int) -> Iterator[Row]:
    """Yield the row of each way and geometry on a device."""
    for case in cases:
        for name, way in _ways(device.framework, case).items():
            gc.collect()
            place = (device.framework, device.name, case.geometry, name)
            yield _attempt(place, partial(_measured, device, case, way, num_updates))


def _attempt(place: tuple[str, str, str, str], measured: Callable[[], dict[str, Any]]) -> Row:
    """The row that was measured; whatever fails on a device is in its row."""
    try:
        found = measured()
    except Exception as error:
        found = {"bits": "failed", "error": f"{type(error).__name__}: {error}".split("\n")[0]}
    return Row(*place, **found)


def _measured(device: Device, case: Case, way: Way, num_updates: int) -> dict[str, Any]:
    """Time a way after one update that compiles and fills caches; count what blocks in another one."""
    begin = partial(way, case, device.place, num_updates)
    start = time.perf_counter()
    stream = begin()
    stream.update()
    bits = [_compare(stream.compute(), case, 1)]
    is_slow = time.perf_counter() - start > SLOW
    num_timed = 1 if is_slow else num_updates
    timed = [_timed(begin(), device, num_timed) for _ in range(1 if is_slow else REPEATS)]
    best = min(timed, key=lambda each: each.total)
    bits.append(_compare(best.result, case, num_timed))
    return {
        "bits": max(bits, key=("equal", "single", "differ").index),
        "update_ms": round(statistics.median(best.seconds) * 1e3, 3),
        "total_ms": round(best.total * 1e3 / num_timed, 3),
        "memory_bytes": timed[0].memory,
        "reads": _num_reads(begin(), device),
    }


def _num_reads(stream: Stream, device: Device) -> int | None:
    """How often an update waits for the device."""
    with device.reads() as num_reads:
        stream.update()
        found = num_reads()
    stream.compute()
    return found


class Timed(NamedTuple):
    """A stream that was timed."""

    result: Any
    seconds: list[float]
    """Of each update."""
    total: float
    memory: int | None


def _timed(stream: Stream, device: Device, num_updates: int) -> Timed:
    device.wait()
    memory = device.start_memory()
    seconds = []
    begin = time.perf_counter()
    for _ in range(num_updates):
        start = time.perf_counter()
        stream.update()
        seconds.append(time.perf_counter() - start)
    result = stream.compute()
    total = time.perf_counter() - begin
    return Timed(result, seconds, total, None if memory is None else max(0, device.peak_memory() - memory))


def _count(cases: Sequence[Case]) -> Iterator[Row]:
    """Yield what an update of each way does on the counting device."""
    for case in cases:
        for name, way in _ways("torch", case).items():
            yield _attempt(("torch", "counting", case.geometry, name), partial(_counted, case, way))


def _counted(case: Case, way: Way) -> dict[str, Any]:
    from boxscore.arrays.counting import counting

    torch = _module("torch")
    with counting() as counts:
        stream = way(case, lambda array: counts.place(torch.from_numpy(array)), 1)
        counts.reset()
        stream.update()
        found: dict[str, Any] = {name: getattr(counts, name) for name in COUNTED}
        counts.finish()
        return {"bits": _compare(stream.compute(), case, 1), **found}


COUNTED = ("reads", "launches", "copies_to_device", "copies_to_host", "bytes_to_host")
"""Counts of an update on the counting device, in the order of its table."""


def _compare(result: Any, case: Case, num_updates: int) -> str:
    """Whether all numbers and curves have the bits of as many updates in host memory."""
    import numpy as np

    stream = _in_host_memory(case)
    for _ in range(num_updates):
        stream.update()
    expected = stream.compute()
    pairs = [(list(result.values()), list(expected.values()))]
    names = ("precision", "recall", "scores", "num_true", "num_false")
    pairs += [(getattr(result.curves, name), getattr(expected.curves, name)) for name in names]
    if all(np.array_equal(*pair, equal_nan=True) for pair in pairs):
        return "equal"
    is_single = result.iou_dtype == "float32"
    return "single" if is_single and np.allclose(*pairs[0], rtol=0, atol=1e-6, equal_nan=True) else "differ"


# Tables


def _tables(document: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """The versions, times on devices, counts on the counting device, and what failed."""
    parts = [
        f"boxscore {document['boxscore']}, Python {document['python']}, {platform.system()} {document['processor']}\n"
        f"{document['images']} images per update, {document['updates']} updates"
    ]
    missing = [FRAMEWORKS[name] for name, version in document["frameworks"].items() if version is None]
    versions = [f"{FRAMEWORKS[name]} {version}" for name, version in document["frameworks"].items() if version]
    parts[0] += "\n" + ", ".join([*versions, *(f"{name}: not installed" for name in missing)])
    timed = [row for row in rows if row.device != "counting"]
    by_place = {(row.framework, row.device, row.geometry): row.total_ms for row in timed if row.way == HOST_COPY}
    if timed:
        header = ["device", "geometry", "way", "bits", "reads", "update", "all", "host copy", "memory"]
        lines = [_line(row, by_place[row.framework, row.device, row.geometry]) for row in timed]
        parts.append(text.table(lines, align="<<<<>>>>>", header=header))
    counted = [row for row in rows if row.device == "counting"]
    if counted:
        header = ["counting device", "way", "bits", "reads", "launches", "to device", "to host", "bytes"]
        lines = [
            [row.geometry, row.way, row.bits, *(_whole(getattr(row, name)) for name in COUNTED)] for row in counted
        ]
        parts.append(text.table(lines, align="<<<>>>>>", header=header))
    if failed := [row for row in rows if row.error is not None]:
        parts.append(
            "\n".join(f"{row.framework} {row.device}, {row.geometry}, {row.way}: {row.error}" for row in failed)
        )
    return "\n\n".join(parts)


def _line(row: Row, host_copy_ms: float | None) -> list[str]:
    ratio = None if not host_copy_ms or row.total_ms is None else row.total_ms / host_copy_ms
    return [
        f"{row.framework} {row.device}",
        row.geometry,
        row.way,
        row.bits,
        _whole(row.reads),
        "–" if row.update_ms is None else f"{row.update_ms:.2f} ms",
        "–" if row.total_ms is None else f"{row.total_ms:.2f} ms",
        "–" if ratio is None else f"x {ratio:.2f}",
        "–" if row.memory_bytes is None else f"{row.memory_bytes / 1e6:.1f} MB",
    ]


def _whole(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"
