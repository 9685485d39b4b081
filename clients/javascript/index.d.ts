import type { CreateTransactionBody, Transaction } from "./operations.js";
import { Operations } from "./operations.js";

export type * from "./operations.js";

export interface Options {
  /** The longest silence of the service; above 25, because `wait` holds a reply that long. 40 unless given. */
  timeoutSeconds?: number;
  /** For how long a call is repeated; 0 repeats nothing. 60 unless given. */
  patienceSeconds?: number;
}

/** The API with one key. Amounts of replies are decimal text, such as "5000.5". */
export class UssdClient extends Operations {
  /** RangeError if the address is no URL. */
  constructor(baseUrl: string, apikey: string, apisecret: string, options?: Options);
  /**
   * Create a transaction and return it once it is final: `succeeded`, `failed` or `reversed`.
   *
   * After any error, call it again with the same reference: money moves once. The payer has five minutes to confirm, so
   * wait that long. StillOpenError after `seconds` (330).
   */
  pay(body: CreateTransactionBody, options?: { seconds?: number }): Promise<Transaction>;
  /** Return a transaction once it is final. StillOpenError after `seconds` (330). */
  waitUntilFinal(transactionId: string, options?: { seconds?: number }): Promise<Transaction>;
}

/** The base of all errors of this library. */
export class ClientError extends Error {}
/** No whole reply came. The request may have been carried out. */
export class UnreachableError extends ClientError {}
/** A request is not from the service, is too old, or was changed on its way. */
export class WebhookError extends ClientError {}
/** A payment is not final yet; it is neither paid nor failed. */
export class StillOpenError extends ClientError {
  readonly transaction: Transaction;
}
/** The service refused the request. */
export class ApiError extends ClientError {
  /** The HTTP status. */
  readonly status: number;
  /** The error code of the API; `UNKNOWN` where another server replied. */
  readonly code: string;
  /** The sentence of the service. */
  readonly reason: string;
  /** Names the request to the operator. */
  readonly requestId: string | null;
  /** Seconds after which the call is accepted. */
  readonly retryAfter: number | null;
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

export interface WebhookEvent {
  type: string;
  timestamp: string;
  data: { [name: string]: any };
}

/**
 * Return the event of a request to your server.
 *
 * `secret` is the webhook's (`whsec_...`), `body` the raw body. WebhookError unless it is from the service and was signed at
 * most `toleranceSeconds` (300) from `now` (Unix time in seconds); reply 400 then. RangeError if the secret is empty.
 */
export function verifyWebhook(
  secret: string,
  headers: Headers | { [name: string]: any },
  body: string | Uint8Array,
  options?: { toleranceSeconds?: number; now?: number },
): WebhookEvent;

/** Return an amount in cents. RangeError for more than two decimals and for what is no amount. */
export function toCents(amount: string | number | bigint): bigint;
/** Return cents as an amount, with no more decimals than it needs. */
export function fromCents(cents: bigint): string;
