"""Lesson 04: padding, mask and lengths."""

from __future__ import annotations

import torch
from torch.nn.utils.rnn import pad_sequence

from course.checking import Exercise

exercise = Exercise(
    "data.collate_sequences",
    title="A collate function with mask and lengths",
    task="""
        `collate_sequences(samples, padding_value=0)` makes a batch of samples. `samples` is a list of B pairs
        `(sequence, label)`: a tensor of shape `(T_i, ...)`, whose length `T_i` differs from sample to sample (it may be
        0), and an int. Return four tensors:

        - `padded`, shape `(B, T, ...)`, the dtype of the sequences: each sequence, then `padding_value` up to the
          longest length T of this batch, which is 0 if all are empty;
        - `mask`, bool, shape `(B, T)`: True where `padded` holds an element of a sequence;
        - `lengths`, int64, shape `(B,)`;
        - `labels`, int64, shape `(B,)`.

        Samples keep their order. A sequence may hold the padding value as a real element.

        Example: `[(tensor([7, 8]), 1), (tensor([9]), 0)]` gives `[[7, 8], [9, 0]]`, `[[True, True], [True, False]]`,
        `[2, 1]` and `[1, 0]`.
        """,
    hints=(
        "torch.nn.utils.rnn.pad_sequence does the padding. The mask cannot be found from the padded numbers, because "
        "a real element may look like padding. What does say how far a row is real?",
        "Position t of row b is real when t is smaller than the length of row b: compare torch.arange(T) with the "
        "lengths as a column. zip(*samples) takes pairs apart.",
    ),
)


@exercise.stub
def collate_sequences(samples: list, padding_value: float = 0):
    """Return padded (B, T, ...), mask bool (B, T), lengths int64 (B,) and labels int64 (B,)."""
    raise NotImplementedError


@exercise.reference
def by_comparing_positions(samples, padding_value=0):
    sequences, labels = zip(*samples)
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    padded = pad_sequence(sequences, batch_first=True, padding_value=padding_value)
    mask = torch.arange(padded.shape[1]) < lengths[:, None]
    return padded, mask, lengths, torch.tensor(labels)


@exercise.alternative
def by_padding_a_mask_too(samples, padding_value=0):
    sequences = [sequence for sequence, _ in samples]
    padded = pad_sequence(sequences, batch_first=True, padding_value=padding_value)
    mask = pad_sequence([torch.ones(len(s), dtype=torch.bool) for s in sequences], batch_first=True)
    return padded, mask, mask.sum(1), torch.as_tensor([label for _, label in samples])


@exercise.alternative
def by_filling_in(samples, padding_value=0):
    first, longest = samples[0][0], max(len(sequence) for sequence, _ in samples)
    padded = first.new_full((len(samples), longest, *first.shape[1:]), padding_value)
    mask = torch.zeros(len(samples), longest, dtype=torch.bool)
    for row, (sequence, _) in enumerate(samples):
        padded[row, : len(sequence)] = sequence
        mask[row, : len(sequence)] = True
    lengths = torch.tensor([len(sequence) for sequence, _ in samples])
    return padded, mask, lengths, torch.tensor([label for _, label in samples])


@exercise.wrong(
    "The mask is read off the numbers: whatever equals the padding value counts as padding. A real element with that "
    "value is then lost, and what has features gets a mask with an axis too many. Use the lengths.",
    fault="padding-leaks",
)
def mask_from_the_numbers(samples, padding_value=0):
    sequences, labels = zip(*samples)
    padded = pad_sequence(sequences, batch_first=True, padding_value=padding_value)
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    return padded, padded != padding_value, lengths, torch.tensor(labels)


@exercise.wrong(
    "The mask is one too long: positions count from 0, so the position that equals the length is the first padded one. "
    "Each sequence that is shorter than the longest gets one padded element.",
    fault="padding-leaks",
)
def mask_one_too_long(samples, padding_value=0):
    sequences, labels = zip(*samples)
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    padded = pad_sequence(sequences, batch_first=True, padding_value=padding_value)
    return padded, torch.arange(padded.shape[1]) <= lengths[:, None], lengths, torch.tensor(labels)


@exercise.wrong(
    "The mask is one too short: it leaves out the last real element of each sequence. Positions count from 0, so a "
    "sequence of length 3 is real at 0, 1 and 2."
)
def mask_one_too_short(samples, padding_value=0):
    sequences, labels = zip(*samples)
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    padded = pad_sequence(sequences, batch_first=True, padding_value=padding_value)
    return padded, torch.arange(1, padded.shape[1] + 1) < lengths[:, None], lengths, torch.tensor(labels)


@exercise.wrong(
    "The mask says the opposite: True where there is padding. That is what key_padding_mask of MultiheadAttention "
    "wants; here True means that the element is real. Say in a docstring which of the two a mask means."
)
def true_means_padding(samples, padding_value=0):
    sequences, labels = zip(*samples)
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    padded = pad_sequence(sequences, batch_first=True, padding_value=padding_value)
    return padded, torch.arange(padded.shape[1]) >= lengths[:, None], lengths, torch.tensor(labels)


@exercise.wrong(
    "pad_sequence puts time first unless told otherwise: (T, B) in place of (B, T). Shapes fit each other, so nothing "
    "complains, and every layer that follows takes positions for samples.",
    fault="batch-first-mismatch",
)
def time_first(samples, padding_value=0):
    sequences, labels = zip(*samples)
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    padded = pad_sequence(sequences, padding_value=padding_value)
    return padded, torch.arange(len(padded))[:, None] < lengths, lengths, torch.tensor(labels)


@exercise.wrong(
    "The sequences were sorted by length, as packing once required, but the labels stayed where they were: samples and "
    "labels no longer belong together. Keep the order; pack_padded_sequence sorts for itself with "
    "enforce_sorted=False.",
    fault="label-misaligned",
)
def sorted_without_labels(samples, padding_value=0):
    sequences, labels = zip(*samples)
    sequences = sorted(sequences, key=len, reverse=True)
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    padded = pad_sequence(sequences, batch_first=True, padding_value=padding_value)
    return padded, torch.arange(padded.shape[1]) < lengths[:, None], lengths, torch.tensor(labels)


@exercise.wrong(
    "Samples and labels belong together, but the batch is sorted by length, so its order is not that of the samples. "
    "Predictions for a list of inputs would come back in another order."
)
def sorted_by_length(samples, padding_value=0):
    samples = sorted(samples, key=lambda sample: len(sample[0]), reverse=True)
    sequences, labels = zip(*samples)
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    padded = pad_sequence(sequences, batch_first=True, padding_value=padding_value)
    return padded, torch.arange(padded.shape[1]) < lengths[:, None], lengths, torch.tensor(labels)


@exercise.wrong(
    "These are the lengths after padding, T for every sample. What was padded can no longer be told from what is real."
)
def padded_lengths(samples, padding_value=0):
    sequences, labels = zip(*samples)
    padded = pad_sequence(sequences, batch_first=True, padding_value=padding_value)
    lengths = torch.tensor([len(row) for row in padded])
    return padded, torch.arange(padded.shape[1]) < lengths[:, None], lengths, torch.tensor(labels)


@exercise.wrong(
    "The padding stands in front of the sequences, so position 0 is not their first element. Models that write often "
    "want that, but the task says: each sequence, then padding."
)
def padded_in_front(samples, padding_value=0):
    sequences, labels = zip(*samples)
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    flipped = pad_sequence([s.flip(0) for s in sequences], batch_first=True, padding_value=padding_value)
    mask = torch.arange(flipped.shape[1]) < lengths[:, None]
    return flipped.flip(1), mask.flip(1), lengths, torch.tensor(labels)


@exercise.wrong(
    "`padding_value` is not used: the padding is always 0. A vocabulary may keep another number for padding, and "
    "scores are padded with minus infinity."
)
def always_padded_with_zero(samples, padding_value=0):
    sequences, labels = zip(*samples)
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    padded = pad_sequence(sequences, batch_first=True)
    return padded, torch.arange(padded.shape[1]) < lengths[:, None], lengths, torch.tensor(labels)


@exercise.wrong(
    "The padding value is rounded to an integer. It may be any number that the dtype of the sequences can hold, such "
    "as -0.5; new_full and pad_sequence take it as it is."
)
def padded_with_an_integer(samples, padding_value=0):
    sequences, labels = zip(*samples)
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    padded = pad_sequence(sequences, batch_first=True, padding_value=int(padding_value))
    return padded, torch.arange(padded.shape[1]) < lengths[:, None], lengths, torch.tensor(labels)


@exercise.wrong(
    "F.pad counts axes from the last one, so the place of the pair (0, n) depends on how many axes there are. This is "
    "right for sequences of numbers and of vectors; elements with two axes are padded along the wrong one."
)
def padded_along_the_wrong_axis(samples, padding_value=0):
    sequences, labels = zip(*samples)
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    longest = int(lengths.max())
    rows = []
    for sequence in sequences:
        ends = (0, longest - len(sequence)) if sequence.ndim == 1 else (0, 0, 0, longest - len(sequence))
        rows.append(torch.nn.functional.pad(sequence, ends, value=padding_value))
    return torch.stack(rows), torch.arange(longest) < lengths[:, None], lengths, torch.tensor(labels)


@exercise.wrong(
    "A batch of empty sequences gets one column of padding. The longest length is 0 then, and the task asks for the "
    "shape (B, 0)."
)
def at_least_one_column(samples, padding_value=0):
    first, lengths = samples[0][0], torch.tensor([len(sequence) for sequence, _ in samples])
    longest = max(1, int(lengths.max()))
    padded = first.new_full((len(samples), longest, *first.shape[1:]), padding_value)
    for row, (sequence, _) in enumerate(samples):
        padded[row, : len(sequence)] = sequence
    labels = torch.tensor([label for _, label in samples])
    return padded, torch.arange(longest) < lengths[:, None], lengths, labels


@exercise.probe
def a_few_tokens():
    return ([(torch.tensor([7, 8]), 1), (torch.tensor([9]), 0)],)


@exercise.probe
def the_longest_is_in_the_middle():
    lengths = (2, 5, 1, 4)
    return ([(torch.arange(1.0, n + 1) * (i + 1), i * 3) for i, n in enumerate(lengths)],)


@exercise.probe
def zeros_that_are_real():
    return ([(torch.tensor([0, 4, 0]), 2), (torch.tensor([5, 0, 6, 0, 0]), 0)],)


@exercise.probe
def another_padding_value():
    return [(torch.tensor([1, -1, 3]), 1), (torch.tensor([2]), 0), (torch.tensor([6, 5]), 2)], -1


@exercise.probe
def sequences_with_features():
    values = torch.arange(1.0, 13.0, dtype=torch.float64)
    return ([(values[:4].reshape(2, 2), 1), (values[4:].reshape(4, 2), 0)],)


@exercise.probe
def an_empty_sequence():
    return ([(torch.tensor([1.5, 2.5]), 1), (torch.tensor([]), 4), (torch.tensor([3.5]), 2)],)


@exercise.probe
def one_sample():
    return ([(torch.tensor([4, 4, 2]), 7)],)


@exercise.probe
def as_many_samples_as_positions():
    return ([(torch.tensor([1, 2]), 0), (torch.tensor([3, 4, 5]), 1), (torch.tensor([6]), 1)],)


@exercise.probe
def a_padding_value_with_a_fraction():
    return [(torch.tensor([0.5]), 1), (torch.tensor([1.0, -0.5, 2.0]), 0)], -0.5


@exercise.probe
def elements_with_two_axes():
    values = torch.arange(1.0, 19.0)
    return ([(values[:6].reshape(1, 3, 2), 1), (values[6:].reshape(2, 3, 2), 0)],)


@exercise.probe
def all_are_empty():
    return ([(torch.tensor([]), 3), (torch.tensor([]), 1)],)


@exercise.probe
def the_list_stays_as_it_is(answer):
    samples = [(torch.tensor([1, 2]), 0), (torch.tensor([3, 4, 5]), 1), (torch.tensor([6]), 2)]
    answer(samples)
    return [label for _, label in samples]
