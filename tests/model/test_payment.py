"""The model of a payment holds whatever comes in whatever order, and does not hold once a safeguard is taken away."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.needs_spin

MODEL = Path(__file__).with_name("payment.pml")
SERVICES = MODEL.parents[2] / "ussd_server/services"
ENDS = "every_payment_ends_or_is_reviewed"
BOOKED = "what_the_provider_paid_is_in_the_books"
IN_FAIL = "assertion violated (((lost"
NAMED = re.compile(r"(\w[\w/]*\.py)`?, `?([A-Za-z_][\w.]*)")


def verified(folder: Path, words: str, claim: str | None = None) -> str:
    """What Spin says after it has tried every order of steps, with or without a claim about what happens at last."""

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        return done.stdout + done.stderr

    run("spin", *(f"-D{word}" for word in words.split()), "-a", str(MODEL))
    # One process waits for another one's step: fairness needs to know how many there are.
    kind = ["-DNFAIR=3"] if claim else ["-DSAFETY", "-DNOCLAIM"]
    compiled = run("gcc", "-O0", "-w", "-DMEMLIM=2000", *kind, "-o", "pan", "pan.c")
    assert not compiled, compiled
    return run("./pan", "-m1000000", *(["-a", "-f", "-N", claim] if claim else ["-E"]))


def is_right(said: str) -> bool:
    assert "errors: " in said, said
    assert "max search depth too small" not in said
    assert "out of memory" not in said
    return "errors: 0" in said


@pytest.mark.nightly
def test_no_name_is_paid_twice_and_none_fails_that_may_be_paid_though_a_worker_crashes_and_another_is_slow(
    tmp_path: Path,
) -> None:
    said = verified(tmp_path, "TROUBLE=1")
    assert is_right(said)
    unreached = said.partition("unreached in proctype Worker")[2].partition("unreached in")[0]
    assert "(1 of " in unreached, "but its end, every line of the worker was tried"


@pytest.mark.nightly
def test_no_name_is_paid_twice_and_every_payment_is_in_the_books_though_the_database_forgets(tmp_path: Path) -> None:
    # The assertions of the model hold in this run, too: it visits every state.
    assert is_right(verified(tmp_path, "TROUBLE=0 FAILOVER", BOOKED))


@pytest.mark.nightly
def test_every_payment_ends_or_is_reviewed(tmp_path: Path) -> None:
    assert is_right(verified(tmp_path, "TROUBLE=0", ENDS))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("words", "claim", "found"),
    [
        ("TROUBLE=1 NO_LEASE", None, IN_FAIL),
        ("TROUBLE=1 NO_MARK", None, IN_FAIL),
        ("TROUBLE=0 SILENCE_FAILS", None, IN_FAIL),
        ("TROUBLE=0 FAILOVER RANDOM_NAME", None, "assertion violated (paid==1)"),
        ("TROUBLE=0 NO_GIVING_UP", ENDS, "acceptance cycle"),
        ("TROUBLE=0 FAILOVER NO_RECOVERY", BOOKED, "acceptance cycle"),
    ],
)
def test_the_model_is_wrong_without_any_of_its_safeguards(
    tmp_path: Path, words: str, claim: str | None, found: str
) -> None:
    said = verified(tmp_path, words, claim)
    assert not is_right(said)
    assert found in said


def test_every_step_of_the_model_is_a_function_of_the_program() -> None:
    named = set(NAMED.findall(MODEL.read_text(encoding="utf-8")))
    assert len(named) > 10
    for file, dotted in named:
        defined = ast.parse((SERVICES / file).read_text(encoding="utf-8")).body
        for name in dotted.rstrip(".").split("."):
            (found,) = (each for each in defined if getattr(each, "name", None) == name)
            defined = getattr(found, "body", [])
