"""An exercise: stub, reference, alternatives, wrong answers and probes in one file of real Python.

>>> double = Exercise("demo.double", title="Double", task="Return `2 * x`.", hints=("Multiply.",))
>>> @double.stub
... def doubled(x):
...     raise NotImplementedError
>>> @double.reference
... def by_product(x):
...     return 2 * x
>>> @double.probe
... def some_numbers():
...     return torch.arange(3)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from course.checking.requirements import Requirement
from course.checking.source import renamed, source_of, with_body

ASPECTS = ("value", "shape", "dtype", "strides", "sharing", "gradients")


@dataclass(frozen=True)
class Candidate:
    """A catalogued answer under the name that says how it does it."""

    name: str
    obj: Any


@dataclass(frozen=True)
class WrongAnswer(Candidate):
    """A misunderstanding as real code, with what to tell the person who wrote it."""

    id: str
    message: str
    fault: str | None = None


@dataclass(frozen=True)
class Probe:
    """``function()`` makes fresh inputs, ``function(answer)`` calls the answer, a requirement reads its source."""

    name: str
    function: Callable[..., Any] | None = None
    requirement: Requirement | None = None

    @property
    def takes_answer(self) -> bool:
        return self.function is not None and bool(inspect.signature(self.function).parameters)


class Exercise:
    """A task whose answer is a function or a class.

    id: ``room.name``; title, task (markdown), hints (graded, at least two): what the learner reads.
    compare: which aspects of an observation must agree with the reference's, out of "value", "shape", "dtype",
        "strides", "sharing" and "gradients". Mutation of inputs and exceptions always count.
    requires: properties of the source (see :mod:`course.checking.requirements`).
    random: the answer draws random numbers; its two passes need not agree, and probes judge properties.
    rtol, atol: tolerances for ``torch.testing.assert_close``; its defaults by dtype where None.
    seconds: wall time that one check may take.
    """

    def __init__(
        self,
        id: str,
        *,
        title: str,
        task: str,
        hints: Sequence[str],
        compare: Sequence[str] = ("value", "shape", "dtype"),
        requires: Sequence[Requirement] = (),
        random: bool = False,
        rtol: float | None = None,
        atol: float | None = None,
        seconds: float = 10.0,
    ) -> None:
        unknown = sorted(set(compare) - set(ASPECTS))
        if unknown:
            raise ValueError(f"{id}: compare has {unknown}; the aspects are {', '.join(ASPECTS)}")
        if (rtol is None) != (atol is None):
            raise ValueError(f"{id}: give both rtol and atol, or neither")
        self.id, self.title, self.task, self.hints = id, title, inspect.cleandoc(task), tuple(hints)
        self.compare, self.random, self.rtol, self.atol, self.seconds = frozenset(compare), random, rtol, atol, seconds
        self.name = ""
        self.stub_object: Any = None
        self._reference: Candidate | None = None
        self.alternatives: list[Candidate] = []
        self.wrong_answers: list[WrongAnswer] = []
        self.probes: list[Probe] = [Probe(r.__name__, requirement=r) for r in requires]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    # Decorators of an exercise file; each returns its function unchanged.

    def stub(self, obj: Any) -> Any:
        self.stub_object, self.name = obj, obj.__name__
        return obj

    def reference(self, obj: Any) -> Any:
        if self._reference is not None:
            raise ValueError(
                f"{self.id}: two references, {self._reference.name} and {obj.__name__}; make one an alternative"
            )
        self._reference = Candidate(obj.__name__, obj)
        return obj

    def alternative(self, obj: Any) -> Any:
        self.alternatives.append(Candidate(obj.__name__, obj))
        return obj

    def wrong(self, message: str, *, fault: str | None = None) -> Callable[[Any], Any]:
        def register(obj: Any) -> Any:
            wrong_id = f"{self.id}/{obj.__name__}"
            self.wrong_answers.append(WrongAnswer(obj.__name__, obj, wrong_id, inspect.cleandoc(message), fault))
            return obj

        return register

    def probe(self, function: Callable[..., Any]) -> Callable[..., Any]:
        self.probes.append(Probe(function.__name__, function))
        return function

    # What the rest of the course reads.

    @property
    def kind(self) -> str:
        return "class" if inspect.isclass(self.stub_object) else "function"

    @property
    def answer_reference(self) -> Candidate:
        if self._reference is None:
            raise ValueError(f"{self.id} has no reference; mark one definition with @....reference")
        return self._reference

    def value_of(self, candidate: Candidate) -> Any:
        """What a learner with this catalogued answer would hand to ``check``."""
        return candidate.obj

    def stub_source(self) -> str:
        """The code of the stub cell."""
        return source_of(self.stub_object) or ""

    def solution_source(self) -> str:
        """The reference under the learner's name, with the stub's signature and docstring."""
        return self._published(self.answer_reference)

    def alternative_sources(self) -> list[str]:
        return [self._published(candidate) for candidate in self.alternatives]

    def _published(self, candidate: Candidate) -> str:
        text = source_of(candidate.obj) or ""
        if self.kind == "class":
            return renamed(text, self.name)
        return renamed(with_body(self.stub_source(), text), self.name)


class ValueExercise(Exercise):
    """A task whose answer is a value, such as a stride tuple or a number.

    name: the variable that holds the answer. expects: the answer's property in words ("a tuple of two integers"); it
    is all that a verdict says about the right value. Reference and wrong answers are functions that return the value.
    """

    kind = "value"

    def __init__(self, id: str, *, name: str, expects: str, **options: Any) -> None:
        super().__init__(id, **options)
        self.name, self.expects = name, expects
        self.probes.append(Probe("value"))

    def value_of(self, candidate: Candidate) -> Any:
        return candidate.obj()

    def stub_source(self) -> str:
        return f"{self.name} = ...\n"

    def _published(self, candidate: Candidate) -> str:
        body = (source_of(candidate.obj) or "").partition("return ")[2].strip()
        return f"{self.name} = {body}\n"


class ChoiceExercise(ValueExercise):
    """Multiple choice. choices: letter -> text. wrong: letter -> what to tell the person who chose it; every letter but
    the right one has an entry. faults: letter -> fault id."""

    kind = "choice"

    def __init__(
        self,
        id: str,
        *,
        name: str,
        choices: Mapping[str, str],
        right: str,
        wrong: Mapping[str, str],
        faults: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        letters = ", ".join(choices)
        super().__init__(id, name=name, expects=f"one of the letters {letters}", **options)
        if set(wrong) | {right} != set(choices) or right in wrong:
            raise ValueError(f"{id}: wrong must explain every choice of {letters} but the right one")
        self.choices = dict(choices)
        self._reference = Candidate(right, right)
        faults = faults or {}
        self.wrong_answers = [
            WrongAnswer(letter, letter, f"{id}/{letter}", inspect.cleandoc(text), faults.get(letter))
            for letter, text in wrong.items()
        ]
        rows = "\n".join(f"- **{letter}**: {text}" for letter, text in choices.items())
        self.task = f"{self.task}\n\n{rows}"

    def value_of(self, candidate: Candidate) -> Any:
        return candidate.obj

    def _published(self, candidate: Candidate) -> str:
        return f'{self.name} = "{candidate.obj}"\n'
