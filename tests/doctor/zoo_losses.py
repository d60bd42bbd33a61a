"""Sound setups that differ in task, model and loss."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from doctor.made import blobs, curve, generator, images, loader, masks, padded, tokens
from doctor.registry import sound
from torch import nn


def adam(model: nn.Module, lr: float = 3e-3) -> torch.optim.Adam:
    return torch.optim.Adam(model.parameters(), lr=lr)


def mlp(inputs: int, outputs: int, hidden: int = 24) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


def plain(model: nn.Module, data: object, loss: object, lr: float = 3e-3, **more: object) -> dict:
    return {"model": model, "loader": data, "loss_fn": loss, "optimizer": adam(model, lr), **more}


@sound
def classification():
    return plain(mlp(8, 4), loader(*blobs()), nn.CrossEntropyLoss())


@sound
def logistic_regression_from_zero():
    # One linear layer may start at zero: there are no hidden units to tell apart.
    model = nn.Linear(8, 4)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    return plain(model, loader(*blobs()), F.cross_entropy, lr=3e-2)


@sound
def cnn_with_batchnorm_and_dropout():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(128, 4),
    )
    val = loader(*images(32), shuffle=False, batch_size=32)
    return plain(model, loader(*images()), nn.CrossEntropyLoss(label_smoothing=0.1), val_loader=val)


@sound
def regression():
    return plain(mlp(4, 1), loader(*curve()), nn.MSELoss())


@sound
def regression_of_one_number_squeezed():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = mlp(4, 1)

        def forward(self, x):
            return self.body(x).squeeze(-1)

    x, y = curve()
    return plain(Net(), loader(x, y[:, 0]), nn.SmoothL1Loss())


@sound
def binary_with_logits():
    x, y = blobs(classes=2)
    return plain(mlp(8, 1), loader(x, y.float()[:, None]), nn.BCEWithLogitsLoss(pos_weight=torch.tensor([2.0])))


@sound
def binary_with_probabilities():
    x, y = blobs(classes=2)
    return plain(nn.Sequential(mlp(8, 1), nn.Sigmoid()), loader(x, y.float()[:, None]), nn.BCELoss(), lr=1e-2)


@sound
def multi_label():
    x, y = blobs()
    labels = torch.stack([y == 0, y > 1, x[:, 0] > 0], 1).float()
    return plain(mlp(8, 3), loader(x, labels), F.binary_cross_entropy_with_logits)


@sound
def segmentation_with_void():
    x, y = masks()
    y[:, :1] = 255
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1))
    return plain(model, loader(x, y, batch_size=8), nn.CrossEntropyLoss(ignore_index=255), lr=1e-2)


@sound
def log_softmax_with_nll():
    model = nn.Sequential(mlp(8, 4), nn.LogSoftmax(dim=1))
    return plain(model, loader(*blobs()), nn.NLLLoss())


@sound
def soft_targets():
    x, y = blobs()
    soft = 0.9 * F.one_hot(y, 4) + 0.025
    return plain(mlp(8, 4), loader(x, soft), nn.CrossEntropyLoss())


@sound
def imbalanced_with_weights():
    x, y = blobs(96)
    keep = (y != 3) | (torch.rand(96, generator=generator(7)) < 0.2)
    weight = 1 / torch.bincount(y[keep], minlength=4).float()
    return plain(mlp(8, 4), loader(x[keep], y[keep], drop_last=True), nn.CrossEntropyLoss(weight=weight))


@sound
def autoencoder_of_images_in_0_1():
    # Squared error on sigmoid outputs is what one wants where the targets are grey levels, not classes.
    x, _ = images(size=6)
    x = x.sub(x.min()).div(x.max() - x.min()).flatten(1)
    model = nn.Sequential(nn.Linear(108, 24), nn.ReLU(), nn.Linear(24, 108), nn.Sigmoid())
    return plain(model, loader(x, x), nn.MSELoss(), lr=1e-2)


@sound
def proportions_by_sigmoid_and_mse():
    x, y = curve()
    return plain(nn.Sequential(mlp(4, 1), nn.Sigmoid()), loader(x, torch.sigmoid(y)), nn.MSELoss(), lr=1e-2)


@sound
def quantile_regression():
    levels = torch.tensor([0.1, 0.5, 0.9])

    def pinball(output, target):
        gap = target - output
        return torch.maximum(levels * gap, (levels - 1) * gap).mean()

    return plain(mlp(4, 3), loader(*curve()), pinball, lr=1e-2)


@sound
def ordinal_regression():
    x, y = curve()
    grade = torch.bucketize(y[:, 0], torch.tensor([-0.7, 0.0, 0.7]))
    above = (grade[:, None] > torch.arange(3)).float()
    return plain(mlp(4, 3), loader(x, above), nn.BCEWithLogitsLoss())


@sound
def counts_by_poisson():
    x, y = curve()
    return plain(mlp(4, 1), loader(x, y.exp().round()), nn.PoissonNLLLoss())


@sound
def mean_and_variance():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = mlp(4, 2)

        def forward(self, x):
            mean, raw = self.body(x).chunk(2, dim=1)
            return mean, F.softplus(raw) + 1e-4

    loss = nn.GaussianNLLLoss()
    return plain(Net(), loader(*curve()), lambda output, y: loss(output[0], y, output[1]))


@sound
def language_model_with_tied_weights():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(12, 16)
            self.rnn = nn.GRU(16, 16, batch_first=True)
            self.head = nn.Linear(16, 12, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, ids):
            return self.head(self.rnn(self.embedding(ids))[0])

    ids = tokens()
    return plain(
        Net(),
        loader(ids[:, :-1], ids[:, 1:]),
        lambda logits, y: F.cross_entropy(logits.flatten(0, 1), y.flatten()),
        lr=1e-2,
    )


@sound
def causal_transformer():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(12, 16)
            self.position = nn.Parameter(0.02 * torch.randn(9, 16))
            self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True, norm_first=True)
            self.head = nn.Linear(16, 12)
            self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(9), persistent=False)

        def forward(self, ids):
            return self.head(self.block(self.embedding(ids) + self.position, src_mask=self.mask, is_causal=True))

    ids = tokens()
    return plain(
        Net(),
        loader(ids[:, :-1], ids[:, 1:]),
        lambda logits, y: F.cross_entropy(logits.transpose(1, 2), y),
    )


@sound
def lstm_over_time_first():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.LSTM(5, 12)
            self.head = nn.Linear(12, 2)

        def forward(self, x):
            return self.head(self.rnn(x.transpose(0, 1))[0][-1])

    x, y = blobs(features=40, classes=2)
    return plain(Net(), loader(x.view(-1, 8, 5), y), nn.CrossEntropyLoss(), lr=1e-2)


@sound
def attention_inside():
    # A softmax over positions within the model is not a softmax before the loss.
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.score, self.head = nn.Linear(5, 1), nn.Linear(5, 4)

        def forward(self, x):
            return self.head((self.score(x).softmax(1) * x).sum(1))

    x, y = blobs(features=40)
    return plain(Net(), loader(x.view(-1, 8, 5), y), nn.CrossEntropyLoss(), lr=2e-2)


@sound
def residual_branches_start_at_zero():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.inner, self.outer = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)
            nn.init.zeros_(self.outer.weight)
            nn.init.zeros_(self.outer.bias)

        def forward(self, x):
            return x + self.outer(F.gelu(self.inner(self.norm(x))))

    model = nn.Sequential(nn.Linear(8, 16), Block(), Block(), nn.Linear(16, 4))
    return plain(model, loader(*blobs()), nn.CrossEntropyLoss())


@sound
def low_rank_adapter():
    # The second factor starts at zero, so the first has no gradient in the first step, and one in the second.
    class Adapted(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base = base.requires_grad_(False)
            self.down = nn.Parameter(torch.randn(4, base.in_features) / base.in_features**0.5)
            self.up = nn.Parameter(torch.zeros(base.out_features, 4))

        def forward(self, x):
            return self.base(x) + x @ self.down.T @ self.up.T

    model = nn.Sequential(Adapted(nn.Linear(8, 24)), nn.ReLU(), Adapted(nn.Linear(24, 4)))
    trained = [p for p in model.parameters() if p.requires_grad]
    return {
        "model": model,
        "loader": loader(*blobs()),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.AdamW(trained, lr=1e-2),
    }


@sound
def weights_shared_on_purpose():
    # One block applied three times (as in ALBERT or a recurrent network), written as a loop.
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.block, self.last = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 4)

        def forward(self, x):
            x = self.first(x)
            for _ in range(3):
                x = x + torch.tanh(self.block(x))
            return self.last(x)

    return plain(Net(), loader(*blobs()), nn.CrossEntropyLoss())


@sound
def siamese_with_triplets():
    x, y = blobs()
    positive, negative = x.clone(), x.flip(0)
    for k in range(4):
        positive[y == k] = x[y == k].roll(1, 0)
        negative[y == k] = x[y != k][: int((y == k).sum())]

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = mlp(8, 8)

        def forward(self, triple):
            return self.body(triple[:, 0]), self.body(triple[:, 1]), self.body(triple[:, 2])

    loss = nn.TripletMarginLoss()
    return plain(Net(), loader(torch.stack([x, positive, negative], 1), y), lambda out, _: loss(*out), lr=1e-2)


@sound
def mean_over_real_positions():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(13, 12, padding_idx=0), nn.Linear(12, 2)

        def forward(self, ids):
            real = (ids != 0).unsqueeze(-1)
            return self.head((self.embedding(ids) * real).sum(1) / real.sum(1))

    _, lengths, y = padded()
    ids = (tokens(48, 9) + 1 + 0 * y[:, None]) * (torch.arange(9) < lengths[:, None])
    labels = (ids[:, :3].sum(1) > 18).long()
    return plain(Net(), loader(ids, labels), nn.CrossEntropyLoss(), lr=2e-2)


@sound
def time_series_in_order():
    # A time series may well be read in order; its target is a number.
    wave = torch.sin(torch.arange(90) / 4) + 0.05 * torch.randn(90, generator=generator(8))
    x = wave.unfold(0, 10, 1)[:-1]
    return plain(mlp(10, 1), loader(x, wave[10:, None], shuffle=False), nn.MSELoss())


@sound
def connectionist_temporal_classification():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = nn.GRU(6, 16, batch_first=True), nn.Linear(16, 6)

        def forward(self, x):
            return self.head(self.rnn(x)[0]).log_softmax(-1).transpose(0, 1)

    y = tokens(32, 3, 5) + 1
    x = F.one_hot(y.repeat_interleave(4, 1), 6).float()
    x = (x - 1 / 6) / 0.37 + 0.1 * torch.randn(x.shape, generator=generator(9))

    def loss(scores, target):
        n = len(target)
        return F.ctc_loss(scores, target, torch.full((n,), 12), torch.full((n,), 3))

    return plain(Net(), loader(x, y), loss, lr=1e-2)


@sound
def hinge_and_margin():
    return plain(mlp(8, 4), loader(*blobs()), nn.MultiMarginLoss())


@sound
def kullback_leibler_to_frequencies():
    x, y = blobs()
    target = F.one_hot(y, 4) * 0.7 + 0.075
    model = nn.Sequential(mlp(8, 4), nn.LogSoftmax(-1))
    return plain(model, loader(x, target), nn.KLDivLoss(reduction="batchmean"))


@sound
def double_precision():
    x, y = curve()
    return plain(mlp(4, 1).double(), loader(x.double(), y.double()), nn.MSELoss())


@sound
def pixels_as_bytes_scaled_in_the_model():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.tensor(0.5))
            self.body = nn.Sequential(nn.Flatten(), mlp(192, 4))

        def forward(self, x):
            return self.body((x.float() / 255 - self.mean) / 0.2)

    x, y = images()
    return plain(Net(), loader((x * 40 + 128).clamp(0, 255).byte(), y), nn.CrossEntropyLoss())
