#![doc = include_str!("../README.md")]

mod change_log;
mod list;
mod statement;

use uniqueue::Client;

pub use self::change_log::LoggedChange;
pub use self::list::List;

/// What operators ask and change in the schema of a client. Cheap to make and to copy.
#[derive(Clone, Copy, Debug)]
pub struct Admin<'a> {
    client: &'a Client,
}

impl<'a> Admin<'a> {
    /// The operators' side of a client's schema.
    #[must_use]
    pub const fn new(client: &'a Client) -> Self {
        Self { client }
    }

    /// The client.
    #[must_use]
    pub const fn client(self) -> &'a Client {
        self.client
    }
}
