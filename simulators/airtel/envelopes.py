"""Airtel's response bodies: `{data, status}`, where `status` is that of the call and never of the payment."""

from collections.abc import Mapping
from typing import Any

from simulators.standin import RefusalError

DONE = "ESB000010"
USUAL_CODES = {400: "ESB000008", 401: "ROUTER001", 404: "ROUTER119", 405: "ROUTER119", 503: "ESB000001"}


def envelope(
    data: Mapping[str, Any] | None,
    response_code: str = "",
    *,
    result_code: str = DONE,
    message: str = "SUCCESS",
    success: bool = True,
    status: int = 200,
) -> dict[str, Any]:
    """Returns a response body; without `data` when it is None."""
    call = {
        "code": str(status),
        "message": message,
        "response_code": response_code,
        "result_code": result_code,
        "success": success,
    }
    return {"status": call} if data is None else {"data": dict(data), "status": call}


def error_body(status: int, code: str = "") -> dict[str, Any]:
    """Returns an error of the call: codes that begin with DP as response code, others as result code."""
    code = code or USUAL_CODES.get(status, "ESB000001")
    if code.startswith("DP"):
        return envelope(None, code, result_code="ESB000011", message="Failed", success=False, status=status)
    return envelope(None, result_code=code, message="Failed", success=False, status=status)


def refusal(status: int, code: str) -> RefusalError:
    """Returns an error to raise."""
    return RefusalError(status, error_body(status, code))
