"""Lesson 10: the same epoch, without waiting, without a loop over images, and without a copy of the data."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course.checking import Exercise
from course.exercises.throughput._loop import observed

exercise = Exercise(
    "throughput.fastest_loop",
    title="The fastest loop that still passes",
    task="""
        This epoch is right and slow. All tensors are on one device, which may be an accelerator.

        ```python
        def train_epoch(model, optimizer, images, targets, order, mirrored, batch_size):
            total = 0.0
            for start in range(0, len(order), batch_size):
                batch, labels = [], []
                for i in order[start : start + batch_size].tolist():
                    image = images[i].flip(2) if mirrored[i] else images[i]
                    batch.append((image / 255 - 0.5) / 0.25)
                    labels.append(targets[i].item())
                labels = torch.tensor(labels, device=images.device)
                loss = F.cross_entropy(model(torch.stack(batch)), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item() * len(batch)
            return total / len(order)
        ```

        `images`: uint8 `(N, C, H, W)`. `targets`: int64 `(N,)`. `order`: the numbers of the images to train on, int64,
        at least one. `mirrored`: bool `(N,)`, one flag for each image. Write `train_epoch` anew, with the same weights
        and the same returned float. What counts is not time but what can be counted:

        - **No work for single images.** The number of operations of a step does not grow with `batch_size`.
        - **No waiting.** Before the last step is done, the host reads no value of a tensor. An index that is a mask
          is such a reading: the host has to learn how many elements it selects. So is a list that is sent to the
          device in each step.
        - **No copy of the data set**, in no dtype, neither at once nor batch after batch ahead of time.
        - **Bytes as long as possible.** Images are chosen and mirrored as uint8. Preparing a batch makes two floating
          point tensors of its size at most.
        - **No graph of an earlier step** is kept alive.
        """,
    hints=(
        "Which of the operations take a whole batch? images[chosen] takes an index tensor, flip takes all images, and "
        "torch.where chooses between two tensors with a mask that broadcasts over (B, C, H, W).",
        "order.split(batch_size) cuts without copying. The four operations of the normalisation are one subtraction "
        "and one division of a float tensor. Keep the sum of the losses as a tensor, detached, and make a float of it "
        "after the loop.",
    ),
    rtol=1e-4,
    atol=1e-6,
)


@exercise.stub
def train_epoch(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    images: Tensor,
    targets: Tensor,
    order: Tensor,
    mirrored: Tensor,
    batch_size: int,
) -> float:
    """Train on the images named by order, one step a batch; return the mean loss over all of these images."""
    raise NotImplementedError


@exercise.reference
def whole_batches(model, optimizer, images, targets, order, mirrored, batch_size):
    total = 0.0
    for chosen in order.split(batch_size):
        batch = images[chosen]
        batch = torch.where(mirrored[chosen][:, None, None, None], batch.flip(3), batch)
        loss = F.cross_entropy(model(batch.float().sub_(127.5).div_(63.75)), targets[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(chosen)
    return float(total / len(order))


@exercise.alternative
def mirrored_by_index(model, optimizer, images, targets, order, mirrored, batch_size):
    width = images.shape[3]
    columns = torch.arange(width, device=images.device)
    losses, counts = [], []
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        source = torch.where(mirrored[chosen][:, None], width - 1 - columns, columns)
        source = source[:, None, None, :].expand(-1, *images.shape[1:])
        batch = images.index_select(0, chosen).gather(3, source)
        loss = F.cross_entropy(model(batch * (1 / 63.75) - 2), targets.index_select(0, chosen))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        counts.append(len(chosen))
    return sum(loss * count for loss, count in zip(torch.stack(losses).tolist(), counts)) / sum(counts)


@exercise.alternative
def summed_on_the_device(model, optimizer, images, targets, order, mirrored, batch_size):
    total = torch.zeros((), device=images.device)
    for chosen in torch.split(order, batch_size):
        batch, flags = images[chosen], mirrored[chosen].view(-1, 1, 1, 1)
        batch = batch.flip(-1).mul_(flags).add_(batch.mul_(~flags))
        logits = model(batch.div(63.75).sub_(2))
        loss = F.cross_entropy(logits, targets[chosen], reduction="sum")
        model.zero_grad()
        (loss / len(chosen)).backward()
        optimizer.step()
        with torch.no_grad():
            total += loss
    return total.item() / len(order)


@exercise.wrong(
    "Every image is prepared by itself, in a Python loop: several operations for each, and a reading of its number and "
    "its flag. A whole batch takes as many operations as one image.",
    fault="python-loop-over-images",
)
def an_image_at_a_time(model, optimizer, images, targets, order, mirrored, batch_size):
    total = 0.0
    for start in range(0, len(order), batch_size):
        batch, labels = [], []
        for i in order[start : start + batch_size].tolist():
            image = images[i].flip(2) if mirrored[i] else images[i]
            batch.append((image / 255 - 0.5) / 0.25)
            labels.append(targets[i].item())
        labels = torch.tensor(labels, device=images.device)
        loss = F.cross_entropy(model(torch.stack(batch)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(batch)
    return total / len(order)


@exercise.wrong(
    "The images of a batch are mirrored one by one. The loop reads nothing, but it queues several operations for each "
    "image, where three take the whole batch: flip, a mask that broadcasts, and torch.where.",
    fault="python-loop-over-images",
)
def mirrored_one_by_one(model, optimizer, images, targets, order, mirrored, batch_size):
    total = 0.0
    for chosen in order.split(batch_size):
        pairs = zip(images[chosen].unbind(), mirrored[chosen].unbind())
        batch = torch.stack([torch.where(flag, image.flip(2), image) for image, flag in pairs])
        loss = F.cross_entropy(model(batch.float().sub_(127.5).div_(63.75)), targets[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(chosen)
    return float(total / len(order))


@exercise.wrong(
    "The images are turned upside down. Axis 2 is the width of one image (C, H, W), and the height of a batch "
    "(B, C, H, W)."
)
def upside_down(model, optimizer, images, targets, order, mirrored, batch_size):
    total = 0.0
    for chosen in order.split(batch_size):
        batch = images[chosen]
        batch = torch.where(mirrored[chosen][:, None, None, None], batch.flip(2), batch)
        loss = F.cross_entropy(model(batch.float().sub_(127.5).div_(63.75)), targets[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(chosen)
    return float(total / len(order))


@exercise.wrong(
    "The loss is read in each step. The host waits until the device has done the step, and only then queues the next "
    "one. Add the losses up on the device, and read the sum at the end.",
    fault="item-in-the-loop",
)
def read_in_each_step(model, optimizer, images, targets, order, mirrored, batch_size):
    total = 0.0
    for chosen in order.split(batch_size):
        batch = images[chosen]
        batch = torch.where(mirrored[chosen][:, None, None, None], batch.flip(3), batch)
        loss = F.cross_entropy(model(batch.float().sub_(127.5).div_(63.75)), targets[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(chosen)
    return total / len(order)


@exercise.wrong(
    "One flag decides for the whole batch. Each image has its own: a mask of shape (B, 1, 1, 1) broadcasts over its "
    "pixels.",
    fault="one-draw-for-the-batch",
)
def one_flag_for_the_batch(model, optimizer, images, targets, order, mirrored, batch_size):
    total = 0.0
    for chosen in order.split(batch_size):
        batch = images[chosen]
        batch = torch.where(mirrored[chosen[0]], batch.flip(3), batch)
        loss = F.cross_entropy(model(batch.float().sub_(127.5).div_(63.75)), targets[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(chosen)
    return float(total / len(order))


@exercise.wrong(
    "A mask is used as an index. How many images it selects is known only when it has been computed, so the host waits "
    "in each step. torch.where needs no number: it computes both and chooses."
)
def mask_as_index(model, optimizer, images, targets, order, mirrored, batch_size):
    total = 0.0
    for chosen in order.split(batch_size):
        batch, flags = images[chosen], mirrored[chosen]
        batch[flags] = batch[flags].flip(3)
        loss = F.cross_entropy(model(batch.float().sub_(127.5).div_(63.75)), targets[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(chosen)
    return float(total / len(order))


@exercise.wrong(
    "The whole data set is converted before the loop. That saves a conversion in each step, and takes four times the "
    "memory of the bytes, beside them."
)
def converted_at_once(model, optimizer, images, targets, order, mirrored, batch_size):
    total, floats = 0.0, images.float().sub_(127.5).div_(63.75)
    for chosen in order.split(batch_size):
        batch = floats[chosen]
        batch = torch.where(mirrored[chosen][:, None, None, None], batch.flip(3), batch)
        loss = F.cross_entropy(model(batch), targets[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(chosen)
    return float(total / len(order))


@exercise.wrong(
    "The whole data set is mirrored, or put into the order of the epoch, before the loop. It is in memory twice then. "
    "An index tensor takes a batch out of it where it lies."
)
def ordered_at_once(model, optimizer, images, targets, order, mirrored, batch_size):
    total = 0.0
    for batch, labels, flags in zip(
        images[order].split(batch_size), targets[order].split(batch_size), mirrored[order].split(batch_size)
    ):
        batch = torch.where(flags[:, None, None, None], batch.flip(3), batch)
        loss = F.cross_entropy(model(batch.float().sub_(127.5).div_(63.75)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(batch)
    return float(total / len(order))


@exercise.wrong(
    "All batches are prepared before the first step. Together they are a copy of the data set. Prepare each when its "
    "step comes."
)
def prepared_ahead(model, optimizer, images, targets, order, mirrored, batch_size):
    total, batches = 0.0, []
    for chosen in order.split(batch_size):
        batch = images[chosen]
        batches.append((torch.where(mirrored[chosen][:, None, None, None], batch.flip(3), batch), targets[chosen]))
    for batch, labels in batches:
        loss = F.cross_entropy(model(batch.float().sub_(127.5).div_(63.75)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(batch)
    return float(total / len(order))


@exercise.wrong(
    "The losses are added up with their graphs: the sum keeps a node of each step alive until the end of the epoch. "
    "Detach a loss before you add it.",
    fault="graph-retained-in-log",
)
def graphs_added_up(model, optimizer, images, targets, order, mirrored, batch_size):
    total = 0.0
    for chosen in order.split(batch_size):
        batch = images[chosen]
        batch = torch.where(mirrored[chosen][:, None, None, None], batch.flip(3), batch)
        loss = F.cross_entropy(model(batch.float().sub_(127.5).div_(63.75)), targets[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss * len(chosen)
    return float(total / len(order))


@exercise.wrong(
    "The batch becomes float first, and each operation after that makes another float tensor of its size. Choose and "
    "mirror bytes, a quarter of the traffic; then two operations are enough."
)
def floats_from_the_start(model, optimizer, images, targets, order, mirrored, batch_size):
    total = 0.0
    for chosen in order.split(batch_size):
        batch = (images[chosen] / 255 - 0.5) / 0.25
        batch = torch.where(mirrored[chosen][:, None, None, None], batch.flip(3), batch)
        loss = F.cross_entropy(model(batch), targets[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(chosen)
    return float(total / len(order))


@exercise.wrong(
    "The batch becomes float before it is mirrored. Two floating point tensors are enough for that, but the mirroring "
    "moves four times the bytes: mirror the uint8 images, and convert last."
)
def mirrored_as_floats(model, optimizer, images, targets, order, mirrored, batch_size):
    total, columns = 0.0, torch.arange(images.shape[3], device=images.device)
    for chosen in order.split(batch_size):
        batch = images[chosen].float().sub_(127.5).div_(63.75)
        source = torch.where(mirrored[chosen][:, None], len(columns) - 1 - columns, columns)
        batch = batch.gather(3, source[:, None, None, :].expand_as(batch))
        loss = F.cross_entropy(model(batch), targets[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(chosen)
    return float(total / len(order))


@exercise.wrong(
    "Each step of the normalisation makes a floating point tensor of its own, three in all. Work in place on the first "
    "of them, or let one subtraction and one division do it."
)
def three_float_tensors(model, optimizer, images, targets, order, mirrored, batch_size):
    total = 0.0
    for chosen in order.split(batch_size):
        batch = images[chosen]
        batch = torch.where(mirrored[chosen][:, None, None, None], batch.flip(3), batch)
        loss = F.cross_entropy(model((batch / 255 - 0.5) / 0.25), targets[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(chosen)
    return float(total / len(order))


@exercise.wrong(
    "`if` asks in each step whether any image is to be mirrored, and the host waits for the answer. Mirroring a batch "
    "with no such image costs less than that."
)
def asks_before_mirroring(model, optimizer, images, targets, order, mirrored, batch_size):
    total = 0.0
    for chosen in order.split(batch_size):
        batch = images[chosen]
        if mirrored[chosen].any():
            batch = torch.where(mirrored[chosen][:, None, None, None], batch.flip(3), batch)
        loss = F.cross_entropy(model(batch.float().sub_(127.5).div_(63.75)), targets[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(chosen)
    return float(total / len(order))


@exercise.wrong(
    "A tensor is made without `device=`, and meets those of the images. It lies in the memory of the host: on an "
    "accelerator that is an error, or one more transfer. Make it on the device of the images."
)
def made_on_the_host(model, optimizer, images, targets, order, mirrored, batch_size):
    total, columns = 0.0, torch.arange(images.shape[3])
    for chosen in order.split(batch_size):
        batch = images[chosen]
        source = torch.where(mirrored[chosen][:, None], len(columns) - 1 - columns, columns)
        batch = batch.gather(3, source[:, None, None, :].expand_as(batch))
        loss = F.cross_entropy(model(batch.float().sub_(127.5).div_(63.75)), targets[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(chosen)
    return float(total / len(order))


@exercise.wrong(
    "The numbers of the images are read into a Python list, and each step sends a part of it back to the device. They "
    "are there already: index with the tensor."
)
def numbers_as_lists(model, optimizer, images, targets, order, mirrored, batch_size):
    total, numbers = 0.0, order.tolist()
    for start in range(0, len(numbers), batch_size):
        chosen = numbers[start : start + batch_size]
        batch = images[chosen]
        batch = torch.where(mirrored[chosen][:, None, None, None], batch.flip(3), batch)
        loss = F.cross_entropy(model(batch.float().sub_(127.5).div_(63.75)), targets[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(chosen)
    return float(total / len(order))


@exercise.wrong(
    "This is the mean of the batches' means. A smaller last batch counts as much as a full one. Weigh each loss with "
    "the number of its images."
)
def mean_of_means(model, optimizer, images, targets, order, mirrored, batch_size):
    losses = []
    for chosen in order.split(batch_size):
        batch = images[chosen]
        batch = torch.where(mirrored[chosen][:, None, None, None], batch.flip(3), batch)
        loss = F.cross_entropy(model(batch.float().sub_(127.5).div_(63.75)), targets[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return float(torch.stack(losses).mean())


@exercise.wrong(
    "Gradients are not cleared. backward() adds to them, and each step follows the sum of all batches so far.",
    fault="missing-zero-grad",
)
def never_cleared(model, optimizer, images, targets, order, mirrored, batch_size):
    total = 0.0
    for chosen in order.split(batch_size):
        batch = images[chosen]
        batch = torch.where(mirrored[chosen][:, None, None, None], batch.flip(3), batch)
        loss = F.cross_entropy(model(batch.float().sub_(127.5).div_(63.75)), targets[chosen])
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(chosen)
    return float(total / len(order))


@exercise.wrong(
    "The last batch is left out when it is smaller. It costs no operations to speak of, and the task wants the same "
    "weights as the slow loop."
)
def full_batches_alone(model, optimizer, images, targets, order, mirrored, batch_size):
    total, full = 0.0, len(order) // batch_size * batch_size
    for chosen in order[:full].split(batch_size):
        batch = images[chosen]
        batch = torch.where(mirrored[chosen][:, None, None, None], batch.flip(3), batch)
        loss = F.cross_entropy(model(batch.float().sub_(127.5).div_(63.75)), targets[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(chosen)
    return float(total / max(full, 1))


@exercise.wrong(
    "The flags are taken by place in the epoch. `mirrored` has one for each image: index it as you index the images."
)
def flags_by_place(model, optimizer, images, targets, order, mirrored, batch_size):
    total = 0.0
    for chosen, flags in zip(order.split(batch_size), mirrored.split(batch_size)):
        batch = images[chosen]
        batch = torch.where(flags[: len(chosen), None, None, None], batch.flip(3), batch)
        loss = F.cross_entropy(model(batch.float().sub_(127.5).div_(63.75)), targets[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(chosen)
    return float(total / len(order))


@exercise.wrong(
    "What is returned is a tensor. The task asks for a float: one reading, after the last step, is what the epoch may "
    "cost."
)
def a_tensor_returned(model, optimizer, images, targets, order, mirrored, batch_size):
    total = 0.0
    for chosen in order.split(batch_size):
        batch = images[chosen]
        batch = torch.where(mirrored[chosen][:, None, None, None], batch.flip(3), batch)
        loss = F.cross_entropy(model(batch.float().sub_(127.5).div_(63.75)), targets[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(chosen)
    return total / len(order)


@exercise.probe
def batches_of_different_sizes(answer):
    return observed(answer, 13, 5)


@exercise.probe
def many_small_batches(answer):
    return observed(answer, 24, 2)


@exercise.probe
def large_batches_and_a_small_one(answer):
    return observed(answer, 29, 9)


@exercise.probe
def two_epochs(answer):
    return observed(answer, 12, 4, epochs=2)


@exercise.probe
def a_model_in_evaluation_mode(answer):
    return observed(answer, 9, 4, training=False)


@exercise.probe
def a_part_of_the_images(answer):
    return observed(answer, 14, 3, trained=7)


@exercise.probe
def one_batch(answer):
    return observed(answer, 6, 8)
