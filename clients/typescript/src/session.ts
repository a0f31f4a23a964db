/** A connection that a worker keeps. */

import { type Queryable, identifier } from "./call.js";
import { within } from "./signal.js";

/** What a worker needs of a connection of pg's `Pool`. */
export interface Connection extends Queryable {
  on(event: "error", listener: (error: Error) => void): unknown;
  on(event: "notification", listener: (message: { channel: string; payload?: string | undefined }) => void): unknown;
  release(destroy?: boolean | Error): void;
}

/** What a worker needs of pg's `Pool`. */
export interface Pool extends Queryable {
  connect(): Promise<Connection>;
  readonly options?: { max?: number };
}

/** How long an open may take. A pool without a free connection, and a server that is silent, may never answer. */
const LONGEST_OPEN = 10_000;

/**
 * A connection that is taken from the pool when it is used, and anew after it broke.
 *
 * `listening` is called when it has begun to listen. Earlier notifications are lost.
 */
export class Session implements Queryable {
  readonly #pool: Pool;
  readonly #channels: readonly string[];
  readonly #notified: (channel: string, payload: string) => void;
  readonly #listening: () => void;
  #connection: Promise<Connection> | null = null;

  constructor(
    pool: Pool,
    channels: readonly string[] = [],
    notified: (channel: string, payload: string) => void = () => {},
    listening: () => void = () => {},
  ) {
    this.#pool = pool;
    this.#channels = channels;
    this.#notified = notified;
    this.#listening = listening;
  }

  async query(text: string, values?: unknown[]): Promise<{ rows: any[] }> {
    const opening = (this.#connection ??= this.#open());
    const connection = await opening;
    try {
      return await connection.query(text, values);
    } catch (error) {
      const { severity, code } = error as { severity?: string; code?: string };
      // The server's own errors leave the connection as it is. 0A000: a prepared statement's columns have changed since.
      if (severity === undefined || code === "0A000") this.#drop(opening);
      throw error;
    }
  }

  close(): void {
    if (this.#connection) this.#drop(this.#connection);
  }

  #open(): Promise<Connection> {
    const connecting = this.#pool.connect().then(async (connection) => {
      connection.on("error", () => this.#drop(opening));
      connection.on("notification", ({ channel, payload }) => this.#notified(channel, payload ?? ""));
      try {
        for (const channel of this.#channels) await connection.query(`LISTEN ${identifier(channel)}`);
      } catch (error) {
        connection.release(true);
        throw error;
      }
      return connection;
    });
    const opening: Promise<Connection> = within(connecting, LONGEST_OPEN).then((connection) => {
      if (connection === null) {
        connecting.then((late) => late.release(true)).catch(() => {});
        throw new Error(`no connection within ${LONGEST_OPEN} ms from a pool of at most ${this.#pool.options?.max ?? "?"}`);
      }
      this.#listening();
      return connection;
    });
    // The next use opens anew.
    opening.catch(() => this.#drop(opening));
    return opening;
  }

  /** Gives a connection up, unless another one has taken its place already. */
  #drop(opening: Promise<Connection>): void {
    if (this.#connection !== opening) return;
    this.#connection = null;
    // Destroyed and not returned to the pool: it is broken, or listens.
    opening.then((connection) => connection.release(true)).catch(() => {});
  }
}
