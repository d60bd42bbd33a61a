"""Lesson 07: which states a small run needs to go on."""

from __future__ import annotations

from course.checking import ValueExercise

exercise = ValueExercise(
    "checkpoints.what_to_save",
    title="What does this run need?",
    name="needed",
    expects="a set of strings out of the list, no more and no fewer than the run needs",
    task="""
        This run is stopped between two epochs and goes on later, in a new process that executes the same program from
        the top, except that `start` is then known.

        ```python
        random.seed(0)
        torch.manual_seed(0)
        start = 0
        model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(start, 20):
            optimizer.param_groups[0]["lr"] = 0.1 * 0.9**epoch
            order = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch))
            for batch in order.split(16):
                with torch.autocast("cpu", torch.bfloat16):
                    loss = F.cross_entropy(model(x[batch]), y[batch])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        ```

        Which of these must be saved, so that the resumed run ends with the same weights, bit for bit? Save nothing that
        it can do without.

        ```text
        "model"             state_dict of the network
        "optimizer"         state_dict of the optimizer
        "scheduler"         state_dict of a learning-rate scheduler
        "scaler"            state_dict of a GradScaler
        "epoch"             number of epochs that are done
        "torch generator"   torch.get_rng_state()
        "python generator"  random.getstate()
        ```

        Set `needed` to a set of these strings, for example `{"scaler", "python generator"}`. Decide before you run
        anything: go through the lines of the loop and ask what each of them reads.
        """,
    hints=(
        "A state is needed if the next epoch reads it and cannot compute it again. What does plain SGD keep between "
        "two steps? Where does the rate come from, where the order, where the dropout mask?",
        "The weights, certainly, and the number that rate and order are computed from. One more thing is read in each "
        "forward pass and advances with it. The optimizer has neither momentum nor a rate of its own to remember.",
    ),
)


@exercise.reference
def weights_epoch_and_generator():
    return {"model", "epoch", "torch generator"}


@exercise.alternative
def built_from_a_list():
    return set(["torch generator", "epoch"]) | {"model"}


@exercise.wrong(
    "The optimizer's state is too much here. SGD without momentum keeps nothing between two steps, and the rate is set "
    "anew in each epoch. With momentum or Adam it would be needed.",
    fault="optimizer-not-restored",
)
def the_optimizer_too():
    return {"model", "optimizer", "epoch", "torch generator"}


@exercise.wrong(
    "Without torch's generator, dropout draws other masks: the resumed process has seeded it afresh, so it begins "
    "again with the masks of the first epoch.",
    fault="seed-incomplete",
)
def without_the_generator():
    return {"model", "epoch"}


@exercise.wrong(
    "Two things are missed here. Dropout reads torch's generator, which the new process has seeded afresh. And the "
    "optimizer is not needed: SGD without momentum keeps nothing.",
    fault="seed-incomplete",
)
def the_usual_three():
    return {"model", "optimizer", "epoch"}


@exercise.wrong(
    "The weights alone leave the run at epoch 0: rate and order are computed from the epoch. And dropout reads torch's "
    "generator."
)
def only_the_weights():
    return {"model"}


@exercise.wrong(
    "The epoch is missed. Rate and order of the data are computed from it; with weights and generator alone, the run "
    "begins its 20 epochs again.",
    fault="scheduler-not-restored",
)
def without_the_epoch():
    return {"model", "torch generator"}


@exercise.wrong(
    "This is everything on the list. There is neither a scheduler nor a scaler in the program, nothing in the loop "
    "draws from `random`, and SGD without momentum has no state. What a run does not have cannot be saved."
)
def everything():
    return {"model", "optimizer", "scheduler", "scaler", "epoch", "torch generator", "python generator"}


@exercise.wrong(
    "`random` is seeded, but nothing in the loop draws from it. The order and the dropout masks come from torch."
)
def pythons_generator_too():
    return {"model", "epoch", "torch generator", "python generator"}


@exercise.wrong(
    "The scaler is too much: bfloat16 has the range of float32, so the loop has no GradScaler whose state could be "
    "kept."
)
def the_scaler_too():
    return {"model", "epoch", "torch generator", "scaler"}
