// The client: every operation of the API, and what is made of several.

import { StillOpenError } from "./errors.js";
import { Operations } from "./operations.js";
import { pause } from "./transport.js";

const FINAL = new Set(["succeeded", "failed", "reversed"]);
const wholeWait = (seconds) => Math.max(1, Math.min(25, Math.floor(seconds)));
const now = () => performance.now() / 1000;

export class UssdClient extends Operations {
  async pay(body, { seconds = 330 } = {}) {
    const began = now();
    const first = await this.createTransaction(body, { wait: wholeWait(seconds) });
    if (FINAL.has(first.status)) return first;
    return this.waitUntilFinal(first.transaction_id, { seconds: seconds - (now() - began) });
  }

  async waitUntilFinal(transactionId, { seconds = 330 } = {}) {
    const until = now() + seconds;
    let transaction = await this.getTransaction(transactionId);
    for (let idle = 1; !FINAL.has(transaction.status); ) {
      if (now() >= until) throw new StillOpenError(transaction);
      const asked = now();
      transaction = await this.getTransaction(transactionId, { wait: wholeWait(until - asked) });
      // A busy service does not hold the reply.
      if (!FINAL.has(transaction.status) && now() - asked < 1) {
        await pause(Math.min(idle, Math.max(0, until - now())));
        idle = Math.min(idle * 2, 10);
      }
    }
    return transaction;
  }
}
