"""Mutants that do what the reference does: exercise -> {(operator, before, after): why nobody could tell}."""

from __future__ import annotations

EQUIVALENTS: dict[str, dict[tuple[str, str, str], str]] = {
    "data.channel_statistics": {
        (
            "smaller_number",
            "count += pixels[:, 0].numel()",
            "count += pixels[:, (-1)].numel()",
        ): "every channel of an image has as many pixels as every other",
    },
    "data.collate_sequences": {
        (
            "lookalike",
            "lengths = torch.tensor([len(sequence) for sequence in sequences])",
            "lengths = torch.as_tensor([len(sequence) for sequence in sequences])",
        ): "of a list of integers both make a new int64 tensor",
        (
            "lookalike",
            "return padded, mask, lengths, torch.tensor(labels)",
            "return padded, mask, lengths, torch.as_tensor(labels)",
        ): "of a tuple of integers both make a new int64 tensor",
    },
    "data.mini_loader": {
        (
            "smaller_number",
            "first = samples[0]",
            "first = samples[(-1)]",
        ): "the samples of a dataset are of one type, so any of them tells it",
        (
            "lookalike",
            "return torch.tensor(samples, dtype=torch.float64)",
            "return torch.as_tensor(samples, dtype=torch.float64)",
        ): "of a list of numbers both make a new tensor",
        (
            "lookalike",
            "return torch.tensor(samples)",
            "return torch.as_tensor(samples)",
        ): "of a list of numbers both make a new tensor",
    },
    "data.randomly_flipped": {
        (
            "lookalike",
            "flip = torch.bernoulli(torch.tensor(self.p))",
            "flip = torch.bernoulli(torch.as_tensor(self.p))",
        ): "of a number both make a new tensor",
    },
    "data.split_with_transforms": {
        (
            "drop_call",
            "order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(seed)).tolist()",
            "order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(seed))",
        ): "Subset takes a tensor of indices as well as a list; the task leaves open which",
    },
    "modules.flattened_size": {
        (
            "lookalike",
            "return trial(torch.zeros(1, *shape)).numel()",
            f"return trial(torch.{name}(1, *shape)).numel()",
        ): "only the shape of the output is used, and that does not depend on the numbers in the image"
        for name in ("empty", "ones")
    },
    "modules.initialise": {
        (
            "arg_removal",
            'nn.init.kaiming_normal_(module.weight, nonlinearity="relu")',
            "nn.init.kaiming_normal_(module.weight, )",
        ): "the default is leaky_relu with slope 0, which is ReLU: the same gain",
    },
    "modules.residual_block": {
        (
            "arg_removal",
            line,
            line.replace("bias=False", "bias=None"),
        ): "the layers test the truth of bias; None is false"
        for line in (
            "self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)",
            "self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)",
            "projection = nn.Conv2d(inputs, outputs, 1, stride, bias=False)",
        )
    },
    "modules.standardise": {
        (
            "lookalike",
            f'self.register_buffer("{name}", torch.tensor({name}, dtype=torch.float32))',
            f'self.register_buffer("{name}", torch.as_tensor({name}, dtype=torch.float32))',
        ): "a list has no memory that as_tensor could share, so it copies the numbers as torch.tensor does"
        for name in ("mean", "std")
    },
    "modules.tied_weights": {
        (
            "arg_removal",
            "self.output = nn.Linear(width, tokens, bias=False)",
            "self.output = nn.Linear(width, tokens, bias=None)",
        ): "the layer tests the truth of bias; None is false",
    },
    "tensors.accuracy": {
        (
            "lookalike",
            "return (logits.argmax(1) == targets.flatten()).float().mean().item()",
            "return (logits.argmax(1) == targets.flatten()).double().mean().item()",
        ): "the result is a Python float either way; double only has more digits than the comparison asks for",
    },
    "tensors.brighten": {
        (
            "lookalike",
            "return (image.to(torch.int16) + amount).clamp(0, 255).to(torch.uint8)",
            "return (image.to(torch.int16) + amount).clamp_(0, 255).to(torch.uint8)",
        ): "the sum is a new tensor that nobody else holds, so clamping it in place shows nowhere",
    },
    "tensors.independent_tensor": {
        (
            "lookalike",
            "return torch.from_numpy(np.array(array, dtype=np.float32))",
            f"return torch.{name}(np.array(array, dtype=np.float32))",
        ): reason
        for name, reason in {
            "as_tensor": "np.array has made the copy already; as_tensor wraps it just as from_numpy does",
            "tensor": "np.array has made the copy already; torch.tensor copies once more, which nobody can see",
        }.items()
    },
    "tensors.masked_mean": {
        (
            "lookalike",
            "return x.where(mask, 0).sum(1) / mask.sum(1).clamp(min=1)",
            "return x.where(mask, 0).sum(1) / mask.sum(1).clamp_(min=1)",
        ): "the count is a new tensor that nobody else holds, so clamping it in place shows nowhere",
    },
    "training.confusion_matrix": {
        (
            "smaller_number",
            "return pairs.bincount(minlength=classes * classes).unflatten(0, (classes, classes))",
            "return pairs.bincount(minlength=classes * classes).unflatten((-1), (classes, classes))",
        ): "the counts have one axis, which 0 and -1 both name",
    },
}
