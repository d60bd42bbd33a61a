"""Mutants that do what the reference does: exercise -> {(operator, before, after): why nobody could tell}."""

from __future__ import annotations

EQUIVALENTS: dict[str, dict[tuple[str, str, str], str]] = {
    "checkpoints.atomic_save": {
        (
            "drop_statement",
            "file.flush()",
            "pass",
        ): "torch.save flushes the file that it was given; its documentation does not promise it",
        (
            "drop_call",
            "file.flush()",
            "file",
        ): "torch.save flushes the file that it was given; its documentation does not promise it",
        (
            "drop_call",
            "os.fsync(file.fileno())",
            "os.fsync(file)",
        ): "os.fsync takes an object that has a fileno as well",
    },
    "checkpoints.cross_device": {
        (
            "arg_removal",
            "return torch.load(path, map_location=device, weights_only=True)",
            f"return torch.load(path, map_location=device, {argument})",
        ): "True is the default since torch 2.6, and what None stands for"
        for argument in ("weights_only=None", "")
    },
    "checkpoints.load_report": {
        (
            "arg_removal",
            "result = model.load_state_dict(state, strict=False)",
            "result = model.load_state_dict(state, strict=None)",
        ): "None is not strict either",
    },
    "checkpoints.manager": {
        (
            "arg_removal",
            "found[path] = torch.load(path, weights_only=True)",
            "found[path] = torch.load(path, weights_only=None)",
        ): "None stands for True since torch 2.6",
        (
            "arg_removal",
            "found[path] = torch.load(path, weights_only=True)",
            "found[path] = torch.load(path, )",
        ): "True is the default since torch 2.6",
        ("drop_statement", "continue", "pass"): "nothing follows in the loop",
        (
            "string",
            'temporary = path.with_suffix(".part")',
            'temporary = path.with_suffix(".PART")',
        ): "the name of the temporary file is free",
    },
    "checkpoints.ordered_batches": {
        (
            "drop_call",
            "order = np.random.default_rng((seed, epoch)).permutation(size).tolist()",
            "order = np.random.default_rng((seed, epoch)).permutation(size)",
        ): "parts of an array of integers hold the same indices as lists of them",
    },
    "checkpoints.partial_load": {
        (
            "arg_removal",
            "return sorted(model.load_state_dict(fitting, strict=False).missing_keys)",
            "return sorted(model.load_state_dict(fitting, strict=None).missing_keys)",
        ): "None is not strict either",
    },
    "clinic.dead_gauge": {
        (
            "lookalike",
            "readings = (readings - readings.mean(0)) / readings.std(0).clamp(min=1e-6)",
            "readings = (readings - readings.mean(0)) / readings.std(0).clamp_(min=1e-6)",
        ): "the deviations are used nowhere else",
    },
    "clinic.deep_sigmoid": {
        (
            "arg_removal",
            "model = network(2, *[24] * 9, 2, activation=nn.ReLU)",
            "model = network(2, *[24] * 9, 2, )",
        ): "ReLU is what network() takes by default",
        **{
            (
                operator,
                "nn.init.kaiming_normal_(layer.weight)",
                after,
            ): "ReLU trains from torch's own initialisation too"
            for operator, after in (("drop_statement", "pass"), ("drop_call", "nn.init"))
        },
    },
    "clinic.equal_weights": {
        (operator, "nn.init.normal_(parameter, std=0.5)", after): "torch's own initialisation is random as well"
        for operator, after in (("drop_statement", "pass"), ("drop_call", "nn.init"))
    },
    "clinic.labels_apart": {
        (
            "drop_statement",
            "points, groups = points[order], groups[order]",
            "pass",
        ): "the loader shuffles again; what counts is that points and labels stay together",
    },
    "clinic.new_head": {
        **{
            (operator, "model = network(4, 32, 5)", f"model = network(4, 32, {width})"): "this head is replaced"
            for operator, width in (("number", 6), ("smaller_number", 4))
        },
        (
            "drop_subscript",
            "model[0].requires_grad_(False)",
            "model.requires_grad_(False)",
        ): "the only other layer is replaced by a new one",
    },
    "clinic.one_row": {
        **{
            (
                "lookalike",
                "row, rows = torch.empty(4), []",
                f"row, rows = torch.{name}(4), []",
            ): "the buffer is overwritten before it is read"
            for name in ("ones", "zeros")
        },
        ("drop_statement", "points = torch.stack(rows)", "pass"): "the rows are the points that were read",
    },
    "clinic.too_fast": {
        (
            "number",
            "optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)",
            "optimizer = torch.optim.SGD(model.parameters(), lr=1.05, momentum=0.9)",
        ): "the rate is free; this one is high, and the points are learnt all the same",
    },
    "compilation.branch": {
        (
            "lookalike",
            "negative = x.mean() < 0",
            "negative = x.sum() < 0",
        ): "a sum has the sign of the mean",
        **{
            (
                operator,
                "return torch.where(negative, torch.where(negative, x, 0.0).exp(), 1 + x)",
                f"return torch.where(negative, torch.where(negative, x, {number}).exp(), 1 + x)",
            ): "the untaken branch computes on any number whose exp is finite"
            for operator, number in (("number", "1.0"), ("smaller_number", "(-1.0)"))
        },
    },
    "compilation.remove_breaks": {
        (
            "number",
            "return x / torch.where(largest == 0, 1.0, largest), largest",
            "return x / torch.where(largest == 0, 2.0, largest), largest",
        ): "only zeros are divided by it",
    },
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
    "distributed.epoch_mean": {
        (
            "swap_arguments",
            "total = sum(loss * size for loss, size in zip(losses, sizes))",
            "total = sum(loss * size for loss, size in zip(sizes, losses))",
        ): "only the names of the two factors change places; their product is the same",
        (
            "lookalike",
            "both = torch.tensor([total, sum(sizes)], dtype=torch.float64)",
            "both = torch.as_tensor([total, sum(sizes)], dtype=torch.float64)",
        ): "of a list of numbers both make a new tensor",
        (
            "lookalike",
            "both = torch.tensor([total, sum(sizes)], dtype=torch.float64)",
            "both = torch.tensor([total, sum(sizes)], dtype=torch.float32)",
        ): "float64 only has more digits than the comparison asks for",
    },
    "distributed.seed_ranks": {
        (
            "swap_op",
            "torch.manual_seed(seed * ranks + rank)",
            "torch.manual_seed(seed * ranks - rank)",
        ): "counting the ranks downwards gives each pair of seed and rank a number of its own as well",
    },
    "inference.inspect_file": {
        (
            "string",
            'image = Image.open(io.BytesIO(data), formats=("PNG", "JPEG"))',
            f"image = Image.open(io.BytesIO(data), formats={formats})",
        ): "Pillow takes the names of formats in small letters as well"
        for formats in ('("png", "JPEG")', '("PNG", "jpeg")')
    },
    "inference.predict": {
        (
            "smaller_number",
            "return probabilities if images.ndim == 4 else probabilities[0]",
            "return probabilities if images.ndim == 4 else probabilities[(-1)]",
        ): "of one row the first is the last",
    },
    "export.control_flow": {
        (
            "lookalike",
            "peak = torch.where(x.sum() < 0, -peak, peak)",
            "peak = torch.where(x.mean() < 0, -peak, peak)",
        ): "a mean has the sign of the sum",
        (
            "number",
            "return x / torch.where(peak == 0, 1.0, peak)",
            "return x / torch.where(peak == 0, 2.0, peak)",
        ): "where the peak is 0 every number is, and 0 / 2 is 0 as well",
    },
    "export.dynamic_batch": {
        (
            "string",
            'return torch.export.export(model, (batch,), dynamic_shapes=({0: Dim("batch")},))',
            f'return torch.export.export(model, (batch,), dynamic_shapes=({{0: Dim("{name}")}},))',
        ): "the task leaves the name of the axis open"
        for name in ("XXbatchXX", "BATCH")
    },
    "export.normalise_inside": {
        (
            operator,
            "scaled = (images.float() / 255 - self.mean) / self.std",
            f"scaled = (images{call} / 255 - self.mean) / self.std",
        ): "dividing integers gives float32, the same numbers"
        for operator, call in (("drop_call", ""), ("lookalike", ".int()"))
    },
    "export.single_file": {
        **{
            (
                "string",
                'dynamic_shapes=({0: "batch"},),',
                f'dynamic_shapes=({{0: "{name}"}},),',
            ): "the task leaves the name of the axis open"
            for name in ("XXbatchXX", "BATCH")
        },
        ("arg_removal", "external_data=False,", "external_data=None,"): "None is as false as False",
        **dict.fromkeys(
            (
                ("arg_removal", "verbose=False,", "verbose=None,"),
                ("arg_removal", "verbose=False,; )", ")"),
                ("name", "verbose=False,", "verbose=True,"),
            ),
            "verbose decides what is printed, not what is written",
        ),
    },
    "export.two_axes": {
        (
            operator,
            'batch, steps = Dim("batch"), Dim("steps", max=1000)',
            f"batch, steps = {after}",
        ): reason
        for reason, mutants in (
            (
                "the task leaves the names of the axes open",
                (
                    ("string", 'Dim("XXbatchXX"), Dim("steps", max=1000)'),
                    ("string", 'Dim("BATCH"), Dim("steps", max=1000)'),
                    ("string", 'Dim("batch"), Dim("XXstepsXX", max=1000)'),
                    ("string", 'Dim("batch"), Dim("STEPS", max=1000)'),
                ),
            ),
            (
                "targets of 999 steps are the longest that the task asks for, and longer ones may be taken",
                (
                    ("arg_removal", 'Dim("batch"), Dim("steps", max=None)'),
                    ("arg_removal", 'Dim("batch"), Dim("steps", )'),
                    ("number", 'Dim("batch"), Dim("steps", max=1001)'),
                    ("smaller_number", 'Dim("batch"), Dim("steps", max=999)'),
                ),
            ),
        )
        for operator, after in mutants
    },
    "export.parity_report": {
        (
            "drop_call",
            "a, b = a.double(), b.double()",
            "a, b = a, b.double()",
        ): "one float64 side suffices: comparison and difference promote the other one",
        (
            "drop_call",
            "a, b = a.double(), b.double()",
            "a, b = a.double(), b",
        ): "one float64 side suffices: comparison and difference promote the other one",
    },
    "export.tiny_exporter": {
        (
            "drop_statement",
            'raise TypeError("a value is not known while the program is recorded")',
            "pass",
        ): "a __bool__ that returns None raises TypeError as well",
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
    "precision.amp_step": {
        (
            "swap_arguments",
            "loss = F.mse_loss(model(inputs), targets) / len(micro_batches)",
            "loss = F.mse_loss(targets, model(inputs)) / len(micro_batches)",
        ): "the squared error of a and b is that of b and a, and so is its gradient",
    },
    "precision.count_values": {
        (
            "lookalike",
            "first, last = torch.tensor([low, high], dtype=dtype).view(integer).tolist()",
            "first, last = torch.as_tensor([low, high], dtype=dtype).view(integer).tolist()",
        ): "of a list of numbers both make a new tensor",
    },
    "quantization.affine_parameters": {
        ("swap_arguments", before, after): "the smaller or larger of two numbers does not depend on their order"
        for before, after in (
            ("low, high = min(low, 0.0), max(high, 0.0)", "low, high = min(0.0, low), max(high, 0.0)"),
            ("low, high = min(low, 0.0), max(high, 0.0)", "low, high = min(low, 0.0), max(0.0, high)"),
            ("return max(-low, high) / 127, 0", "return max(high, -low) / 127, 0"),
        )
    },
    "quantization.class_report": {
        (
            "lookalike",
            "first, second = ((p[mask] == number).double().mean().item() for p in (before, after))",
            "first, second = ((p[mask] == number).float().mean().item() for p in (before, after))",
        ): "a share of a few images in float32 has seven digits, as many as the comparison looks at",
    },
    "quantization.clipped_range": {
        **{
            (
                "lookalike",
                "numbers = torch.cat([torch.zeros(0), *[batch.flatten() for batch in batches]]).sort().values",
                f"numbers = torch.cat([torch.{name}(0), *[batch.flatten() for batch in batches]]).sort().values",
            ): "a tensor without elements has no values to tell"
            for name in ("empty", "ones")
        },
        **{
            (
                "swap_arguments",
                "return min(numbers[cut].item(), 0.0), max(numbers[-1 - cut].item(), 0.0)",
                after,
            ): "the smaller or larger of two numbers does not depend on their order"
            for after in (
                "return min(0.0, numbers[cut].item()), max(numbers[-1 - cut].item(), 0.0)",
                "return min(numbers[cut].item(), 0.0), max(0.0, numbers[-1 - cut].item())",
            )
        },
    },
    "quantization.fake_quantize": {
        (
            "lookalike",
            "return (codes.clamp(low, high) - zero_point) * scale",
            "return (codes.clamp_(low, high) - zero_point) * scale",
        ): "the mask was made before, and nobody else holds the codes",
    },
    "quantization.fold_batch_norm": {
        (
            "lookalike",
            "folded.weight.mul_(factor.view(-1, 1, 1, 1))",
            "folded.weight.mul_(factor.reshape(-1, 1, 1, 1))",
        ): "the factor is contiguous: reshape gives the same view",
    },
    "quantization.per_channel": {
        (
            "lookalike",
            "return (weight / scales.view(shape)).round().to(torch.int8), scales",
            "return (weight / scales.reshape(shape)).round().to(torch.int8), scales",
        ): "the scales are contiguous: reshape gives the same view",
    },
    "quantization.quantize_dequantize": {
        (
            "lookalike",
            "codes = (torch.round(x / scale) + zero_point).clamp(0, 255).to(torch.uint8)",
            "codes = (torch.round(x / scale) + zero_point).clamp_(0, 255).to(torch.uint8)",
        ): "the sum is a new tensor that nobody else holds",
        (
            "lookalike",
            "return codes, (codes.float() - zero_point) * scale",
            "return codes, (codes.int() - zero_point) * scale",
        ): "int32 holds the differences of codes too, and times a Python float it becomes float32",
    },
    "quantization.static_linear": {
        **{
            (
                "swap_arguments",
                "self.range = min(low, x.min().item()), max(high, x.max().item())",
                after,
            ): "the smaller or larger of two numbers does not depend on their order"
            for after in (
                "self.range = min(x.min().item(), low), max(high, x.max().item())",
                "self.range = min(low, x.min().item()), max(x.max().item(), high)",
            )
        },
        (
            "drop_call",
            "weight = self.linear.weight.detach()",
            "weight = self.linear.weight",
        ): "the values are the same; only gradients would differ, and the task asks for none",
        (
            "drop_call",
            "self.bias = None if self.linear.bias is None else self.linear.bias.detach().clone()",
            "self.bias = None if self.linear.bias is None else self.linear.bias.clone()",
        ): "the values are the same; only gradients would differ, and the task asks for none",
        (
            "lookalike",
            "codes = (torch.round(x / self.scale) + self.zero_point).clamp(0, 255)",
            "codes = (torch.round(x / self.scale) + self.zero_point).clamp_(0, 255)",
        ): "the sum is a new tensor that nobody else holds",
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
    "throughput.roofline": {
        (
            "swap_arguments",
            "return min(self.rate, intensity * self.bandwidth)",
            "return min(intensity * self.bandwidth, self.rate)",
        ): "the smaller of two numbers does not depend on their order",
        (
            "swap_arguments",
            "return sum(max(flops / self.rate, moved / self.bandwidth) for flops, moved in works)",
            "return sum(max(moved / self.bandwidth, flops / self.rate) for flops, moved in works)",
        ): "the larger of two numbers does not depend on their order",
    },
    "training.confusion_matrix": {
        (
            "smaller_number",
            "return pairs.bincount(minlength=classes * classes).unflatten(0, (classes, classes))",
            "return pairs.bincount(minlength=classes * classes).unflatten((-1), (classes, classes))",
        ): "the counts have one axis, which 0 and -1 both name",
    },
}
