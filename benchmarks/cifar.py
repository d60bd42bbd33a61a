"""How fast CIFAR-10 is learned here: the reference loop of lesson 05 against ours, one change at a time.

    python benchmarks/cifar.py [--data FOLDER] [--device cpu] [--threads 2] [--workers 2] [--seconds 300]
                               [--parts speed data memory 75 85 reference] [--epochs 40] [--json FILE]

speed      images per second of the reference loop (PIL transforms, DataLoader, default layout) and of each change on
           top of the last; all in one run, interleaved, medians; the share of what compute alone would reach
data       the same for data alone, one thread a process: PIL transforms against whole-batch augmentation
memory     what the process holds: before the images, with them, after a thousand batches
75, 85     our recipes for 75 % and 85 % test accuracy (course/training/recipes.py): accuracy and CPU seconds by epoch
reference  the reference loop until 75 %, at most --epochs epochs; then the ratio to recipe 75 if that ran too

Without --parts: speed, data and memory. --seconds bounds the whole run: rounds are dropped, training stops after the
epoch in which the time is up, and the table says so. --data: a folder that holds CIFAR-10; accuracies of the stand-in
say nothing about it. With --device cuda the images lie on the GPU, and bfloat16 and torch.compile join in.
Exit status 1 when a bar is missed that the parts measured. The bars of speed are those of a CPU.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

import psutil
import torch
from cifar_loops import Images, data_alone, load_images, step_by_step

from course.data.alternating import AlternatingBatches
from course.data.memory import Batches
from course.training.device import choose_device
from course.training.recipes import RECIPES, Epoch, accuracy_with_mirror, train_recipe
from course.training.reference_loop import conv_net, loader_source, training
from course.training.throughput import Throughput, compare_throughput, cpu_seconds, wait_for

PARTS = ("speed", "data", "memory", "75", "85", "reference")
BATCH = 64
OURS, BOUND = "+ fused Adam", "compute alone, ours"
# What is measured, the least it should be, and what it aims at.
BARS = {
    "ours / reference, images per second": (1.6, 1.8),
    "ours / compute alone": (0.93, 0.97),
    "whole-batch augmentation / PIL": (10, 10),
    "reference's CPU seconds to 75 % / ours": (5, 5),
    "accuracy of recipe 75 %": (0.75, 0.75),
    "accuracy of recipe 85 %": (0.85, 0.85),
}


class Bench:
    """The images, the time that is left, and what was measured so far."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.device = choose_device(options.device)
        self.end = time.monotonic() + options.seconds
        self.before = resident()
        self.images: Images = load_images(options.data, self.device)
        self.figures: dict[str, float] = {}
        self.results: dict[str, Any] = {}

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.end - time.monotonic()

    def compare(self, loops: dict[str, Any], share: float) -> Throughput:
        """As many batches and rounds as fit into a share of the time that is left."""
        budget = share * self.left
        for loop in loops.values():  # what starts once (workers, compiling) must not count
            loop(3)
        start = time.monotonic()
        for loop in loops.values():
            loop(3)
        once = (time.monotonic() - start) / 3
        batches = max(3, min(40, int(budget / 7 / once)))
        rounds = max(1, min(9, int(budget / (once * batches))))
        return compare_throughput(loops, batches=batches, batch_size=BATCH, rounds=rounds, warmup=0)

    def speed(self) -> None:
        table = self.compare(step_by_step(self.images, self.device, BATCH, self.options.workers), 0.7)
        print(table)
        last = list(table.loops)[-1].name if self.device.type == "cuda" else OURS
        self.figures["ours / reference, images per second"] = table.ratio(last)
        if self.device.type == "cpu":
            self.figures["ours / compute alone"] = table.ratio(OURS, BOUND)
        self.keep("speed", table)

    def data(self) -> None:
        torch.set_num_threads(1)  # the PIL pipeline has one a process, too
        table = self.compare(data_alone(self.images, BATCH, self.options.workers), 0.7)
        torch.set_num_threads(self.options.threads)
        print(table)
        if self.device.type == "cpu":
            self.figures["whole-batch augmentation / PIL"] = table.ratio("whole batch", cpu=True)
        self.keep("data", table)

    def memory(self) -> None:
        data = self.images.train.images.nbytes + self.images.train.targets.nbytes
        loop = step_by_step(self.images, self.device, BATCH, 0)[OURS]
        loop(50)
        with_images = resident()
        done = 0
        while done < 1000 and self.left > 0:
            loop(50)
            done += 50
        row = {
            "training images": data / 1e6,
            "resident before the images": self.before / 1e6,
            "resident after 50 batches": with_images / 1e6,
            f"resident after {50 + done} batches": resident() / 1e6,
        }
        print(*(f"{name:<32}{value:10,.0f} MB" for name, value in row.items()), sep="\n")
        print("(this process holds the images twice: for the PIL transforms and as tensors)")
        self.results["memory"] = row

    def recipe(self, name: str) -> None:
        recipe = RECIPES[name]
        train, prepare = self.images.train, self.images.prepare
        generator = torch.Generator().manual_seed(recipe.seed)
        _, epochs = train_recipe(
            recipe,
            AlternatingBatches(train, recipe.batch_size, recipe.padding, generator, prepare),
            self.test_batches(),
            prepare(train.images[:5000]),
            after_epoch=self.say,
            autocast=torch.bfloat16 if self.device.type == "cuda" else None,
            compiled=self.device.type == "cuda",
        )
        self.figures[f"accuracy of recipe {name}"] = epochs[-1].accuracy
        self.results[f"recipe {name}"] = {
            **dataclasses.asdict(recipe),
            "by_epoch": [dataclasses.asdict(epoch) for epoch in epochs],
        }

    def reference(self) -> None:
        torch.manual_seed(0)
        network = conv_net().to(self.device)
        loop = training(loader_source(self.images.reference, self.options.workers, BATCH), network)
        cpu = seconds = 0.0
        epochs: list[Epoch] = []
        while len(epochs) < self.options.epochs and self.left > 0 and best(epochs) < 0.75:
            start, used = time.perf_counter(), cpu_seconds()
            loop(len(self.images.train) // BATCH)
            wait_for(self.device)
            cpu, seconds = cpu + cpu_seconds() - used, seconds + time.perf_counter() - start
            accuracy = accuracy_with_mirror(network, self.test_batches())
            epochs.append(Epoch(len(epochs) + 1, accuracy, cpu, seconds))
            self.say(epochs[-1])
        passed = best(epochs) >= 0.75
        end = "" if passed or len(epochs) == self.options.epochs else " (stopped by --seconds)"
        print(f"{'passed' if passed else 'never saw'} 75 % in {len(epochs)} epochs{end}")
        self.results["reference"] = {"passed": passed, "by_epoch": [dataclasses.asdict(epoch) for epoch in epochs]}
        ours = self.results.get("recipe 75 %")
        if ours and epochs:
            first = next((row for row in ours["by_epoch"] if row["accuracy"] >= 0.75), None)
            if first:
                self.figures["reference's CPU seconds to 75 % / ours"] = cpu / first["cpu"]

    def test_batches(self) -> Batches:
        return self.images.test.batches(500, transform=self.images.prepare)

    def say(self, epoch: Epoch) -> None:
        print(
            f"epoch {epoch.number:3}  {100 * epoch.accuracy:6.2f} %  {epoch.cpu:8.0f} CPU-s  {epoch.seconds:8.0f} s",
            flush=True,
        )

    def keep(self, part: str, table: Throughput) -> None:
        self.results[part] = {
            "conditions": table.conditions,
            "loops": {
                loop.name: {
                    "images_per_second": loop.per_second,
                    "quartiles": loop.quartiles,
                    "images_per_cpu_second": loop.per_cpu_second,
                    "ratio": table.ratio(loop.name),
                }
                for loop in table.loops
            },
        }


def best(epochs: list[Epoch]) -> float:
    return max((epoch.accuracy for epoch in epochs), default=0.0)


def resident() -> int:
    """Bytes of memory that this process has resident."""
    return psutil.Process().memory_info().rss


def conditions(bench: Bench) -> dict[str, Any]:
    device = torch.cuda.get_device_name() if bench.device.type == "cuda" else platform.machine()
    return {
        "date": date.today().isoformat(),
        "torch": torch.__version__,
        "device": f"{bench.device}, {device}",
        "threads": torch.get_num_threads(),
        "workers": bench.options.workers,
        "images": bench.images.reference.source.split(" in ")[0],
    }


def judge(figures: dict[str, float]) -> bool:
    """Print what was measured against the bars; whether none was missed."""
    good = True
    for name, value in figures.items():
        least, aim = BARS[name]
        verdict = "aim reached" if value >= aim else "ok" if value >= least else "MISSED"
        good = good and value >= least
        print(f"{name:<42}{value:8.3f}  at least {least:g}, aim {aim:g}: {verdict}")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder that holds CIFAR-10; else COURSE_DATA, else the stand-in")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=["speed", "data", "memory"])
    parser.add_argument("--json", type=Path, help="write what was measured to this file too")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    bench = Bench(options)
    for part in (part for part in PARTS if part in options.parts):
        print(f"\n{part}")
        bench.recipe(f"{part} %") if part in ("75", "85") else getattr(bench, part)()
    print()
    about = conditions(bench)
    print(", ".join(f"{name}: {value}" for name, value in about.items()))
    good = judge(bench.figures)
    if options.json:
        options.json.write_text(json.dumps({**about, "figures": bench.figures, **bench.results}, indent=1) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
