/** A connection that a worker keeps. */

import { type Queryable, identifier } from "./call.js";

/** What a worker needs of a connection of pg's `Pool`. */
export interface Connection extends Queryable {
  on(event: "error", listener: (error: Error) => void): unknown;
  on(event: "notification", listener: (message: { channel: string; payload?: string | undefined }) => void): unknown;
  release(destroy?: boolean | Error): void;
}

/** What a worker needs of pg's `Pool`. */
export interface Pool extends Queryable {
  connect(): Promise<Connection>;
}

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
    const connection = (this.#connection ??= this.#open());
    try {
      return await (await connection).query(text, values);
    } catch (error) {
      // The server's own errors leave the connection as it is.
      if (!(error instanceof Error && "severity" in error)) await this.#drop(connection);
      throw error;
    }
  }

  async close(): Promise<void> {
    if (this.#connection) await this.#drop(this.#connection);
  }

  #open(): Promise<Connection> {
    const opening: Promise<Connection> = this.#pool.connect().then(async (connection) => {
      connection.on("error", () => void this.#drop(opening));
      connection.on("notification", ({ channel, payload }) => this.#notified(channel, payload ?? ""));
      try {
        for (const channel of this.#channels) await connection.query(`LISTEN ${identifier(channel)}`);
      } catch (error) {
        connection.release(true);
        throw error;
      }
      this.#listening();
      return connection;
    });
    return opening;
  }

  /** Gives a connection up, unless another one has taken its place already. */
  async #drop(connection: Promise<Connection>): Promise<void> {
    if (this.#connection !== connection) return;
    this.#connection = null;
    // Destroyed and not returned to the pool: it is broken, or listens.
    await connection.then(
      (open) => open.release(true),
      () => {},
    );
  }
}
