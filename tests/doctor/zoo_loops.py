"""Sound setups with a training step, a schedule or a loader of their own."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from doctor.made import blobs, curve, generator, images, loader, padded, tokens
from doctor.registry import sound
from doctor.zoo_losses import adam, mlp
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from torchvision.models import resnet18
from torchvision.transforms import v2


@sound
def dict_batches_as_in_detection():
    class Samples(torch.utils.data.Dataset):
        def __init__(self):
            self.x, self.y = images(48)
            self.boxes = torch.rand(48, 4, generator=generator(1))

        def __len__(self):
            return 48

        def __getitem__(self, i):
            return {"image": self.x[i], "target": {"label": self.y[i], "box": 0.5 * self.boxes[i] + 0.1 * self.y[i]}}

    class Detector(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten())
            self.label, self.box = nn.Linear(288, 4), nn.Linear(288, 4)

        def forward(self, image):
            features = self.trunk(image)
            return {"label": self.label(features), "box": self.box(features)}

    model = Detector()
    optimizer = adam(model)

    def step(batch):
        model.train()
        out = model(batch["image"])
        loss = F.cross_entropy(out["label"], batch["target"]["label"])
        loss = loss + 5 * F.smooth_l1_loss(out["box"], batch["target"]["box"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": DataLoader(Samples(), 16, shuffle=True), "optimizer": optimizer, "step": step}


@sound
def packed_sequences():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = nn.LSTM(5, 12, batch_first=True, bidirectional=True), nn.Linear(24, 2)

        def forward(self, x, lengths):
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            _, (h, _) = self.rnn(packed)
            return self.head(torch.cat([h[0], h[1]], 1))

    model = Net()
    optimizer = adam(model, 1e-2)

    def step(batch):
        x, lengths, y = batch
        optimizer.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x, lengths), y)
        loss.backward()
        optimizer.step()
        return loss

    return {"model": model, "loader": loader(*padded()), "optimizer": optimizer, "step": step}


@sound
def truncated_backpropagation_through_time():
    model = nn.ModuleDict({"rnn": nn.LSTM(12, 16, batch_first=True), "head": nn.Linear(16, 12)})
    optimizer = adam(model, 1e-2)
    stream = tokens(8, 60)
    pieces = TensorDataset(stream.view(8, 6, 10).transpose(0, 1))
    state = {"h": None}

    def step(batch):
        ids = batch[0].squeeze(0)
        out, h = model["rnn"](F.one_hot(ids, 12).float(), state["h"])
        state["h"] = tuple(part.detach() for part in h)
        loss = F.cross_entropy(model["head"](out[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": DataLoader(pieces, 1), "optimizer": optimizer, "step": step}


@sound
def sequence_to_sequence_with_padding():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(14, 16, padding_idx=0)
            self.core = nn.Transformer(16, 2, 1, 1, 32, dropout=0.0, batch_first=True)
            self.head = nn.Linear(16, 14)

        def forward(self, source, target):
            causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1], dtype=torch.bool)
            hidden = self.core(
                self.embedding(source),
                self.embedding(target),
                tgt_mask=causal,
                src_key_padding_mask=source == 0,
                memory_key_padding_mask=source == 0,
                tgt_key_padding_mask=target == 0,
            )
            return self.head(hidden)

    lengths = torch.randint(4, 9, (48,), generator=generator(2))
    source = (tokens(48, 8) + 1) * (torch.arange(8) < lengths[:, None])
    target = torch.cat([torch.full((48, 1), 13), source], 1)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98))

    def step(batch):
        source, target = batch
        optimizer.zero_grad()
        logits = model(source, target[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=0)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return {"model": model, "loader": loader(source, target), "optimizer": optimizer, "step": step}


@sound
def transformer_with_key_padding_mask():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.project = nn.Linear(5, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
            self.head = nn.Linear(16, 2)

        def forward(self, x, lengths):
            padding = torch.arange(x.shape[1]) >= lengths[:, None]
            hidden = self.layer(self.project(x), src_key_padding_mask=padding)
            hidden = hidden.masked_fill(padding.unsqueeze(-1), 0).sum(1)
            return self.head(hidden / lengths[:, None])

    model = Net()
    optimizer = adam(model)

    def step(batch):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(*batch[:2]), batch[2])
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(*padded()), "optimizer": optimizer, "step": step}


@sound
def adversarial_pair():
    maker, judge = mlp(4, 8), nn.Sequential(nn.Linear(8, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1))
    of_maker = torch.optim.Adam(maker.parameters(), lr=2e-3, betas=(0.5, 0.999))
    of_judge = torch.optim.Adam(judge.parameters(), lr=2e-3, betas=(0.5, 0.999))

    def step(batch):
        real = batch[0]
        fake = maker(torch.randn(len(real), 4))
        of_judge.zero_grad()
        right, wrong = judge(real), judge(fake.detach())
        loss = F.binary_cross_entropy_with_logits(right, torch.ones_like(right))
        loss = loss + F.binary_cross_entropy_with_logits(wrong, torch.zeros_like(wrong))
        loss.backward()
        of_judge.step()
        of_maker.zero_grad()
        verdict = judge(fake)
        own = F.binary_cross_entropy_with_logits(verdict, torch.ones_like(verdict))
        own.backward()
        of_maker.step()
        return {"judge": loss.item(), "maker": own.item()}

    model = nn.ModuleDict({"maker": maker, "judge": judge})
    return {"model": model, "loader": loader(blobs()[0]), "optimizer": [of_maker, of_judge], "step": step}


@sound
def gradient_penalty():
    critic = nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 1))
    optimizer = adam(critic)

    def step(batch):
        real = batch[0]
        fake = torch.randn_like(real) * 0.5
        mixed = torch.lerp(fake, real, torch.rand(len(real), 1)).requires_grad_()
        (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        penalty = (slope.norm(dim=1) - 1).square().mean()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": critic, "loader": loader(blobs()[0]), "optimizer": optimizer, "step": step}


@sound
def contrastive_pairs():
    model = mlp(8, 16)
    optimizer = adam(model)

    def step(batch):
        x = batch[0]
        views = [F.normalize(model(x + 0.1 * torch.randn_like(x)), dim=1) for _ in range(2)]
        similarity = views[0] @ views[1].T / 0.2
        which = torch.arange(len(x))
        loss = (F.cross_entropy(similarity, which) + F.cross_entropy(similarity.T, which)) / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(blobs()[0], drop_last=True), "optimizer": optimizer, "step": step}


@sound
def distillation():
    teacher, student = mlp(8, 4, 64).eval().requires_grad_(False), mlp(8, 4, 8)
    optimizer = adam(student, 1e-2)

    def step(batch):
        x, y = batch
        student.train()
        with torch.no_grad():
            wanted = (teacher(x) / 2).softmax(1)
        logits = student(x)
        soft = F.kl_div((logits / 2).log_softmax(1), wanted, reduction="batchmean") * 4
        loss = 0.5 * soft + 0.5 * F.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": student, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


@sound
def variational_autoencoder():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = mlp(36, 8), mlp(4, 36)

        def forward(self, x):
            mean, log_variance = self.encoder(x).chunk(2, 1)
            z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
            return self.decoder(z), mean, log_variance

    x, _ = images(size=6, channels=1)
    x = (x.flatten(1) > 0).float()
    model = Net()
    optimizer = adam(model)

    def step(batch):
        logits, mean, log_variance = model(batch[0])
        fit = F.binary_cross_entropy_with_logits(logits, batch[0], reduction="none").sum(1).mean()
        distance = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1).mean()
        loss = fit + 0.1 * distance
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(x), "optimizer": optimizer, "step": step}


def scheduled(make, per_batch: bool, lr: float = 1e-2, **loader_options) -> dict:
    """A classifier whose step also moves a schedule: each batch, or at the end of each epoch of four batches."""
    model = mlp(8, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    scheduler = make(optimizer)
    count = {"batches": 0}

    def step(batch):
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        count["batches"] += 1
        if per_batch or count["batches"] % 4 == 0:
            scheduler.step()
        return loss.item()

    data = loader(*blobs(), **loader_options)
    return {"model": model, "loader": data, "optimizer": optimizer, "scheduler": scheduler, "step": step}


@sound
def one_cycle_per_batch():
    return scheduled(lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 2e-2, total_steps=200), True)


@sound
def warmup_from_zero():
    return scheduled(lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda n: min(1.0, n / 20)), True)


@sound
def warmup_then_cosine():
    def make(o):
        parts = [
            torch.optim.lr_scheduler.LinearLR(o, 0.01, total_iters=10),
            torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=190),
        ]
        return torch.optim.lr_scheduler.SequentialLR(o, parts, milestones=[10])

    return scheduled(make, True)


@sound
def cosine_per_epoch():
    return scheduled(lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=20), False)


@sound
def inverse_decay_per_batch():
    return scheduled(lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.999), True)


@sound
def schedule_left_to_the_epoch_loop():
    # The step does not move the schedule: it is the epoch loop's job, which the doctor does not see.
    model = mlp(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    return {
        "model": model,
        "loader": loader(*blobs()),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "scheduler": scheduler,
    }


@sound
def plateau_watching_validation():
    model = mlp(4, 1)
    optimizer = adam(model)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=5)
    x, y = curve(96)
    val = loader(x[64:], y[64:], shuffle=False)

    def step(batch):
        model.train()
        optimizer.zero_grad()
        loss = F.mse_loss(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    @torch.no_grad()
    def evaluate():
        model.eval()
        total = sum(F.mse_loss(model(a), b, reduction="sum").item() for a, b in val)
        scheduler.step(total / 32)
        return total / 32

    return {
        "model": model,
        "loader": loader(x[:64], y[:64]),
        "optimizer": optimizer,
        "scheduler": scheduler,
        "step": step,
        "evaluate": evaluate,
        "val_loader": val,
    }


@sound
def quasi_newton_with_closure():
    model = mlp(4, 1, 8)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5, line_search_fn="strong_wolfe")

    def step(batch):
        def closure():
            optimizer.zero_grad()
            loss = F.mse_loss(model(batch[0]), batch[1])
            loss.backward()
            return loss

        return optimizer.step(closure).item()

    return {"model": model, "loader": loader(*curve(), batch_size=64), "optimizer": optimizer, "step": step}


@sound
def frozen_backbone_in_evaluation_mode():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten())
            self.head = nn.Linear(288, 4)
            self.backbone.requires_grad_(False)

        def train(self, mode=True):
            super().train(mode)
            self.backbone.eval()
            return self

        def forward(self, x):
            return self.head(self.backbone(x))

    model = Net()
    return {
        "model": model,
        "loader": loader(*images()),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": adam(model.head),
    }


@sound
def average_of_weights():
    model = mlp(8, 4)
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99))
    optimizer = adam(model)

    def step(batch):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        average.update_parameters(model)
        return loss.item()

    def evaluate():
        average.eval()
        with torch.inference_mode():
            return (average(blobs()[0]).argmax(1) == blobs()[1]).float().mean().item()

    return {
        "model": model,
        "loader": loader(*blobs()),
        "optimizer": optimizer,
        "step": step,
        "evaluate": evaluate,
    }


@sound
def teacher_that_follows():
    online, target = mlp(8, 8), mlp(8, 8)
    predictor = mlp(8, 8)
    target.load_state_dict(online.state_dict())
    target.requires_grad_(False)
    optimizer = torch.optim.Adam([*online.parameters(), *predictor.parameters()], lr=3e-3)

    def step(batch):
        x = batch[0]
        guess = F.normalize(predictor(online(x + 0.1 * torch.randn_like(x))), dim=1)
        wanted = F.normalize(target(x + 0.1 * torch.randn_like(x)), dim=1)
        loss = 2 - 2 * (guess * wanted).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
                slow.lerp_(fast, 0.01)
        return loss.item()

    model = nn.ModuleDict({"online": online, "target": target, "predictor": predictor})
    return {"model": model, "loader": loader(blobs()[0]), "optimizer": optimizer, "step": step}


@sound
def q_learning():
    network = mlp(8, 3)
    target = copy.deepcopy(network).requires_grad_(False)
    optimizer = adam(network)
    x, y = blobs()
    count = {"steps": 0}

    def step(batch):
        state, action, reward, after = batch
        value = network(state).gather(1, action[:, None]).squeeze(1)
        with torch.no_grad():
            wanted = reward + 0.9 * target(after).max(1).values
        loss = F.smooth_l1_loss(value, wanted)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(network.parameters(), 1.0)
        optimizer.step()
        count["steps"] += 1
        if count["steps"] % 10 == 0:
            target.load_state_dict(network.state_dict())
        return loss.item()

    data = loader(x, y % 3, x[:, 0], x.roll(1, 0))
    return {"model": network, "loader": data, "optimizer": optimizer, "step": step}


@sound
def accumulation_scaled():
    model = mlp(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    count = {"micro": 0}

    def step(batch):
        loss = F.cross_entropy(model(batch[0]), batch[1]) / 4
        loss.backward()
        count["micro"] += 1
        if count["micro"] % 4 == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        return 4 * loss.item()

    return {"model": model, "loader": loader(*blobs(), batch_size=8), "optimizer": optimizer, "step": step}


@sound
def accumulation_within_a_step():
    model = mlp(8, 4)
    optimizer = adam(model)

    def step(batch):
        optimizer.zero_grad()
        total = 0.0
        for x, y in zip(batch[0].chunk(4), batch[1].chunk(4), strict=True):
            loss = F.cross_entropy(model(x), y, reduction="sum") / len(batch[1])
            loss.backward()
            total += loss.item()
        optimizer.step()
        return total

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


@sound
def bfloat16_autocast():
    model = nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def step(batch):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


def scaled(enabled: bool, dtype: torch.dtype) -> dict:
    model = mlp(8, 4)
    optimizer = adam(model)
    scaler = torch.amp.GradScaler("cpu", enabled=enabled, init_scale=1024.0)

    def step(batch):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype):
            logits = model(batch[0])
            loss = F.cross_entropy(logits.float(), batch[1])
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "scaler": scaler, "step": step}


@sound
def scaler_enabled():
    return scaled(True, torch.float16)


@sound
def scaler_disabled():
    return scaled(False, torch.bfloat16)


@sound
def stream_of_samples():
    class Stream(IterableDataset):
        def __iter__(self):
            g = generator(11)
            for _ in range(64):
                x = torch.randn(6, generator=g)
                yield x, (x[:1] * 0.8 - x[1:2] * 0.3)

    return {
        "model": (model := mlp(6, 1)),
        "loader": DataLoader(Stream(), batch_size=16),
        "loss_fn": nn.MSELoss(),
        "optimizer": adam(model),
    }


@sound
def torchvision_model_with_transforms():
    x, y = images(24, size=32)
    raw = (x * 40 + 128).clamp(0, 255).byte()
    pipeline = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean=[0.5] * 3, std=[0.16] * 3)]

    class Photos(torch.utils.data.Dataset):
        def __init__(self, part, *augmentation):
            self.part, self.transform = part, v2.Compose([*augmentation, *pipeline])

        def __len__(self):
            return len(self.part)

        def __getitem__(self, i):
            return self.transform(raw[self.part[i]]), int(y[self.part[i]])

    model = resnet18(num_classes=4)
    return {
        "model": model,
        "loader": DataLoader(Photos(range(16), v2.RandomHorizontalFlip()), 8, shuffle=True, drop_last=True),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9),
        "val_loader": DataLoader(Photos(range(16, 24)), 8),
    }


@sound
def groups_for_body_and_head():
    model = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 4))
    groups = [{"params": model[0].parameters(), "lr": 3e-4}, {"params": model[2].parameters()}]
    return {
        "model": model,
        "loader": loader(*blobs()),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.AdamW(groups, lr=1e-2),
    }


@sound
def groups_for_weight_decay():
    model = nn.Sequential(nn.Linear(8, 24), nn.LayerNorm(24), nn.ReLU(), nn.Linear(24, 4))
    parts = {True: [], False: []}
    for parameter in model.parameters():
        parts[parameter.ndim > 1].append(parameter)
    groups = [{"params": parts[True], "weight_decay": 0.1}, {"params": parts[False], "weight_decay": 0.0}]
    return {
        "model": model,
        "loader": loader(*blobs()),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.AdamW(groups, lr=3e-3),
    }


@sound
def sparse_embedding():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.head = nn.EmbeddingBag(40, 8, mode="mean", sparse=True), nn.Linear(8, 12)

        def forward(self, ids):
            return self.head(self.table(ids))

    model = Net()
    optimizers = [torch.optim.SparseAdam(model.table.parameters(), lr=1e-2), adam(model.head, 1e-2)]
    ids = tokens()

    def step(batch):
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(ids[:, :-1], ids[:, -1]), "optimizer": optimizers, "step": step}


@sound
def tasks_in_turn():
    # Each batch belongs to one task, so one of the heads has no gradient in any one step.
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(8, 24), nn.ReLU())
            self.heads = nn.ModuleList([nn.Linear(24, 4), nn.Linear(24, 1)])

        def forward(self, x, task):
            return self.heads[task](self.body(x))

    model = Net()
    optimizer = adam(model)
    count = {"steps": 0}

    def step(batch):
        x, y = batch
        task = count["steps"] % 2
        count["steps"] += 1
        out = model(x, task)
        loss = F.mse_loss(out, x[:, :1]) if task else F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


@sound
def several_tasks_weighted():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.kind, self.size = nn.Linear(8, 24), nn.Linear(24, 4), nn.Linear(24, 1)
            self.log_scale = nn.Parameter(torch.zeros(2))

        def forward(self, x):
            h = F.relu(self.body(x))
            return self.kind(h), self.size(h).squeeze(1)

    model = Net()
    optimizer = adam(model)

    def step(batch):
        x, y = batch
        kind, size = model(x)
        losses = torch.stack([F.cross_entropy(kind, y), F.mse_loss(size, x[:, 0])])
        loss = (losses * (-model.log_scale).exp() + model.log_scale).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": model, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


@sound
def activations_computed_again():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.middle, self.last = nn.Linear(8, 24), mlp(24, 24), nn.Linear(24, 4)

        def forward(self, x):
            return self.last(F.relu(checkpoint(self.middle, self.first(x), use_reentrant=False)))

    model = Net()
    return {"model": model, "loader": loader(*blobs()), "loss_fn": nn.CrossEntropyLoss(), "optimizer": adam(model)}


@sound
def compiled_model():
    model = torch.compile(mlp(8, 4), backend="eager")
    data = loader(*blobs())
    return {"model": model, "loader": data, "loss_fn": nn.CrossEntropyLoss(), "optimizer": adam(model)}


@sound
def policy_gradient():
    policy = mlp(8, 4)
    optimizer = adam(policy, 1e-2)

    def step(batch):
        x, y = batch
        chosen = torch.distributions.Categorical(logits=policy(x))
        action = chosen.sample()
        reward = (action == y).float()
        loss = -(chosen.log_prob(action) * (reward - reward.mean())).mean() - 0.01 * chosen.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return {"model": policy, "loader": loader(*blobs()), "optimizer": optimizer, "step": step}


@sound
def step_by_hand():
    model = nn.Linear(4, 1)

    def step(batch):
        loss = F.mse_loss(model(batch[0]), batch[1])
        slopes = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for parameter, slope in zip(model.parameters(), slopes, strict=True):
                parameter -= 0.1 * slope
        return loss.item()

    return {"model": model, "loader": loader(*curve()), "step": step}


@sound
def experts_chosen_hard():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(8, 6)
            self.experts = nn.ModuleList(nn.Linear(8, 4) for _ in range(6))

        def forward(self, x):
            weight, chosen = self.gate(x).softmax(1).max(1)
            out = x.new_zeros(len(x), 4)
            for number, expert in enumerate(self.experts):
                rows = chosen == number
                if rows.any():
                    out[rows] = expert(x[rows]) * weight[rows, None]
            return out

    model = Net()
    data = loader(*blobs(), batch_size=4)
    return {"model": model, "loader": data, "loss_fn": nn.CrossEntropyLoss(), "optimizer": adam(model, 1e-2)}


@sound
def evaluation_that_restores_the_mode():
    model = nn.Sequential(nn.Linear(8, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 4))
    optimizer = adam(model)
    x, y = blobs(96)
    val = loader(x[64:], y[64:], shuffle=False)
    best = {"accuracy": 0.0, "weights": None}

    def step(batch):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    def evaluate():
        was_training = model.training
        model.eval()
        right = 0
        with torch.no_grad():
            for a, b in val:
                right += (model(a).argmax(1) == b).sum().item()
        model.train(was_training)
        if right / 32 > best["accuracy"]:
            best.update(accuracy=right / 32, weights=copy.deepcopy(model.state_dict()))
        return right / 32

    return {
        "model": model,
        "loader": loader(x[:64], y[:64]),
        "optimizer": optimizer,
        "step": step,
        "evaluate": evaluate,
        "val_loader": val,
    }
