/** Calls of the functions of a schema. */

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
  args: "jsonb",
  backoff: "jsonb",
  count: "integer",
  delay: "interval",
  delays: "interval[]",
  errors: "text[]",
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
  outputs: "jsonb[]",
  pending: "boolean",
  priority: "integer",
  progress: "jsonb[]",
  queues: "text[]",
  reserve: "interval",
  runs: "integer[]",
  scheduled_at: "timestamptz",
  timeout: "interval",
  unique_policy: "jsonb",
};

/** What says something when it is null: args may be, and a policy gives up that of the kind. */
const SAYS_WITH_NULL = ["args", "unique", "groupPolicy"];

/** The options under the names that they have in the database, without those that say nothing. */
export function named(options: object): Row {
  const says = ([name, value]: [string, unknown]) => value !== undefined && (value !== null || SAYS_WITH_NULL.includes(name));
  const given = Object.entries(options).filter(says);
  return Object.fromEntries(given.map(([name, value]) => [NAMES[name] ?? name, value]));
}

/** Calls a function with named arguments: what is not given keeps the database's default. */
export async function call(
  source: Queryable,
  schema: string,
  name: string,
  options: object,
  columns = "*",
): Promise<Row[]> {
  const given = Object.entries(named(options));
  const list = given.map(([argument], i) => `${argument} => $${i + 1}::${TYPES[argument] ?? "text"}`);
  const text = `SELECT ${columns} FROM ${identifier(schema)}.${name}(${list.join(", ")})`;
  const values = given.map(([argument, value]) => parameter(argument, value));
  return (await source.query(text, values)).rows;
}

/** A name as SQL. */
export function identifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** A value as pg sends it. Intervals are given in milliseconds. Each item of an array of JSON is JSON text already. */
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
