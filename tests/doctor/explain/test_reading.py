"""Text in the shapes in which people meet errors: shells, notebooks, logs, workers, reports, cut off."""

# ruff: noqa: E501 - texts stand as they are printed

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from IPython.core.ultratb import VerboseTB

from course.doctor.explain import explain
from course.doctor.explain.needles import needles
from course.doctor.explain.rank import rules
from course.doctor.explain.reading import read_text

from .literals import LITERAL, UNKNOWN

PLAIN = """Traceback (most recent call last):
  File "/home/me/train.py", line 31, in <module>
    main()
    ~~~~^^
  File "/home/me/train.py", line 20, in main
    loss = criterion(model(x), y)
           ^^^^^^^^^^^^^^^^^^^^^^
  File "/home/me/.venv/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1783, in _wrapped_call_impl
    return self._call_impl(*args, **kwargs)
  File "/home/me/.venv/lib/python3.11/site-packages/torch/nn/functional.py", line 3104, in cross_entropy
    return torch._C._nn.cross_entropy_loss(
IndexError: Target 10 is out of bounds.
"""
FAULT = "class-index-out-of-range"


def first(text: object) -> str | None:
    found = explain(text)
    return found[0].fault if found else None


def prefixed(prefix: str, text: str = PLAIN) -> str:
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


def test_frames_and_message_of_a_plain_traceback():
    (error,) = read_text(PLAIN)
    assert (error.type, error.message) == ("IndexError", "Target 10 is out of bounds.")
    assert [frame.function for frame in error.frames] == ["<module>", "main", "_wrapped_call_impl", "cross_entropy"]
    assert error.user_frame.line == 20
    assert error.code == "loss = criterion(model(x), y)"


SHAPES = {
    "plain": PLAIN,
    "only the last line": "IndexError: Target 10 is out of bounds.",
    "no type": "Target 10 is out of bounds.",
    "the top is cut off": PLAIN[PLAIN.index("    loss =") :],
    "cut off in the middle of a line": PLAIN[37:],
    "windows line ends": PLAIN.replace("\n", "\r\n"),
    "torchrun": prefixed("[rank0]: "),
    "torchrun with another rank": "\n".join(f"[rank{rank}]: {line}" for line in PLAIN.splitlines() for rank in (0, 1)),
    "ray": prefixed("(RayTrainWorker pid=4711) "),
    "slurm": prefixed("3: "),
    "log with a stamp": prefixed("2026-03-01 12:00:01,123 ERROR trainer: "),
    "log with a bracketed stamp": prefixed("[2026-03-01T12:00:01.123Z] [ERROR] [worker-1] "),
    "log line": "2026-03-01 12:00:01,123 - root - ERROR - IndexError: Target 10 is out of bounds.",
    "log line without a type": "12:00:01 | ERROR | step failed: Target 10 is out of bounds.",
    "mail": prefixed("> "),
    "pytest": "    def test_loss():\n>       loss = F.cross_entropy(x, y)\n\ntests/test_a.py:7:\n_ _ _\n"
    "E       IndexError: Target 10 is out of bounds.\n\ntests/test_a.py:7: IndexError\n==== 1 failed in 0.1s ====",
    "colours": PLAIN.replace("File", "\x1b[0;32mFile\x1b[0m").replace("IndexError", "\x1b[1;31mIndexError\x1b[0m"),
    "escaped colours": PLAIN.replace("IndexError", "\\x1b[1;31mIndexError\\x1b[0m"),
    "colours without their escape": PLAIN.replace("IndexError", "[0;31mIndexError[0m"),
    "one line of JSON": json.dumps(PLAIN),
    "HTML": PLAIN.replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;"),
    "bytes": PLAIN.encode(),
    "lines": PLAIN.splitlines(keepends=True),
    "Japanese around it": f"学習中にエラーが出ました。助けてください。\n{PLAIN}\nよろしくお願いします。",
    "German around it": f"Beim Trainieren kommt folgender Fehler:\n\n{PLAIN}\nWas tun? Danke für die Hilfe!",
    "in latin-1": f"Größe der Klasse: zehn\n{PLAIN}".encode("latin-1"),
    "notes below": f"{PLAIN}\nRecommended: restart the kernel.\n$ nvidia-smi\nNo devices were found",
    "handled, then raised": f"{PLAIN}\nDuring handling of the above exception, another exception occurred:\n\n"
    "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    save()\nKeyError: 'epoch'\n",
    "cause": f"{PLAIN}\nThe above exception was the direct cause of the following exception:\n\n"
    'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    run()\nMyTrainingError: step 12 failed\n',
    "progress bar before it": "\rEpoch 1:  10%|█         | 1/10\rEpoch 1:  20%|██        | 2/10" + PLAIN,
    "IPython": "---------------------------------------------------------------------------\n"
    "IndexError                                Traceback (most recent call last)\n"
    "Cell In[12], line 3\n      1 logits = model(x)\n      2 y = y + 1\n----> 3 loss = F.cross_entropy(logits, y)\n\n"
    "File ~/miniconda3/lib/python3.11/site-packages/torch/nn/functional.py:3104, in cross_entropy(input, target)\n"
    "   3102 if size_average is not None:\n-> 3104     return torch._C._nn.cross_entropy_loss(input, target)\n\n"
    "IndexError: Target 10 is out of bounds.",
    "old IPython": "IndexError                                Traceback (most recent call last)\n"
    "<ipython-input-7-3c2b> in <module>\n      1 out = net(x)\n----> 2 F.cross_entropy(out, y)\n\n"
    "~/anaconda3/lib/python3.8/site-packages/torch/nn/functional.py in cross_entropy(input, target)\n"
    "   2466     return nll_loss(log_softmax(input, 1), target)\n\nIndexError: Target 10 is out of bounds.",
    "exception group": '  + Exception Group Traceback (most recent call last):\n  |   File "a.py", line 1, in <module>\n'
    "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)\n  +-+---------------- 1 ----------------\n"
    '    | Traceback (most recent call last):\n    |   File "a.py", line 9, in step\n    |     loss(x, y)\n'
    "    | IndexError: Target 10 is out of bounds.\n    +------------------------------------",
    "a notebook file": json.dumps(
        {
            "cells": [
                {"cell_type": "markdown", "source": "# hi"},
                {
                    "cell_type": "code",
                    "outputs": [
                        {
                            "output_type": "error",
                            "ename": "IndexError",
                            "evalue": "Target 10 is out of bounds.",
                            "traceback": [],
                        }
                    ],
                },
            ]
        }
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_shape(shape):
    assert first(SHAPES[shape]) == FAULT


def test_ipython_writes_and_explain_reads():
    import torch

    try:
        torch.nn.functional.cross_entropy(torch.zeros(2, 3), torch.tensor([1, 3]))
    except IndexError:
        for colors in ("nocolor", "linux"):
            text = VerboseTB(theme_name=colors).text(*sys.exc_info())
            assert first(text) == FAULT


def test_rich_writes_and_explain_reads():
    rich = pytest.importorskip("rich.console", reason="rich is not installed: its boxes were not tried")
    import io

    out = io.StringIO()
    console = rich.Console(file=out, width=100, force_terminal=True)
    try:
        raise IndexError("Target 10 is out of bounds.")
    except IndexError:
        console.print_exception()
    assert first(out.getvalue()) == FAULT


def test_worker_s_error_is_read_inside_the_wrapper():
    text = (
        'Traceback (most recent call last):\n  File "train.py", line 4, in <module>\n    for batch in loader:\n'
        "RuntimeError: Caught RuntimeError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n"
        '  File "/x/site-packages/torch/utils/data/_utils/worker.py", line 308, in _worker_loop\n'
        "    data = fetcher.fetch(index)\n"
        "RuntimeError: stack expects each tensor to be equal size, but got [3, 4] at entry 0 and [3, 5] at entry 1\n"
    )
    assert [error.relation for error in read_text(text)] == ["wrapper", "worker"]
    found = explain(text)
    assert found[0].fault == "ragged-batch"
    assert "[3, 5]" in found[0].why


def test_order_of_chained_errors_and_warnings():
    warning = "/x/loss.py:3: UserWarning: Using a target size (torch.Size([8])) that is different to the input size (torch.Size([8, 1])).\n  return f(x)\n"
    for text in (warning + PLAIN, PLAIN + "\n" + warning):
        assert [found.fault for found in explain(text)] == [FAULT, "broadcast-outer-product"]


def test_source_near_a_plain_traceback_is_read_where_the_file_is_there(run_script):
    import torch

    code = "cell = torch.nn.GRUCell(2, 3)\nh = torch.zeros(4, 3)\nfor _ in range(2):\n    h = cell(torch.randn(4, 2), h)\n    loss = h.pow(2).mean()\n    loss.backward()"
    text = run_script(code, torch=torch).text
    assert first(text) == "hidden-state-not-detached"
    assert first(text.replace("train.py", "gone.py")) == "backward-twice"


def test_namespace_gives_the_tensors_of_a_text():
    import torch

    text = 'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    out = x.flatten(1) @ w1\nRuntimeError: mat1 and mat2 shapes cannot be multiplied (2x2704 and 3136x10)\n'
    found = explain(text, namespace={"w1": torch.zeros(3136, 10), "x": torch.zeros(2, 16, 13, 13)})
    assert found[0].fault == "flatten-size-mismatch"
    assert "`w1` is (3136, 10)" in found[0].why
    assert "16 * 13 * 13 = 2704" in found[0].why


def test_text_alone_needs_no_torch():
    probe = (
        "import sys; from course import explain; found = explain(sys.argv[1]);"
        "print(found[0].fault, [name for name in ('torch', 'numpy', 'IPython', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", probe, PLAIN], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{FAULT} []"


def test_a_rule_is_never_skipped_by_the_quick_look():
    for _, text in (*LITERAL, *((None, text) for text in UNKNOWN)):
        for error in read_text(text):
            for rule in rules():
                if rule.needles and rule.regex.search(error.flat):
                    assert any(needle in error.lower for needle in rule.needles), rule.pattern


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        (r"Target (-?\d+) is out of bounds", (" is out of bounds",)),
        (r"colou?rfully|abcdef+g", ("rfully", "abcdef")),
        (r"(?:never|there)", ()),
        (r"a{2}bcde\.f", ("bcde.f",)),
        (r"[|)(]long piece|x", ()),
        (r"'(\w+)' object\(s\) x*yzab", ("' object(s) ",)),
    ],
)
def test_needles(pattern, wanted):
    assert needles(pattern) == wanted
