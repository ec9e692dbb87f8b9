"""What laconic raises."""


class Error(RuntimeError):
    """Base of all errors of laconic; `code` names the kind.

    >>> import laconic
    >>> laconic.Error("timeout", "rank 1 is missing").code
    'timeout'
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class InvalidArgument(Error, ValueError):
    """What was given does not fit; nothing was changed.

    >>> import laconic, torch
    >>> try:
    ...     laconic.SGD([torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))], lr=0.1)
    ... except laconic.InvalidArgument as error:
    ...     print(error)
    parameter 0 is torch.float64: only float32, bfloat16 and float16 can be trained
    """

    def __init__(self, message: str, code: str = "invalid argument") -> None:
        super().__init__(code, message)


class RankMissing(Error, TimeoutError):
    """A rank died, left or did not arrive in time; the message names it. The optimizer is unusable afterwards.

    >>> import laconic
    >>> issubclass(laconic.RankMissing, TimeoutError)
    True
    """

    def __init__(self, message: str, code: str = "timeout") -> None:
        super().__init__(code, message)


def from_code(code: str, message: str) -> Error:
    """The error that the C++ part's code stands for."""
    if code == "invalid argument":
        return InvalidArgument(message)
    if code == "timeout":
        return RankMissing(message)
    return Error(code, message)
