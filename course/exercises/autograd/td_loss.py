"""Lesson 02: stop the gradient at a target network."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course.checking import Exercise, no_call
from course.exercises.autograd._graphs import gradients, numbers, small_model

exercise = Exercise(
    "autograd.td_loss",
    title="Stop the gradient at the target",
    task="""
        Q-learning trains a network `q` towards targets that come from a second network, `target_q`. Both map states,
        shape `(N, S)`, to one value for each action, shape `(N, A)`. For row n

        $$t_n = \\text{reward}_n + \\gamma \\cdot \\max_a \\text{target\\_q}(\\text{next\\_state}_n)_a$$

        or just $t_n = \\text{reward}_n$ where `done[n]` is True.

        `td_loss(q, target_q, state, action, reward, next_state, done, gamma)` returns the mean over n of
        $(\\text{q}(\\text{state}_n)_{\\text{action}_n} - t_n)^2$, a tensor without axes. `action` is int64, `reward`
        floating, `done` bool, each of shape `(N,)`.

        The targets count as constants: `loss.backward()` gives gradients to the parameters of `q` by way of
        `q(state)` alone, also if `q` and `target_q` are the same object. Both networks stay as they are: their mode,
        their parameters' `requires_grad` and `.grad`. None is copied, and the other arguments stay as they are.
        """,
    hints=(
        "Which part of the formula is to be a constant? Everything that is computed under torch.no_grad(), or passed "
        "through detach(), is one.",
        "To pick one value of each row, index with two tensors, row numbers and actions, or use gather, which returns "
        "shape (N, 1). Compare shapes before you subtract.",
    ),
    requires=(no_call("deepcopy", "copy", "load_state_dict"),),
)


@exercise.stub
def td_loss(
    q: nn.Module,
    target_q: nn.Module,
    state: Tensor,
    action: Tensor,
    reward: Tensor,
    next_state: Tensor,
    done: Tensor,
    gamma: float,
) -> Tensor:
    """Return the mean squared error of q(state) at the actions taken against targets that pass no gradient.

    state and next_state have shape (N, S); action, reward and done have shape (N,); the networks give (N, A)."""
    raise NotImplementedError


@exercise.reference
def by_no_grad(q, target_q, state, action, reward, next_state, done, gamma):
    with torch.no_grad():
        target = reward + gamma * target_q(next_state).amax(1) * ~done
    predicted = q(state)[torch.arange(len(action)), action]
    return (predicted - target).square().mean()


@exercise.alternative
def by_detach(q, target_q, state, action, reward, next_state, done, gamma):
    best = target_q(next_state).max(dim=1).values.masked_fill(done, 0.0)
    predicted = q(state).gather(1, action.unsqueeze(1)).squeeze(1)
    return F.mse_loss(predicted, (reward + gamma * best).detach())


@exercise.wrong(
    "The gradient also flows back through the targets, into target_q. Half of the update then moves the targets "
    "towards the predictions. Compute the targets so that autograd does not follow."
)
def without_a_stop(q, target_q, state, action, reward, next_state, done, gamma):
    target = reward + gamma * target_q(next_state).amax(1) * ~done
    predicted = q(state).gather(1, action[:, None])[:, 0]
    return (predicted - target).square().mean()


@exercise.wrong(
    "requires_grad_(False) is no stop for this one computation: it freezes the network for good. Whoever trains it "
    "later, or uses one network for both, finds that nothing moves.",
    fault="graph-cut",
)
def freezing_the_target(q, target_q, state, action, reward, next_state, done, gamma):
    target_q.requires_grad_(False)
    target = reward + gamma * target_q(next_state).amax(1) * ~done
    predicted = q(state).gather(1, action[:, None])[:, 0]
    return (predicted - target).square().mean()


@exercise.wrong(
    "Everything is computed under no_grad, the predictions too. The loss is a plain number without grad_fn, and "
    "nothing can learn from it. Only the targets belong inside.",
    fault="graph-cut",
)
def all_under_no_grad(q, target_q, state, action, reward, next_state, done, gamma):
    with torch.no_grad():
        target = reward + gamma * target_q(next_state).amax(1) * ~done
        predicted = q(state).gather(1, action[:, None])[:, 0]
        return (predicted - target).square().mean()


@exercise.wrong(
    "The stop is on the wrong side. The prediction is what should learn, and it is detached; the targets are what "
    "should stay, and the gradient goes there."
)
def prediction_detached(q, target_q, state, action, reward, next_state, done, gamma):
    target = reward + gamma * target_q(next_state).amax(1) * ~done
    predicted = q(state).gather(1, action[:, None])[:, 0].detach()
    return (predicted - target).square().mean()


@exercise.wrong(
    "done is not looked at. After the last step of an episode there is no next state, and the target is the reward "
    "alone."
)
def past_the_end(q, target_q, state, action, reward, next_state, done, gamma):
    with torch.no_grad():
        target = reward + gamma * target_q(next_state).amax(1)
    predicted = q(state).gather(1, action[:, None])[:, 0]
    return (predicted - target).square().mean()


@exercise.wrong(
    "gather() returns shape (N, 1). Against targets of shape (N,) the difference broadcasts to (N, N), every "
    "prediction against every target, and no error is raised.",
    fault="broadcast-outer-product",
)
def predictions_in_a_column(q, target_q, state, action, reward, next_state, done, gamma):
    with torch.no_grad():
        target = reward + gamma * target_q(next_state).amax(1) * ~done
    predicted = q(state).gather(1, action[:, None])
    return (predicted - target).square().mean()


@exercise.wrong(
    "The targets come from q itself. They move with every step of training, which is what the second network is there "
    "to prevent."
)
def targets_from_q(q, target_q, state, action, reward, next_state, done, gamma):
    with torch.no_grad():
        target = reward + gamma * q(next_state).amax(1) * ~done
    predicted = q(state).gather(1, action[:, None])[:, 0]
    return (predicted - target).square().mean()


@exercise.wrong(
    "The target network is frozen for the call, and afterwards all of its parameters require gradients, also those "
    "that did not before. A network that somebody froze is trained from now on.",
)
def frozen_and_thawed(q, target_q, state, action, reward, next_state, done, gamma):
    target_q.requires_grad_(False)
    target = reward + gamma * target_q(next_state).amax(1) * ~done
    target_q.requires_grad_(True)
    predicted = q(state).gather(1, action[:, None])[:, 0]
    return (predicted - target).square().mean()


@exercise.wrong(
    "The target network is put into evaluation mode and stays there. If q and target_q are one object, or if it "
    "becomes the trained one later, that shows. Both networks are used in the mode that they have."
)
def target_put_into_evaluation(q, target_q, state, action, reward, next_state, done, gamma):
    target_q.eval()
    with torch.no_grad():
        target = reward + gamma * target_q(next_state).amax(1) * ~done
    predicted = q(state).gather(1, action[:, None])[:, 0]
    return (predicted - target).square().mean()


@exercise.wrong(
    "The gradients of q are cleared inside. What was accumulated there before is lost; clearing is up to the training "
    "loop that calls this."
)
def clearing_gradients(q, target_q, state, action, reward, next_state, done, gamma):
    q.zero_grad()
    with torch.no_grad():
        target = reward + gamma * target_q(next_state).amax(1) * ~done
    predicted = q(state).gather(1, action[:, None])[:, 0]
    return (predicted - target).square().mean()


@exercise.wrong(
    "The targets are added up inside of reward: += writes into the tensor that the caller passed. The next epoch over "
    "the same batch starts from other rewards."
)
def added_into_the_rewards(q, target_q, state, action, reward, next_state, done, gamma):
    with torch.no_grad():
        reward += gamma * target_q(next_state).amax(1) * ~done
    predicted = q(state).gather(1, action[:, None])[:, 0]
    return (predicted - reward).square().mean()


def observed(
    answer,
    done: list[bool],
    *,
    shared: bool = False,
    gamma: float = 0.5,
    frozen_target: bool = False,
    old: float | None = None,
) -> dict[str, object]:
    q = small_model(2, 4, 3)
    target_q = q if shared else small_model(2, 3).requires_grad_(not frozen_target)
    for parameter in q.parameters():
        parameter.grad = None if old is None else torch.full_like(parameter, old)
    before = [p.requires_grad for net in (q, target_q) for p in net.parameters()]
    modes: list[bool] = []
    for net in (q, target_q):
        net.register_forward_pre_hook(lambda module, _: modes.append(module.training))
    rows = len(done)
    action = torch.tensor([2, 0, 1, 2, 1])[:rows]
    state, next_state = numbers(rows, 2, start=3.0), numbers(rows, 2, start=8.0)
    reward = 3 * numbers(rows, start=5.0)
    arguments = (state, action, reward, next_state, torch.tensor(done))
    copies = [tensor.clone() for tensor in arguments]
    loss = answer(q, target_q, *arguments, gamma)
    flags = [p.requires_grad for net in (q, target_q) for p in net.parameters()]
    if loss.requires_grad:
        loss.backward()
    return {
        "loss": loss.detach(),
        "gradients of q": gradients(q),
        "gradients of target_q": None if shared else gradients(target_q),
        "requires_grad of the parameters as before": flags == before,
        "networks in training mode, during and after": all((*modes, q.training, target_q.training)),
        "other arguments as before": all(map(torch.equal, arguments, copies)),
    }


@exercise.probe
def episode_goes_on(answer):
    return observed(answer, [False, False, False, False])


@exercise.probe
def some_episodes_end(answer):
    return observed(answer, [False, True, False, True, False], gamma=0.9)


@exercise.probe
def every_episode_ends(answer):
    return observed(answer, [True, True])


@exercise.probe
def a_frozen_target_network(answer):
    return observed(answer, [False, True], frozen_target=True)


@exercise.probe
def gradients_of_an_earlier_loss(answer):
    return observed(answer, [False, False], old=7.0)


@exercise.probe
def one_network_for_both(answer):
    return observed(answer, [False, True, False], shared=True)


@exercise.probe
def a_single_row(answer):
    return observed(answer, [False])
