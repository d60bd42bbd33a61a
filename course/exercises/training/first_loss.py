"""Lesson 05: the loss that an untrained classifier should show."""

from __future__ import annotations

import math

from course.checking import ValueExercise

exercise = ValueExercise(
    "training.first_loss",
    title="The first loss",
    task="""
        Before training, a good classifier of ten classes knows nothing: it gives each class the probability 1/10. What
        cross-entropy does it show? Give it as a Python number, to two decimals or as an expression.

        A first loss far above that number means that the network is confident and wrong: inputs that are not
        normalised, or an initialisation that is too large.
        """,
    hints=(
        "Cross-entropy is the mean of minus the logarithm of the probability that was given to the right class.",
        "torch uses the natural logarithm, as math.log does.",
    ),
    name="first_loss",
    expects="a Python number: the mean of minus the natural logarithm of the right class's probability",
    rtol=0.0,
    atol=0.006,
)


@exercise.reference
def logarithm_of_ten():
    return math.log(10)


@exercise.alternative
def minus_the_logarithm_of_a_tenth():
    return -math.log(0.1)


@exercise.alternative
def to_two_decimals():
    return 2.3


@exercise.wrong("That is the accuracy of guessing, one in ten. The loss is minus the logarithm of the probability.")
def accuracy_of_guessing():
    return 0.1


@exercise.wrong("That is the logarithm to base 2, in bits. torch takes the natural logarithm.")
def logarithm_to_base_two():
    return math.log2(10)


@exercise.wrong("That is the logarithm to base 10. torch takes the natural logarithm.")
def logarithm_to_base_ten():
    return math.log10(10)


@exercise.wrong(
    "The sign is the other way round: a probability is at most 1, so minus its logarithm is never negative."
)
def negative_logarithm():
    return math.log(0.1)


@exercise.wrong("That is the share of wrong guesses. Cross-entropy looks at probabilities, not at right and wrong.")
def share_of_wrong_guesses():
    return 0.9
