/**
 * Unique policies: how a job's key is made and claimed, and what a duplicate does.
 *
 * A policy is a JSON document, which the database reads. These types name its members for editors and the compiler.
 */

/** The state of a job. `completed`, `cancelled` and `discarded` are final. */
export type State =
  | "available"
  | "cancelled"
  | "completed"
  | "discarded"
  | "pending"
  | "retryable"
  | "running"
  | "scheduled";

/** A unique policy. `{ keys: ["args"] }` allows one job at a time for each kind and args. */
export interface UniquePolicy {
  /** The parts of the job that make the key. The type, which is the kind, is always one of them. */
  keys?: ("type" | "queue" | "args" | "meta")[];
  /** The members of the args that count, by name or JSON Pointer. Default: all. */
  args_keys?: string[];
  /** Members of the args that count where the job has them. */
  optional_args_keys?: string[];
  /** The members of the meta that count. They may be missing. */
  meta_keys?: string[];
  /** Leaves the kind out of the key, so that kinds share it. */
  exclude_type?: boolean;
  /** A length of time whose current window is part of the key, such as `P1D` for once in a day. */
  window?: string;
  /** A key of your own, 1 to 512 bytes, which stands alone. */
  key?: string;
  /** The defaults of another queue. `faktory` needs a `ttl`. */
  like?: "faktory" | "ojs" | "river" | "zizq";
  /** In which states a job claims its key. Default: `active`, until it is final. */
  scope?: "queued" | "active" | "completed" | "exists";
  /** The same, state by state. */
  states?: (State | "active")[];
  /** Ends the claim when a worker fetches the job, or when it has completed. */
  until?: "start" | "success";
  /** Ends the claim this long after the job was created, as an ISO 8601 duration such as `PT1H`. */
  period?: string;
  /** Ends the claim this long after the job was created or is due, whichever is later. */
  ttl?: string;
  /** What a duplicate does. Default: `ignore`, which answers with the holder. */
  on_conflict?: "ignore" | "reject" | "replace" | "replace_except_schedule" | "preempt" | "update" | "run_again";
  /** What `update` changes of a holder that waits. It implies `on_conflict: "update"`. */
  update?: Update;
  /** What becomes of a job that comes back and finds its key taken. Default: it goes on without the claim. */
  on_reentry?: "go_on" | "discard";
}

/** What a duplicate changes of a holder that waits. */
export interface Update {
  /** How the args of the holder change. Default: they become those of the newcomer. */
  args?: "latest" | "merge" | "append";
  /** `push` moves the holder's time to the newcomer's: debounce. It needs `max_delay`. Default: `keep`. */
  schedule?: "keep" | "push";
  /** How long after its creation the holder runs at the latest, as an ISO 8601 duration. */
  max_delay?: string;
  /** The most items of an array with `append`, 1 to 1,000,000. Default: 1,000. */
  max_items?: number;
}
