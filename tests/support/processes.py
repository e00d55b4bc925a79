"""Worlds of real processes under torch.distributed; whatever they do, they end."""

import datetime
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.documents import ROOT


def run_world(module: str, num_processes: int, folder: Path, *, seconds: float = 120) -> list[Any]:
    """What each process of a module's `main` has handed over, by rank; None if it died before."""
    command = [sys.executable, "-m", module, str(folder), str(num_processes)]
    quiet = os.environ | {"OMP_NUM_THREADS": "1", "BOXSCORE_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [*command, str(rank)], cwd=ROOT, env=quiet, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for rank in range(num_processes)
    ]
    outputs = []
    try:
        outputs = [process.communicate(timeout=seconds)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    files = [folder / f"{rank}.pickle" for rank in range(num_processes)]
    found = [pickle.loads(file.read_bytes()) if file.exists() else None for file in files]
    assert any(each is not None for each in found), "\n".join(outputs)
    return found


def join_world(seconds: float = 60) -> tuple[Path, int, int]:
    """The folder, the number of processes and the rank, as `run_world` gave them; gloo is up from here on."""
    import torch

    folder, num_processes, rank = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder / 'store'}",
        rank=rank,
        world_size=num_processes,
        timeout=datetime.timedelta(seconds=seconds),
    )
    return folder, num_processes, rank


def take_part(work: Callable[[Path, int, int], Any]) -> None:
    """Hand over what a process makes of the folder, the number of processes and its rank; leave with the others."""
    import torch

    folder, num_processes, rank = join_world()
    hand_over(work(folder, num_processes, rank), folder, rank)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def hand_over(value: Any, folder: Path, rank: int) -> None:
    """Give a value to the test that started the world."""
    (folder / f"{rank}.pickle").write_bytes(pickle.dumps(value))
