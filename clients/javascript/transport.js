// Sends requests, repeats those that are safe to repeat, and reads replies with exact amounts.

import { ApiError, RateLimitError, UnavailableError, UnreachableError, errorOf } from "./errors.js";
import { readAmounts, writeAmounts } from "./money.js";

const LONGEST_REPLY = 16 * 1024 * 1024;
const LONGEST_PAUSE_SECONDS = 20;

export const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

/** Calls of the API with one key. */
export class Transport {
  #baseUrl;
  #headers;
  #timeoutSeconds;
  #patienceSeconds;

  constructor(baseUrl, apikey, apisecret, { timeoutSeconds = 40, patienceSeconds = 60 } = {}) {
    if (!/^https?:\/\//.test(baseUrl)) throw new RangeError("baseUrl begins with https:// or http://");
    this.#baseUrl = baseUrl.replace(/\/$/, "");
    this.#headers = { "x-api-key": apikey, "x-api-secret": apisecret, "User-Agent": "ussd-client-javascript/1.0.0" };
    this.#timeoutSeconds = timeoutSeconds;
    this.#patienceSeconds = patienceSeconds;
  }

  /** Return the `data` of a JSON reply. */
  async _call(method, path, segments, { query = {}, body, contentType = "application/json" } = {}) {
    return this.#open(method, path, segments, query, body, contentType, "application/json", readData);
  }

  /** Return a stream of a reply that is no JSON, such as a CSV file. */
  async _stream(path, segments, { query = {}, accept }) {
    return this.#open("GET", path, segments, query, undefined, "application/json", accept, (reply) => reply.body);
  }

  /** Yield the items of all pages; `page` returns the page at a cursor. */
  async *_pages(page) {
    let cursor;
    do {
      const one = await page(cursor);
      yield* one.items;
      cursor = one.next_cursor;
    } while (cursor !== null);
  }

  async #open(method, path, segments, query, body, contentType, accept, finish) {
    const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
    const search = given.length ? `?${new URLSearchParams(given)}` : "";
    const left = [...segments];
    const url = this.#baseUrl + path.replace(/{}/g, () => segment(left.shift())) + search;
    const isBytes = typeof body === "string" || body instanceof Uint8Array;
    const options = {
      method,
      headers: { ...this.#headers, "Content-Type": contentType, Accept: accept },
      body: body === undefined || isBytes ? body : writeAmounts(body),
      redirect: "manual", // A redirect would carry the secret to another host.
    };
    // The service recognises a repeat by the client's reference, or by the turn of a session.
    const isNamed = !isBytes && body && ("reference" in body || "turn" in body);
    const isRepeatable = method === "GET" || method === "PUT" || isNamed || given.some(([name]) => name === "reference");
    const until = performance.now() + this.#patienceSeconds * 1000;
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await this.#send(url, options, finish);
      } catch (error) {
        const seconds = secondsBeforeNext(error, attempt, isRepeatable);
        if (seconds === null || performance.now() + seconds * 1000 >= until) throw error;
        await pause(seconds);
      }
    }
  }

  async #send(url, options, finish) {
    const silence = new AbortController();
    const timer = setTimeout(() => silence.abort(), this.#timeoutSeconds * 1000);
    try {
      const reply = await fetch(url, { ...options, signal: silence.signal });
      if (!reply.ok) throw await refusal(reply);
      return await finish(reply);
    } catch (error) {
      if (error instanceof ApiError || error instanceof UnreachableError) throw error;
      throw new UnreachableError(`No whole reply: ${error.name}`, { cause: error });
    } finally {
      clearTimeout(timer);
    }
  }
}

function segment(value) {
  if (["", ".", ".."].includes(value)) throw new RangeError(`"${value}" is no id`);
  return encodeURIComponent(value);
}

function secondsBeforeNext(error, attempt, isRepeatable) {
  const backoff = (0.5 + Math.random() / 2) * Math.min(2 ** attempt, LONGEST_PAUSE_SECONDS);
  if (error instanceof ApiError) {
    // A limited call did nothing, so it may be repeated whatever it is.
    const helps = error instanceof RateLimitError || (isRepeatable && error instanceof UnavailableError);
    return helps ? Math.max(backoff, error.retryAfter ?? 0) : null;
  }
  return isRepeatable && error instanceof UnreachableError ? backoff : null;
}

async function readJson(reply) {
  const parts = [];
  let length = 0;
  for await (const part of reply.body ?? []) {
    length += part.length;
    if (length > LONGEST_REPLY) throw new UnreachableError("The reply is too long");
    parts.push(part);
  }
  try {
    return JSON.parse(Buffer.concat(parts).toString());
  } catch {
    return null;
  }
}

async function readData(reply) {
  const read = await readJson(reply);
  if (read?.data === undefined) throw new UnreachableError("The reply is not of this API");
  return readAmounts(read.data);
}

async function refusal(reply) {
  const said = (await readJson(reply)) ?? {};
  const after = reply.headers.get("retry-after") ?? "";
  return errorOf(
    reply.status,
    String(said.error ?? "UNKNOWN"),
    String(said.message ?? "The reply is not of this API"),
    reply.headers.get("x-request-id"),
    /^\d{1,9}$/.test(after) ? Number(after) : null,
  );
}
