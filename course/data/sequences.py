"""Datasets of sequences of different length; importable, so that worker processes can load them on every platform."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.data import Dataset


class TokenSequences(Dataset[tuple[Tensor, int]]):
    """Sequences of tokens with a label: 1 where the first token comes again later, else 0.

    size: how many. shortest, longest: bounds of the lengths, most of which are short, as those of sentences are.
    vocabulary: tokens are the integers 1 to vocabulary - 1; 0 is left free for padding. seed: another seed gives other
    sequences, the same seed the same.

    A sample is (tokens int64 (T,), label). `lengths` lists every T without making the samples.
    """

    def __init__(
        self, size: int = 200, *, shortest: int = 3, longest: int = 40, vocabulary: int = 20, seed: int = 0
    ) -> None:
        if not 1 <= shortest <= longest:
            raise ValueError(f"lengths from {shortest} to {longest} were asked for; they must be positive and in order")
        if vocabulary < 2:
            raise ValueError(f"a vocabulary of {vocabulary} was asked for; it needs a token besides the padding")
        self.vocabulary, self.seed = vocabulary, seed
        draws = torch.rand(size, generator=torch.Generator().manual_seed(seed))
        self.lengths: list[int] = (shortest + (draws**2 * (longest - shortest + 1)).long()).tolist()

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if not 0 <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        tokens = torch.randint(1, self.vocabulary, (self.lengths[index],), generator=self._generator(index))
        return tokens, int((tokens[1:] == tokens[0]).any())

    def _generator(self, index: int) -> torch.Generator:
        # A sample depends on its index alone, not on which samples were read before it.
        return torch.Generator().manual_seed(self.seed * 1_000_003 + index + 1)


class FeatureSequences(TokenSequences):
    """The same sequences with features in place of tokens: a sample is (float32 (T, features), label)."""

    def __init__(self, size: int = 200, *, features: int = 4, seed: int = 0, **options: int) -> None:
        super().__init__(size, seed=seed, **options)
        self.table = torch.randn(self.vocabulary, features, generator=torch.Generator().manual_seed(seed))

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        tokens, label = super().__getitem__(index)
        return self.table[tokens], label
