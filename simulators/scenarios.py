"""How payments end: the scenarios that magic numbers select, as steps on the stand-in's clock."""

from dataclasses import dataclass

from simulators.book import BookedStep
from simulators.switches import Switches

APPROVAL_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """The final status of a payment and its reason or result code.

    It is reached after `seconds`, through the status and code `before` if there is one. The provider loses the first
    submission of a `lost` payment.
    """

    status: str
    reason: str = ""
    before: tuple[str, str] | None = None
    seconds: float = 0.0
    lost: bool = False

    def steps(self, at: float) -> tuple[BookedStep, ...]:
        """Returns the steps of a payment that starts to settle `at` this time, in seconds since 1970."""
        last = BookedStep(at + self.seconds, self.status, self.reason)
        return (last,) if self.before is None else (BookedStep(at, *self.before), last)


def second_thoughts(
    steps: tuple[BookedStep, ...], success: str, failed: tuple[str, str], switches: Switches
) -> tuple[BookedStep, ...]:
    """Returns steps that end in `success` with the later reversal that the switches set; others as they are.

    `failed` is the status and the reason of the failure.
    """
    last = steps[-1]
    later = last.at + switches.second_thought_seconds
    if last.status != success:
        return steps
    if switches.success_after_failure:
        return (*steps[:-1], BookedStep(last.at, *failed), BookedStep(later, success, last.reason))
    if switches.failure_after_success:
        return (*steps, BookedStep(later, *failed))
    return steps
