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
