// What a call rejects with.

/** The base of all errors of this library. */
export class ClientError extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** No whole reply came: no connection, a time-out or a broken reply. The request may have been carried out. */
export class UnreachableError extends ClientError {}

/** A request is not from the service, is too old, or was changed on its way. */
export class WebhookError extends ClientError {}

/** A payment is not final yet; it is neither paid nor failed. `transaction` is its present record. */
export class StillOpenError extends ClientError {
  constructor(transaction) {
    super(`transaction ${transaction.transaction_id} is ${transaction.status}`);
    this.transaction = transaction;
  }
}

/** The service refused the request. */
export class ApiError extends ClientError {
  constructor(status, code, message, requestId, retryAfter) {
    super(`${status} ${code}: ${message} (request ${requestId})`);
    Object.assign(this, { status, code, reason: message, requestId, retryAfter });
  }
}

/** 400, 405, 413, 415: the request cannot be accepted as it is. */
export class RequestError extends ApiError {}

/** 401: the key or its secret is wrong. */
export class AuthenticationError extends ApiError {}

/** 403: the key is disabled or expired, or lacks the scope, or the address is not allowed. */
export class PermissionDeniedError extends ApiError {}

/** 404: there is no such object, or it belongs to another client. */
export class NotFoundError extends ApiError {}

/** 429: the key is over a limit for `retryAfter` seconds. */
export class RateLimitError extends ApiError {}

/** 500 to 599: the service or the provider is down. */
export class UnavailableError extends ApiError {}

const BY_STATUS = { 401: AuthenticationError, 403: PermissionDeniedError, 404: NotFoundError, 429: RateLimitError };

/** Return the error of an HTTP status. */
export function errorOf(status, ...rest) {
  return new (BY_STATUS[status] ?? (status >= 500 ? UnavailableError : RequestError))(status, ...rest);
}
