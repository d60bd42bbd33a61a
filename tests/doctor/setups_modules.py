"""Setups with a fault in the model or in what the optimizer holds, and their sound twins."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from doctor.made import blobs, images, loader
from doctor.registry import SETUPS
from doctor.zoo_losses import adam, mlp, plain
from torch import nn

pair = SETUPS


@pair("unregistered-submodule", "module-01")
def layers_in_a_list(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            layers = [nn.Linear(8, 24), nn.Linear(24, 24)]
            self.hidden = layers if bad else nn.ModuleList(layers)
            self.out = nn.Linear(24, 4)

        def forward(self, x):
            for layer in self.hidden:
                x = F.relu(layer(x))
            return self.out(x)

    return plain(Net(), loader(*blobs()), nn.CrossEntropyLoss())


@pair("unregistered-submodule")
def branches_in_a_dict(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            branches = {"small": nn.Conv2d(3, 4, 1), "wide": nn.Conv2d(3, 4, 3, padding=1)}
            self.branches = branches if bad else nn.ModuleDict(branches)
            self.head = nn.Linear(8, 4)

        def forward(self, x):
            return self.head(torch.cat([b(x).relu().amax((2, 3)) for b in self.branches.values()], 1))

    model = Net()
    optimizer = adam(model, 1e-2)

    def step(batch):
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(*images()), "optimizer": optimizer, "step": step}


@pair("no-parameters")
def everything_in_a_list(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = [nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)]
            if not bad:
                self.parts = nn.ModuleList(self.parts)

        def forward(self, x):
            for part in self.parts:
                x = part(x)
            return x

    # An optimizer cannot be built over nothing, so the bad one comes without.
    arguments = {"model": Net(), "loader": loader(*blobs()), "loss_fn": nn.CrossEntropyLoss()}
    if not bad:
        arguments["optimizer"] = adam(arguments["model"])
    return arguments


@pair("shared-by-list-multiplication")
def blocks_multiplied(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            blocks = [nn.Linear(16, 16)] * 3 if bad else [nn.Linear(16, 16) for _ in range(3)]
            self.first, self.blocks, self.last = nn.Linear(8, 16), nn.ModuleList(blocks), nn.Linear(16, 4)

        def forward(self, x):
            x = self.first(x)
            for block in self.blocks:
                x = F.relu(block(x))
            return self.last(x)

    return plain(Net(), loader(*blobs()), nn.CrossEntropyLoss())


@pair("tensor-not-buffer", "module-05")
def mean_as_plain_tensor(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            mean, std = 0.1 * torch.ones(8), 1.2 * torch.ones(8)
            if bad:
                self.mean, self.std = mean, std
            else:
                self.register_buffer("mean", mean)
                self.register_buffer("std", std)
            self.body = mlp(8, 4)

        def forward(self, x):
            return self.body((x - self.mean) / self.std)

    return plain(Net(), loader(*blobs()), nn.CrossEntropyLoss())


@pair("forward-called-directly")
def hooks_passed_over(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(8, 16), nn.Linear(16, 4)
            self.seen = []
            self.body.register_forward_hook(lambda module, inputs, output: self.seen.append(output.mean().item()))

        def forward(self, x):
            h = self.body.forward(x) if bad else self.body(x)
            return self.head(torch.tanh(h))

    return plain(Net(), loader(*blobs()), nn.CrossEntropyLoss())


@pair("optimizer-misses-parameters", "module-07")
def head_replaced_after_the_optimizer(bad):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model[2] = nn.Linear(16, 4)
    if not bad:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return {"model": model, "loader": loader(*blobs()), "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer}


@pair("optimizer-misses-parameters")
def groups_forget_a_block(bad):
    model = nn.ModuleDict({"encoder": nn.Linear(8, 16), "decoder": nn.Linear(16, 8)})
    groups = [{"params": model["decoder"].parameters()}]
    if not bad:
        groups.append({"params": model["encoder"].parameters(), "lr": 1e-3})
    optimizer = torch.optim.AdamW(groups, lr=1e-2)

    def step(batch):
        x = batch[0]
        loss = F.mse_loss(model["decoder"](torch.tanh(model["encoder"](x))), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(blobs()[0]), "optimizer": optimizer, "step": step}


class Frozen(nn.Module):
    """A frozen convolutional trunk and a head that trains; `still` keeps the trunk in evaluation mode."""

    def __init__(self, still: bool):
        super().__init__()
        self.trunk = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(288, 4)
        self.still = still
        for parameter in self.trunk.parameters():
            parameter.requires_grad = False

    def train(self, mode: bool = True):
        super().train(mode)
        if self.still:
            self.trunk.eval()
        return self

    def forward(self, x):
        return self.head(self.trunk(x))


@pair("frozen-batchnorm-drifts", "module-08")
def frozen_trunk_in_train_mode(bad):
    model = Frozen(still=not bad)
    return {
        "model": model,
        "loader": loader(*images()),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.SGD(model.head.parameters(), lr=0.05),
    }


@pair("frozen-batchnorm-drifts")
def train_called_on_all(bad):
    model = Frozen(still=False)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3)

    def step(batch):
        model.train()
        if not bad:
            model.trunk.eval()
        loss = F.cross_entropy(model(batch["x"]), batch["y"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    x, y = images()
    rows = [{"x": a, "y": b} for a, b in zip(x, y, strict=True)]
    data = torch.utils.data.DataLoader(rows, 16, shuffle=True)
    return {"model": model, "loader": data, "optimizer": optimizer, "step": step}


@pair("freeze-typo", "module-09")
def requires_grad_on_the_module(bad):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    if bad:
        model[0].requires_grad = False
    else:
        model[0].requires_grad_(False)
    return plain(model, loader(*blobs()), nn.CrossEntropyLoss(), lr=1e-2)


@pair("freeze-typo")
def method_hidden_by_a_flag(bad):
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    for parameter in model[0].parameters():
        if bad:
            parameter.requires_grad_ = False
        else:
            parameter.requires_grad = False
    return plain(model, loader(*blobs()), F.cross_entropy, lr=1e-2)


@pair("layer-built-in-forward", "module-10")
def projection_made_on_the_way(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(8, 16)
            self.project = None if bad else nn.Linear(16, 16)
            self.head = nn.Linear(16, 4)

        def forward(self, x):
            h = F.relu(self.body(x))
            project = nn.Linear(16, 16) if bad else self.project
            return self.head(F.relu(project(h)))

    return plain(Net(), loader(*blobs()), nn.CrossEntropyLoss())


@pair("module-used-as-function")
def activation_class_called(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 4)

        def forward(self, x):
            h = self.first(x)
            return self.last(nn.ReLU(h) if bad else nn.ReLU()(h))

    return plain(Net(), loader(*blobs()), nn.CrossEntropyLoss())


@pair("functional-dropout-ignores-eval", "module-12")
def dropout_always_on(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(8, 32), nn.Linear(32, 4)

        def forward(self, x):
            h = F.relu(self.first(x))
            return self.last(F.dropout(h, 0.3) if bad else F.dropout(h, 0.3, self.training))

    return plain(Net(), loader(*blobs()), nn.CrossEntropyLoss(), lr=1e-2)


@pair("functional-dropout-ignores-eval")
def attention_dropout_always_on(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.head = nn.Linear(5, 24), nn.Linear(8, 4)

        def forward(self, x):
            q, k, v = self.qkv(x).chunk(3, -1)
            rate = 0.2 if bad or self.training else 0.0
            return self.head(F.scaled_dot_product_attention(q, k, v, dropout_p=rate).mean(1))

    x, y = blobs(features=40)
    return plain(Net(), loader(x.view(-1, 8, 5), y), nn.CrossEntropyLoss(), lr=1e-2)


@pair("flatten-size-mismatch")
def linear_of_another_image_size(bad):
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 4 * 4 if bad else 8 * 3 * 3, 4),
    )
    return plain(model, loader(*images()), nn.CrossEntropyLoss())


@pair("batch-first-mismatch")
def recurrent_layer_along_the_batch(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = nn.GRU(5, 12, batch_first=not bad), nn.Linear(12, 4)

        def forward(self, x):
            return self.head(self.rnn(x)[0][:, -1])

    x, y = blobs(features=40)
    return plain(Net(), loader(x.view(-1, 8, 5), y), nn.CrossEntropyLoss(), lr=1e-2)


@pair("batch-first-mismatch")
def encoder_along_the_batch(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, **({} if bad else {"batch_first": True}))
            self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
            self.project, self.head = nn.Linear(5, 16), nn.Linear(16, 4)

        def forward(self, x):
            return self.head(self.encoder(self.project(x)).mean(dim=1))

    x, y = blobs(features=30)
    model = Net()
    optimizer = adam(model)

    def step(batch):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(x.view(-1, 6, 5), y), "optimizer": optimizer, "step": step}


@pair("symmetric-init", "module-15")
def constant_weights(bad):
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    if bad:
        for module in model:
            if isinstance(module, nn.Linear):
                nn.init.constant_(module.weight, 0.1)
                nn.init.zeros_(module.bias)
    return plain(model, loader(*blobs()), nn.CrossEntropyLoss(), lr=1e-2)


@pair("symmetric-init")
def hidden_layers_of_zeros(bad):
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 4))
    if bad:
        model.apply(lambda m: [p.data.zero_() for p in m.parameters(recurse=False)])
    return plain(model, loader(*images()), nn.CrossEntropyLoss())


@pair("dead-activation")
def biases_far_below_zero(bad):
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
    if bad:
        nn.init.constant_(model[0].bias, -12.0)
    return plain(model, loader(*blobs()), nn.CrossEntropyLoss(), lr=1e-2)


@pair("dead-activation")
def saturated_tanh(bad):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(8, 32), nn.Linear(32, 4)
            if bad:
                nn.init.constant_(self.first.bias, 40.0)

        def forward(self, x):
            return self.last(torch.tanh(self.first(x)))

    return plain(Net(), loader(*blobs()), nn.CrossEntropyLoss(), lr=1e-2)
