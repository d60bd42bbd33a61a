"""Lesson 02: k micro-batches that make the gradient of one large batch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from course.checking import Exercise
from course.exercises.autograd._graphs import Keeping, alive, gradients, numbers, small_model, uneven_loss

exercise = Exercise(
    "autograd.accumulate",
    title="Many small batches, one large gradient",
    task="""
        A batch is too large for memory. `accumulate(model, loss_fn, x, y, k)` computes its gradient from `k` smaller
        pieces, taken from `x` and `y` in order.

        - `loss_fn(output, target)` returns the mean loss over the rows that it gets. Afterwards `.grad` of every
          parameter of `model` is the gradient of `loss_fn(model(x), y)` over *all* N rows. What `.grad` held before
          does not count.
        - N need not be a multiple of `k`: pieces may differ in size, but none has more than N / k rows, rounded up.
        - Only one piece's graph is alive at a time: each piece goes backward before the next goes forward, and what was
          saved for it is free by then.
        - Return the loss over all N rows as a Python `float`. No parameter changes: there is no optimizer here. The
          model stays in the mode that it has.

        N is at least `k`. The model treats rows independently of each other (it has no BatchNorm).
        """,
    hints=(
        "backward() adds to .grad. A mean over all rows is a weighted sum of the means over the pieces: which weight "
        "does a piece get?",
        "x.chunk(k) cuts as the task asks; the last piece may be smaller. Scale each loss by its share of the rows "
        "before you call backward(), and clear the gradients once, before the first piece.",
    ),
)


@exercise.stub
def accumulate(model: nn.Module, loss_fn: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor, k: int) -> float:
    """Fill .grad of the model's parameters with the gradient of loss_fn(model(x), y), k pieces one by one.

    x and y have N rows, loss_fn is a mean over rows. Returns the loss over all rows."""
    raise NotImplementedError


@exercise.reference
def by_shares_of_the_rows(model, loss_fn, x, y, k):
    model.zero_grad()
    total = 0.0
    for part, target in zip(x.chunk(k), y.chunk(k)):
        loss = loss_fn(model(part), target) * len(part) / len(x)
        loss.backward()
        total += loss.item()
    return total


@exercise.alternative
def by_scaling_at_the_end(model, loss_fn, x, y, k):
    for parameter in model.parameters():
        parameter.grad = None
    total = 0.0
    for part, target in zip(x.chunk(k), y.chunk(k)):
        summed = loss_fn(model(part), target) * len(part)
        summed.backward()
        total += summed.detach()
    for parameter in model.parameters():
        parameter.grad /= len(x)
    return float(total / len(x))


@exercise.alternative
def by_weighted_backward(model, loss_fn, x, y, k):
    model.zero_grad(set_to_none=False)
    total, rows = 0.0, -(-len(x) // k)
    for start in range(0, len(x), rows):
        loss = loss_fn(model(x[start : start + rows]), y[start : start + rows])
        share = len(x[start : start + rows]) / len(x)
        loss.backward(torch.tensor(share, dtype=loss.dtype))
        total += share * loss.item()
    return total


@exercise.wrong(
    "The pieces' gradients are added up without a weight, so the sum is about k times too large. The loss over all "
    "rows is a mean: each piece counts only by its share of the rows."
)
def without_weights(model, loss_fn, x, y, k):
    model.zero_grad()
    total = 0.0
    for part, target in zip(x.chunk(k), y.chunk(k)):
        loss = loss_fn(model(part), target)
        loss.backward()
        total += loss.item() * len(part) / len(x)
    return total


@exercise.wrong(
    "Each piece counts the same here, 1 / k. That is right if all pieces have the same number of rows. Otherwise a "
    "row of a small last piece weighs more than the others."
)
def divided_by_k(model, loss_fn, x, y, k):
    model.zero_grad()
    total = 0.0
    for part, target in zip(x.chunk(k), y.chunk(k)):
        loss = loss_fn(model(part), target) / k
        loss.backward()
        total += loss.item()
    return total


@exercise.wrong(
    "The gradients are cleared before every piece, so only the last piece's gradient is left. What makes "
    "accumulation work is that backward() adds: clear once, before the first piece."
)
def cleared_in_the_loop(model, loss_fn, x, y, k):
    total = 0.0
    for part, target in zip(x.chunk(k), y.chunk(k)):
        model.zero_grad()
        loss = loss_fn(model(part), target) * len(part) / len(x)
        loss.backward()
        total += loss.item()
    return total


@exercise.wrong(
    "What .grad held before is still in there: the new gradient was added to it. Clear the gradients before the first "
    "piece.",
    fault="missing-zero-grad",
)
def never_cleared(model, loss_fn, x, y, k):
    total = 0.0
    for part, target in zip(x.chunk(k), y.chunk(k)):
        loss = loss_fn(model(part), target) * len(part) / len(x)
        loss.backward()
        total += loss.item()
    return total


@exercise.wrong(
    "The losses of all pieces are added before one backward(). The numbers are right, but the sum holds the graphs of "
    "all pieces at once, which takes the memory that the pieces were to save.",
    fault="graph-retained-in-log",
)
def one_backward_at_the_end(model, loss_fn, x, y, k):
    model.zero_grad()
    total = 0.0
    for part, target in zip(x.chunk(k), y.chunk(k)):
        total = total + loss_fn(model(part), target) * len(part) / len(x)
    total.backward()
    return total.item()


@exercise.wrong(
    "All rows go through the model at once. That is the large batch itself, and the memory for it is not there. Cut "
    "x and y into pieces first."
)
def all_at_once(model, loss_fn, x, y, k):
    model.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    return loss.item()


@exercise.wrong("The gradient is right; the returned loss is that of the last piece, not that of all rows.")
def loss_of_the_last_piece(model, loss_fn, x, y, k):
    model.zero_grad()
    for part, target in zip(x.chunk(k), y.chunk(k)):
        loss = loss_fn(model(part), target)
        (loss * len(part) / len(x)).backward()
    return loss.item()


@exercise.wrong(
    "The rows that are left over all go into the last piece. It may get nearly twice as many rows as the others, and "
    "the largest piece decides how much memory is needed. Round N / k up, not down."
)
def rest_in_the_last_piece(model, loss_fn, x, y, k):
    model.zero_grad()
    total, rows = 0.0, len(x) // k
    for i in range(k):
        end = len(x) if i == k - 1 else (i + 1) * rows
        loss = loss_fn(model(x[i * rows : end]), y[i * rows : end]) * (end - i * rows) / len(x)
        loss.backward()
        total += loss.item()
    return total


@exercise.wrong(
    "The rows that are left over go into no piece: N // k rows for each of k pieces are fewer than N when k does not "
    "divide N, and the last rows have no say in the gradient."
)
def rest_left_out(model, loss_fn, x, y, k):
    model.zero_grad()
    total, rows = 0.0, len(x) // k
    for i in range(k):
        loss = loss_fn(model(x[i * rows : (i + 1) * rows]), y[i * rows : (i + 1) * rows]) / k
        loss.backward()
        total += loss.item()
    return total


@exercise.wrong(
    "k is taken for the number of rows of a piece. It is the number of pieces: x.split(k) cuts by size, x.chunk(k) by "
    "number."
)
def pieces_of_k_rows(model, loss_fn, x, y, k):
    model.zero_grad()
    total = 0.0
    for part, target in zip(x.split(k), y.split(k)):
        loss = loss_fn(model(part), target) * len(part) / len(x)
        loss.backward()
        total += loss.item()
    return total


@exercise.wrong(
    "Every k-th row goes into a piece. The gradient is right, but the pieces are not taken in order: whoever looks at "
    "the losses of single pieces, or at layers that remember, sees the rows mixed."
)
def every_kth_row(model, loss_fn, x, y, k):
    model.zero_grad()
    total = 0.0
    for i in range(k):
        loss = loss_fn(model(x[i::k]), y[i::k]) * len(x[i::k]) / len(x)
        loss.backward()
        total += loss.item()
    return total


@exercise.wrong(
    "retain_graph=True keeps what backward would free: when the next piece goes forward, the graph of the piece "
    "before it is still there. Each piece goes backward once, so nothing needs to be retained.",
    fault="backward-twice",
)
def graphs_retained(model, loss_fn, x, y, k):
    model.zero_grad()
    total = 0.0
    for part, target in zip(x.chunk(k), y.chunk(k)):
        loss = loss_fn(model(part), target) * len(part) / len(x)
        loss.backward(retain_graph=True)
        total += loss.item()
    return total


@exercise.wrong(
    "The gradient is right for a model that trains, but the call puts the model into training mode. If it was in "
    "evaluation mode, the gradient is another one, and the model stays changed."
)
def put_into_training_mode(model, loss_fn, x, y, k):
    model.train()
    model.zero_grad()
    total = 0.0
    for part, target in zip(x.chunk(k), y.chunk(k)):
        loss = loss_fn(model(part), target) * len(part) / len(x)
        loss.backward()
        total += loss.item()
    return total


def observed(
    answer: Callable[..., float], rows: int, k: int, *, old: float | None = None, training: bool = True
) -> dict[str, object]:
    keeping = Keeping()
    model = small_model(3, 4, 2).append(keeping).train(training)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    events: list[str] = []
    sizes: list[int] = []
    pieces: list[Tensor] = []
    modes: list[bool] = []
    graphs: list[int] = []

    def forward(_: nn.Module, inputs: tuple[Tensor]) -> None:
        events.append("forward")
        sizes.append(len(inputs[0]))
        pieces.append(inputs[0].detach().clone())
        modes.append(model.training)
        graphs.append(alive(keeping.kept))

    def follow(_: nn.Module, __: object, output: Tensor) -> None:
        if output.requires_grad:
            output.register_hook(lambda _: events.append("backward"))

    model.register_forward_pre_hook(forward)
    model.register_forward_hook(follow)
    for parameter in model.parameters():
        parameter.grad = None if old is None else torch.full_like(parameter, old)
    x, y = numbers(rows, 3, start=3.0), numbers(rows, 2, start=7.0)
    loss = answer(model, uneven_loss, x, y, k)
    return {
        "gradients": gradients(model),
        "loss": loss,
        "pieces small enough": max(sizes, default=0) <= -(-rows // k),
        "rows seen": sum(sizes),
        "rows in order": sum(sizes) == rows and torch.equal(torch.cat(pieces), numbers(rows, 3, start=3.0)),
        "graphs of earlier pieces alive at a forward": max(graphs, default=0),
        "mode of the model, during and after": {*modes, model.training} == {training},
        "each piece backward before the next forward": events == ["forward", "backward"] * len(sizes),
        "parameters unchanged": all(map(torch.equal, before, model.parameters())),
        "x and y as before": torch.equal(x, numbers(rows, 3, start=3.0))
        and torch.equal(y, numbers(rows, 2, start=7.0)),
    }


@exercise.probe
def equal_pieces(answer):
    return observed(answer, 6, 3)


@exercise.probe
def smaller_last_piece(answer):
    return observed(answer, 7, 3)


@exercise.probe
def three_rows_at_most(answer):
    return observed(answer, 11, 4)


@exercise.probe
def model_in_evaluation(answer):
    return observed(answer, 4, 2, training=False)


@exercise.probe
def single_rows(answer):
    return observed(answer, 4, 4)


@exercise.probe
def one_piece(answer):
    return observed(answer, 5, 1)


@exercise.probe
def gradients_of_an_earlier_batch(answer):
    return observed(answer, 5, 2, old=100.0)
