"""How MTN says no: the gateway's own words for keys and paths, `{code, message}` for everything behind it."""

from simulators.standin import RefusalError

USUAL_CODES = {
    404: "RESOURCE_NOT_FOUND",
    409: "RESOURCE_ALREADY_EXIST",
    500: "INTERNAL_PROCESSING_ERROR",
    503: "SERVICE_UNAVAILABLE",
}


def error_body(status: int, code: str = "") -> dict[str, str | int]:
    """An error as MTN writes it; where no code belongs to the status, as the gateway in front of MTN writes it."""
    code = code or USUAL_CODES.get(status, "")
    if not code:
        return {"statusCode": status, "message": "The gateway refused this call."}
    return {"code": code, "message": f"Refused: {code.replace('_', ' ').lower()}."}


def refusal(status: int, code: str = "") -> RefusalError:
    """An error ready to be raised."""
    return RefusalError(status, error_body(status, code))


def malformed(what: str) -> RefusalError:
    """400 for a request that is not as it must be."""
    return RefusalError(400, {"statusCode": 400, "message": f"Malformed: {what}."})
