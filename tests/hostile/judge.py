"""Whether a call ended well: a result that is right, or one sentence of ours."""

import contextlib
import dataclasses
import io
import pathlib
import re
import signal
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import gpu_consensus as gpc
from gpu_consensus.backends import BackendError

HOME = pathlib.Path(gpc.__file__).resolve().parent
REFUSALS = (
    ValueError, TypeError, MemoryError, OSError, IndexError, ImportError, BackendError
)  # fmt: skip
SECONDS = 20
MOST_LETTERS = 700


@dataclasses.dataclass
class Case:
    """A call, what its message may name, and how its result is confirmed.

    Attributes
    ----------
    text : str
        The call, for a person.
    run : callable
    names : tuple of str
        One of them has to be in the message.
    check : callable
        Takes the result; raises AssertionError if it is wrong.
    files : bool
        Whether the call reads what others wrote, so that a reader may complain.
    """

    text: str
    run: Callable[[], Any]
    names: tuple[str, ...]
    check: Callable[[Any], None] = lambda _: None


class TooLongError(BaseException):
    """The call did not end in time."""


@contextlib.contextmanager
def at_most(seconds):
    """Stop what takes longer."""

    def stop(*_):
        raise TooLongError(f"no end after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def judge(case):
    """Return "right" or "refused" and None, or what went wrong and a traceback."""
    quiet = io.StringIO()
    try:
        with (
            at_most(SECONDS),
            warnings.catch_warnings(),
            contextlib.redirect_stdout(quiet),
            contextlib.redirect_stderr(quiet),
        ):
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", category=UserWarning, module=r".*")
            warnings.filterwarnings("ignore", category=gpc.ConvergenceWarning)
            try:
                result = case.run()
            except REFUSALS as error:
                return _judge_refusal(error, case)
            case.check(result)
    except AssertionError as error:
        return "wrong result", _last_lines(error)
    except TooLongError as error:
        return "too long", _last_lines(error)
    except RecursionError as error:
        return "foreign error", _last_lines(error)
    except Exception as error:
        return "foreign error", _last_lines(error)
    return "right", None


def _judge_refusal(error, case):
    text = str(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    if HOME not in pathlib.Path(last.filename).resolve().parents:
        return "foreign error", _last_lines(error)
    complaint = why_no_sentence(text)
    if complaint is None and not any(name in text for name in case.names):
        complaint = f"names none of {case.names}"
    if complaint:
        return "poor sentence", f"{complaint}\n{_last_lines(error)}"
    return "refused", None


def why_no_sentence(text):
    """Say why a message is no single sentence; None if it is one."""
    if "\n" in text or "\r" in text:
        return "more than one line"
    if not text.endswith("."):
        return "no full stop"
    if len(text) > MOST_LETTERS:
        return f"{len(text)} letters"
    own = re.sub(r"'(?:[^'\\]|\\.)*'|\"[^\"]*\"|\([^()]*\)|<[^<>]*>", "", text)
    if re.search(r"[a-z][.!?] [A-Z]", own):
        return "more than one sentence"
    return None


def _last_lines(error):
    return "".join(traceback.format_exception(error)[-6:])
