"""Lesson 11, build it: all-reduce in a ring."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise
from course.exercises.distributed._ranks import Communicator, as_ranks

exercise = Exercise(
    "distributed.ring_all_reduce",
    title="Build it: all-reduce in a ring",
    task="""
        `ring_all_reduce(x, comm)` returns the sum of `x` over all ranks, on every rank: a new tensor of the shape and
        dtype of `x`, which stays as it is. Every rank calls it with a tensor of the same shape.

        `comm.rank` is this rank's number, `comm.size` how many there are. `comm.send(tensor, to)` sends a copy of a
        tensor to rank `to` and does not wait; `comm.recv(source)` waits for the next tensor from rank `source` and
        returns it. Nothing else connects the ranks.

        A ring: cut the elements into `comm.size` chunks, as equal as may be, and pass them on to the next rank in two
        rounds of `size - 1` steps. In the first the sums grow, until each rank has one chunk complete; in the second
        the complete chunks go round. Every rank sends to the next one alone (the last to rank 0), `2 * (size - 1)`
        messages at most, and in them each element `2 * (size - 1) / size` times, but for what rounding adds to a chunk.
        That is counted. The length need not be divisible, and may be smaller than the number of ranks; one rank sends
        nothing.
        """,
    hints=(
        "Start from a list of chunks that you own. In step s of the first round rank r sends chunk r - s, modulo the "
        "size, and adds what comes to the chunk before it. Follow three ranks on paper.",
        "After the first round rank r holds chunk r + 1 complete. In step s of the second it sends chunk r + 1 - s "
        "and puts what comes in the place of chunk r - s. torch.tensor_split cuts into chunks, torch.cat joins them.",
    ),
)


@exercise.stub
def ring_all_reduce(x: Tensor, comm) -> Tensor:
    """Return the sum of x over all ranks; comm has rank, size, send(tensor, to) and recv(source)."""
    raise NotImplementedError


@exercise.reference
def two_rounds(x, comm):
    chunks = [chunk.clone() for chunk in x.reshape(-1).tensor_split(comm.size)]
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for step in range(comm.size - 1):
        comm.send(chunks[comm.rank - step], after)
        chunks[before - step] += comm.recv(before)
    for step in range(comm.size - 1):
        comm.send(chunks[after - step], after)
        chunks[comm.rank - step] = comm.recv(before)
    return torch.cat(chunks).view_as(x)


@exercise.alternative
def one_loop_over_slices(x, comm):
    flat, size = x.flatten().clone(), comm.size
    bounds = [flat.numel() * place // size for place in range(size + 1)]
    parts = [flat[bounds[place] : bounds[place + 1]] for place in range(size)]
    at = comm.rank
    for step in range(2 * (size - 1)):
        comm.send(parts[at], (comm.rank + 1) % size)
        at = (at - 1) % size
        came = comm.recv((comm.rank - 1) % size)
        if step < size - 1:
            parts[at].add_(came)
        else:
            parts[at].copy_(came)
    return flat.reshape(x.shape)


@exercise.alternative
def padded_to_equal_chunks(x, comm):
    size, rank = comm.size, comm.rank
    each = -(-x.numel() // size)
    table = x.new_zeros(size * each)
    table[: x.numel()] = x.flatten()
    table = table.reshape(size, each)
    for step in range(size - 1):
        comm.send(table[(rank - step) % size], (rank + 1) % size)
        table[(rank - step - 1) % size] += comm.recv((rank - 1) % size)
    for step in range(size - 1):
        comm.send(table[(rank + 1 - step) % size], (rank + 1) % size)
        table[(rank - step) % size] = comm.recv((rank - 1) % size)
    return table.flatten()[: x.numel()].reshape(x.shape)


@exercise.wrong(
    "Every rank sends its whole tensor to every other. The sum is right, but each element is sent size - 1 times: the "
    "cost grows with the number of ranks, where a ring's stays below twice the tensor."
)
def everyone_to_everyone(x, comm):
    others = [rank for rank in range(comm.size) if rank != comm.rank]
    for rank in others:
        comm.send(x, rank)
    total = x.clone()
    for rank in others:
        total += comm.recv(rank)
    return total


@exercise.wrong(
    "It is a ring, but whole tensors go round it. Each element is sent size - 1 times, as if everyone sent to "
    "everyone. Chunks are what keeps it cheap."
)
def whole_tensors_go_round(x, comm):
    total, travelling = x.clone(), x
    for _ in range(comm.size - 1):
        comm.send(travelling, (comm.rank + 1) % comm.size)
        travelling = comm.recv((comm.rank - 1) % comm.size)
        total += travelling
    return total


@exercise.wrong(
    "Rank 0 collects all tensors and sends the sum back to everyone. The others send little, but rank 0 sends the "
    "whole tensor size - 1 times, and all wait for it."
)
def through_rank_0(x, comm):
    if comm.rank:
        comm.send(x, 0)
        return comm.recv(0)
    total = x.clone()
    for rank in range(1, comm.size):
        total += comm.recv(rank)
    for rank in range(1, comm.size):
        comm.send(total, rank)
    return total


@exercise.wrong(
    "Only the first round is there. Each rank has one chunk complete (this is a reduce-scatter); the others hold sums "
    "of a part of the ranks. A second round takes the complete chunks to everyone."
)
def first_round_only(x, comm):
    chunks = [chunk.clone() for chunk in x.reshape(-1).tensor_split(comm.size)]
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for step in range(comm.size - 1):
        comm.send(chunks[(comm.rank - step) % comm.size], after)
        chunks[(before - step) % comm.size] += comm.recv(before)
    return torch.cat(chunks).reshape(x.shape)


@exercise.wrong(
    "The second round adds as well. What comes there is complete already, and is to take the place of the chunk; "
    "added, it counts some ranks several times."
)
def second_round_adds(x, comm):
    chunks = [chunk.clone() for chunk in x.reshape(-1).tensor_split(comm.size)]
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for start in (comm.rank, after):
        for step in range(comm.size - 1):
            comm.send(chunks[(start - step) % comm.size], after)
            place = (start - step - 1) % comm.size
            chunks[place] = chunks[place] + comm.recv(before)
    return torch.cat(chunks).reshape(x.shape)


@exercise.wrong(
    "There is one step too many in the first round: a chunk then comes back to a rank that had added its own already. "
    "The sums are too large, and more is sent than needed."
)
def one_step_too_many(x, comm):
    chunks = [chunk.clone() for chunk in x.reshape(-1).tensor_split(comm.size)]
    if comm.size == 1:
        return x.clone()
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for step in range(comm.size):
        comm.send(chunks[(comm.rank - step) % comm.size], after)
        place = (before - step) % comm.size
        chunks[place] = chunks[place] + comm.recv(before)
    for step in range(comm.size - 1):
        comm.send(chunks[(comm.rank - step) % comm.size], after)
        chunks[(before - step) % comm.size] = comm.recv(before)
    return torch.cat(chunks).reshape(x.shape)


@exercise.wrong(
    "All chunks have length // size elements, and what is left over is not summed: it is this rank's own. Some chunks "
    "have to be one longer."
)
def the_remainder_forgotten(x, comm):
    flat, each = x.flatten().clone(), x.numel() // comm.size
    chunks = [flat[place * each : (place + 1) * each] for place in range(comm.size)]
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for step in range(comm.size - 1):
        comm.send(chunks[(comm.rank - step) % comm.size], after)
        chunks[(before - step) % comm.size] += comm.recv(before)
    for step in range(comm.size - 1):
        comm.send(chunks[(after - step) % comm.size], after)
        chunks[(comm.rank - step) % comm.size].copy_(comm.recv(before))
    return flat.reshape(x.shape)


@exercise.wrong("This is the mean over ranks. The task asks for the sum; DDP divides afterwards.")
def the_mean(x, comm):
    chunks = [chunk.clone() for chunk in x.reshape(-1).tensor_split(comm.size)]
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for step in range(comm.size - 1):
        comm.send(chunks[(comm.rank - step) % comm.size], after)
        chunks[(before - step) % comm.size] += comm.recv(before)
    for step in range(comm.size - 1):
        comm.send(chunks[(after - step) % comm.size], after)
        chunks[(comm.rank - step) % comm.size] = comm.recv(before)
    return (torch.cat(chunks) / comm.size).to(x.dtype).reshape(x.shape)


@exercise.wrong(
    "The chunks are views of `x`, so the sums are written into the caller's tensor. `x` has to stay as it is."
)
def written_into_x(x, comm):
    chunks = list(x.view(-1).tensor_split(comm.size))
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for step in range(comm.size - 1):
        comm.send(chunks[(comm.rank - step) % comm.size], after)
        chunks[(before - step) % comm.size] += comm.recv(before)
    for step in range(comm.size - 1):
        comm.send(chunks[(after - step) % comm.size], after)
        chunks[(comm.rank - step) % comm.size].copy_(comm.recv(before))
    return x


@exercise.wrong(
    "Every rank receives before it sends. So all wait, and nobody sends: a deadlock, which real processes would sit "
    "in until their timeout."
)
def everyone_receives_first(x, comm):
    if comm.size == 1:
        return x.clone()
    chunks = [chunk.clone() for chunk in x.reshape(-1).tensor_split(comm.size)]
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for step in range(comm.size - 1):
        came = comm.recv(before)
        comm.send(chunks[(comm.rank - step) % comm.size], after)
        chunks[(before - step) % comm.size] += came
    for step in range(comm.size - 1):
        came = comm.recv(before)
        comm.send(chunks[(after - step) % comm.size], after)
        chunks[(comm.rank - step) % comm.size] = came
    return torch.cat(chunks).reshape(x.shape)


@exercise.wrong("The result is one long row. It has to have the shape of `x`.")
def flat_result(x, comm):
    chunks = [chunk.clone() for chunk in x.reshape(-1).tensor_split(comm.size)]
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for step in range(comm.size - 1):
        comm.send(chunks[(comm.rank - step) % comm.size], after)
        chunks[(before - step) % comm.size] += comm.recv(before)
    for step in range(comm.size - 1):
        comm.send(chunks[(after - step) % comm.size], after)
        chunks[(comm.rank - step) % comm.size] = comm.recv(before)
    return torch.cat(chunks)


def _numbers(shape, dtype=torch.float32):
    """A tensor for each rank; sums of them are exact."""

    def of(rank):
        count = torch.Size(shape).numel()
        return (torch.arange(1, count + 1) * 3 ** min(rank, 8) % 251).to(dtype).reshape(shape)

    return of


def _run(answer, size, numbers):
    """Sums, inputs after the call, and what every rank sent, as far as the task limits it."""

    def main(rank, world):
        total = answer(inputs[rank], Communicator(world))
        return total, isinstance(total, Tensor) and total.data_ptr() == inputs[rank].data_ptr() and total.numel() > 0

    inputs = [numbers(rank) for rank in range(size)]
    results, world = as_ranks(main, size)
    chunk = -(-inputs[0].numel() // size)
    elements = [sum(length for _, length in sent) for sent in world.sent]
    traffic = {
        "only to the next rank": all(to == (rank + 1) % size for rank in range(size) for to, _ in world.sent[rank]),
        "at most 2 (size - 1) messages": all(len(sent) <= 2 * (size - 1) for sent in world.sent),
        "at most 2 (size - 1) chunks of elements": [sent <= 2 * (size - 1) * chunk for sent in elements],
        "nothing but send and recv": not any(world.collectives),
        "every message received": not any(world.boxes.values()),
    }
    return [total for total, _ in results], traffic, inputs, [shared for _, shared in results]


@exercise.probe
def three_ranks_and_six_numbers(answer):
    return _run(answer, 3, _numbers((6,)))


@exercise.probe
def two_ranks(answer):
    return _run(answer, 2, _numbers((4,)))


@exercise.probe
def a_length_that_is_not_divisible(answer):
    return _run(answer, 4, _numbers((11,)))


@exercise.probe
def fewer_numbers_than_ranks(answer):
    return _run(answer, 5, _numbers((3,)))


@exercise.probe
def one_rank_alone(answer):
    return _run(answer, 1, _numbers((5,)))


@exercise.probe
def a_matrix(answer):
    return _run(answer, 3, _numbers((4, 5)))


@exercise.probe
def a_transposed_matrix(answer):
    numbers = _numbers((5, 4))
    return _run(answer, 3, lambda rank: numbers(rank).t())


@exercise.probe
def integers(answer):
    return _run(answer, 3, _numbers((7,), torch.int64))


@exercise.probe
def doubles_on_seven_ranks(answer):
    return _run(answer, 7, _numbers((30,), torch.float64))


@exercise.probe
def one_number(answer):
    return _run(answer, 3, _numbers(()))


@exercise.probe
def called_twice(answer):
    def main(rank, world):
        comm = Communicator(world)
        first = answer(torch.arange(5.0) + rank, comm)
        return first, answer(torch.arange(8.0) * rank, comm)

    return as_ranks(main, 3)[0]
