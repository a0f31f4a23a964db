/** Calls of the functions of a schema. */

import { isAbsolute } from "node:path";

/** The program that owns what it registers, by default. A text on the command line has none. */
export const MAIN_FILE = isAbsolute(process.argv[1] ?? "") ? process.argv[1] : undefined;

/** What a client needs of pg's `Pool`, `PoolClient` or `Client`. */
export interface Queryable {
  // The rows are those of the statement.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  query(text: string, values?: unknown[]): Promise<{ rows: any[] }>;
}

/** A row, with the types that pg gives to its columns. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Row = Record<string, any>;

/** The names and types of the functions' arguments, where they are not the option's own name, or not text. */
const NAMES: Record<string, string> = {
  afterFailed: "after_failed",
  afterFinal: "after_final",
  expiresAt: "expires_at",
  expiresIn: "expires_in",
  groupKey: "group_key",
  groupLimit: "group_limit",
  groupPolicy: "group_policy",
  inOrder: "in_order",
  maxAttempts: "max_attempts",
  maxWait: "max_wait",
  scheduledAt: "scheduled_at",
  unique: "unique_policy",
};
const TYPES: Record<string, string> = {
  after: "uuid[]",
  after_failed: "uuid[]",
  after_final: "uuid[]",
  args: "jsonb",
  backoff: "jsonb",
  count: "integer",
  delay: "interval",
  delays: "interval[]",
  error_details: "text[]",
  errors: "text[]",
  expires_at: "timestamptz",
  expires_in: "interval",
  group_limit: "integer",
  group_policy: "jsonb",
  id: "uuid",
  ids: "uuid[]",
  in_order: "boolean",
  jobs: "jsonb",
  kinds: "text[]",
  listens: "boolean",
  max_attempts: "integer",
  max_wait: "interval",
  meta: "jsonb",
  outcomes: "text[]",
  outputs: "text[]",
  pending: "boolean",
  priority: "integer",
  progress: "text[]",
  queues: "text[]",
  reserve: "interval",
  runs: "integer[]",
  scheduled_at: "timestamptz",
  timeout: "interval",
  unique_policy: "jsonb",
};

/** The columns that a worker reads of a fetched job. */
const FETCHED = [
  "id", "run", "kind", "queue", "args", "meta", "attempt", "max_attempts", "errors", "progress", "created_at",
  "scheduled_at", "unique_key", "group_key", "worker_id",
];
/** In milliseconds. */
const TIMEOUT = "extract(epoch FROM timeout)::float8 * 1000 AS timeout";
export const FETCHED_COLUMNS = [...FETCHED, TIMEOUT].join(", ");
/** The columns that a worker reads of an ended run. */
export const ENDED_COLUMNS = "counted, state, locked, not_stored";

/** What says something when it is null: args may be, and a policy gives up that of the kind. */
const SAYS_WITH_NULL = ["args", "unique", "groupPolicy"];

/** The options under the names that they have in the database, without those that say nothing. */
export function named(options: object): Row {
  const says = ([name, value]: [string, unknown]) => value !== undefined && (value !== null || SAYS_WITH_NULL.includes(name));
  const given = Object.entries(options).filter(says);
  return Object.fromEntries(given.map(([name, value]) => [NAMES[name] ?? name, value]));
}

/** Calls a function with named arguments: what is not given keeps the database's default. Another version may have more columns. */
export async function call(
  source: Queryable,
  schema: string,
  name: string,
  options: object,
  columns: string,
): Promise<Row[]> {
  const values: unknown[] = [];
  const text = `SELECT ${columns} FROM ${written(schema, name, options, values)}`;
  return (await source.query(text, values)).rows;
}

/** Records results and fetches jobs, in one transaction. Returns the rows of both. */
export async function exchange(
  source: Queryable,
  schema: string,
  results: object,
  fetch: object,
): Promise<{ ended: Row[]; started: Row[] }> {
  const values: unknown[] = [];
  const none = [...FETCHED, "timeout"].map((column) => `NULL AS ${column}`);
  const ends = `SELECT ${ENDED_COLUMNS}, ${none.join(", ")} FROM ${written(schema, "finish_jobs", results, values)}`;
  const starts = `SELECT NULL, NULL, NULL, NULL, ${FETCHED_COLUMNS} FROM ${written(schema, "fetch_jobs", fetch, values)}`;
  const { rows } = await source.query(`${ends} UNION ALL ${starts}`, values);
  return { ended: rows.filter((row) => row.counted !== null), started: rows.filter((row) => row.counted === null) };
}

/** A call as SQL. Adds its values to those of the statement. */
function written(schema: string, name: string, options: object, values: unknown[]): string {
  const list = Object.entries(named(options)).map(([argument, value]) => {
    const place = values.push(parameter(argument, value));
    return `${argument} => $${place}::${cast(TYPES[argument] ?? "text")}`;
  });
  return `${identifier(schema)}.${name}(${list.join(", ")})`;
}

/** A type as a cast. JSON is sent as text: a driver that encodes each parameter by its type would encode it a second time. */
function cast(type: string): string {
  return type === "jsonb" ? "text::jsonb" : type;
}

/** A name as SQL. */
export function identifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** A value as pg sends it. Intervals are given in milliseconds. An item of an array is JSON text already, where it is JSON. */
function parameter(argument: string, value: unknown): unknown {
  switch (TYPES[argument]) {
    case "jsonb":
      return JSON.stringify(value);
    case "interval":
      return interval(value as number);
    case "interval[]":
      return (value as (number | null)[]).map(interval);
    default:
      return value;
  }
}

function interval(milliseconds: number | null): string | null {
  return milliseconds === null ? null : `${milliseconds} milliseconds`;
}
