/** Waiting for a flag, or for a promise with a time limit. */

/** The longest that Node's timers wait. A longer time would end at once. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** The answer of a promise, or null after so many milliseconds. */
export async function within<T>(promise: Promise<T>, timeout: number | undefined): Promise<T | null> {
  if (timeout === undefined) return promise;
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<null>((resolve) => (timer = setTimeout(resolve, Math.min(timeout, LONGEST_TIMER), null)));
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** A flag that can be waited for. */
export class Signal {
  #isSet = false;
  readonly #waiting = new Set<() => void>();

  get isSet(): boolean {
    return this.#isSet;
  }

  set(): void {
    this.#isSet = true;
    for (const wake of this.#waiting) wake();
  }

  clear(): void {
    this.#isSet = false;
  }

  /** Waits until it is set, at most so many milliseconds. */
  async wait(timeout?: number): Promise<void> {
    if (this.#isSet || (timeout !== undefined && timeout <= 0)) return;
    let wake = () => {};
    const woken = new Promise<void>((resolve) => (wake = resolve));
    this.#waiting.add(wake);
    const timer = timeout === undefined ? undefined : setTimeout(wake, timeout);
    await woken;
    clearTimeout(timer);
    this.#waiting.delete(wake);
  }
}
