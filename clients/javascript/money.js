// Amounts: decimal text outside, such as "5000.5"; whole cents in a bigint for sums.

import { MONEY, OPAQUE } from "./operations.js";

/** Return an amount in cents. RangeError for more than two decimals and for what is no amount. */
export function toCents(amount) {
  const parts = /^(-?)(\d{1,16})(?:\.(\d{1,2}))?$/.exec(String(amount));
  if (!parts) throw new RangeError(`${amount} is no amount`);
  const cents = BigInt(parts[2] + (parts[3] ?? "").padEnd(2, "0"));
  return parts[1] ? -cents : cents;
}

/** Return cents as an amount, with no more decimals than it needs. */
export function fromCents(cents) {
  const digits = String(cents < 0n ? -cents : cents).padStart(3, "0");
  const decimals = digits.slice(-2).replace(/0+$/, "");
  return (cents < 0n ? "-" : "") + digits.slice(0, -2) + (decimals && `.${decimals}`);
}

/** Return a value of a reply with each amount as text. What a client stored itself stays as it is. */
export function readAmounts(value) {
  if (Array.isArray(value)) return value.map(readAmounts);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => {
      if (OPAQUE.has(name)) return [name, each];
      return [name, MONEY.has(name) && typeof each === "number" ? String(each) : readAmounts(each)];
    }),
  );
}

/** Return a body as JSON, with each bigint as text. TypeError for an amount that is a number with decimals. */
export function writeAmounts(body) {
  return JSON.stringify(body, (name, value) => {
    if (MONEY.has(name) && typeof value === "number" && !Number.isSafeInteger(value)) {
      throw new TypeError(`${name} is no whole number: use text`);
    }
    return typeof value === "bigint" ? String(value) : value;
  });
}
