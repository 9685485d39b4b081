// Verification of webhooks, by the Standard Webhooks specification.

import { createHmac, timingSafeEqual } from "node:crypto";

import { WebhookError } from "./errors.js";
import { readAmounts } from "./money.js";

export function verifyWebhook(secret, headers, body, { toleranceSeconds = 300, now = Date.now() / 1000 } = {}) {
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  if (!key.length) throw new RangeError("the secret is empty");
  const given = new Map([...(headers.entries?.() ?? Object.entries(headers))].map(([name, value]) => [name.toLowerCase(), value]));
  const [id, timestamp, signatures] = ["id", "timestamp", "signature"].map((each) => given.get(`webhook-${each}`));
  if (!id || !/^\d{1,12}$/.test(timestamp ?? "") || !signatures) throw new WebhookError("the headers are missing or wrong");
  const digest = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest("base64");
  const expected = Buffer.from(`v1,${digest}`);
  const fitting = signatures
    .split(" ", 20)
    .map((each) => Buffer.from(each))
    .filter((each) => each.length === expected.length && timingSafeEqual(each, expected));
  if (!fitting.length) throw new WebhookError("no signature fits");
  if (Math.abs(now - Number(timestamp)) > toleranceSeconds) throw new WebhookError("the request is too old, or a clock is wrong");
  try {
    return readAmounts(JSON.parse(body));
  } catch {
    throw new WebhookError("the body is no event");
  }
}
