//! JSON as jobs, keys and doors handle it: no number loses a digit, and what PostgreSQL's `jsonb` cannot hold is an error.

mod canonical;
mod flaw;
mod jsonb;
mod number;
mod tokens;

pub use self::canonical::canonical_json;
pub(crate) use self::canonical::{
    Sink, utf16_order, write, write_double, write_items, write_members, write_string, write_text, write_value,
};
pub(crate) use self::flaw::Flaw;
pub use self::jsonb::parse_json;
pub(crate) use self::jsonb::{check_text, check_value, read_args, value_of};
pub(crate) use self::number::check_double;
pub use self::tokens::{depth, indent_json, is_number, tokens};
