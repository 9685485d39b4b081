"""MTN's error bodies: `{statusCode, message}` from its gateway, `{code, message}` from the wallet platform."""

from simulators.standin import RefusalError

USUAL_CODES = {
    404: "RESOURCE_NOT_FOUND",
    409: "RESOURCE_ALREADY_EXIST",
    500: "INTERNAL_PROCESSING_ERROR",
    503: "SERVICE_UNAVAILABLE",
}


def error_body(status: int, code: str = "") -> dict[str, str | int]:
    """Returns the platform's error body, or the gateway's where no code belongs to the status."""
    code = code or USUAL_CODES.get(status, "")
    if not code:
        return {"statusCode": status, "message": "The gateway refused this call."}
    return {"code": code, "message": f"Refused: {code.replace('_', ' ').lower()}."}


def refusal(status: int, code: str = "") -> RefusalError:
    """Returns an error to raise."""
    return RefusalError(status, error_body(status, code))


def malformed(what: str) -> RefusalError:
    """Returns a 400 to raise; `what` is the rule that the request breaks."""
    return RefusalError(400, {"statusCode": 400, "message": f"Malformed: {what}."})
