"""Small setups for the tests of single families, and what the doctor says of them."""

from __future__ import annotations

import warnings

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from course.doctor import examine


def alarms(*, budget_s=2.0, **arguments):
    """Ids of the errors and warnings."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = examine(**arguments, budget_s=budget_s)
    finally:
        torch.set_num_threads(threads)
    failed = [line for line in report.not_examined if line.startswith("family ")]
    assert not failed, failed
    return [finding.fault for finding in report.worst("warning")]


def data(number=96, features=8, classes=4, batch=16, seed=0):
    """A loader of separable classes, standardised and shuffled."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(number) % classes
    x = torch.randn(number, features, generator=generator)
    x[:, :classes] += 2.0 * nn.functional.one_hot(y, classes)
    x = (x - x.mean(0)) / x.std(0)
    return DataLoader(TensorDataset(x, y), batch, shuffle=True, drop_last=True)


def pairs(x, y, batch=16, **options):
    """A loader of tensors."""
    options.setdefault("shuffle", True)
    return DataLoader(TensorDataset(x, y), batch, **options)


def net(inputs=8, outputs=4, *last):
    """A small network with the given last layers."""
    return nn.Sequential(nn.Linear(inputs, 24), nn.ReLU(), nn.Linear(24, outputs), *last)


def trained(model, loader, loss_fn, lr=1e-2, **more):
    """Arguments of examine with Adam."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr) if parameters else None
    return {"model": model, "loader": loader, "loss_fn": loss_fn, "optimizer": optimizer, **more}
