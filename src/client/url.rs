//! Reading a database URL.

use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;

use super::Client;
use crate::error::{Error, Result};

impl Client {
    /// Reads a database URL as [`Client::connect`] does, for a pool of your own. Its sessions are called `uniqueue`, unless
    /// the URL has an `application_name` or the environment a `PGAPPNAME`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidUrl`] for a URL that cannot be read or names several hosts.
    pub fn connect_options(url: &str) -> Result<PgConnectOptions> {
        let invalid = |problem: &str| Error::InvalidUrl { problem: problem.to_owned() };
        let Some(rest) = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://")) else {
            return Err(invalid("it must start with postgres:// or postgresql://"));
        };
        if names_several_hosts(rest) {
            return Err(invalid(
                "it names several hosts, and only one is supported: name the address that a failover moves, \
                 such as a DNS name, a virtual IP or a pooler",
            ));
        }
        let options = PgConnectOptions::from_str(url).map_err(|error| invalid(&error.to_string()))?;
        match options.get_application_name() {
            Some(_) => Ok(options),
            None => Ok(options.application_name("uniqueue")),
        }
    }
}

/// Whether the URL after its scheme names several hosts, as libpq takes them: `a:5432,b:5432/app` or `/app?host=a,b`.
fn names_several_hosts(rest: &str) -> bool {
    let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = before.split('/').next().unwrap_or_default();
    // A comma before the @ belongs to the user's name or the password.
    let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
    let has_comma = |text: &str| text.contains(',') || text.to_ascii_lowercase().contains("%2c");
    has_comma(hosts)
        || query.split('&').any(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or_default();
            matches!(name, "host" | "hostaddr" | "port") && has_comma(value)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_s_own_application_name_stays() {
        let name = |url: &str| Client::connect_options(url).unwrap().get_application_name().map(str::to_owned);
        assert_eq!(name("postgres://db/app?application_name=mine").as_deref(), Some("mine"));
        let otherwise = std::env::var("PGAPPNAME").unwrap_or_else(|_| "uniqueue".to_owned());
        assert_eq!(name("postgres://db/app"), Some(otherwise));
    }

    #[test]
    fn several_hosts_are_an_error_that_says_so() {
        for url in [
            "postgres://a,b/app",
            "postgres://user:pass@a:5432,b:5432/app?target_session_attrs=read-write",
            "postgresql:///app?host=a,b",
            "postgres:///app?user=x&host=a%2Cb",
        ] {
            let error = Client::connect_options(url).unwrap_err().to_string();
            assert!(error.contains("it names several hosts, and only one is supported"), "{url}: {error}");
        }
        for url in ["postgres://a,b:p,w@db/app", "postgres://db/a,b", "postgres://db/app?options=-c%20a=b,c"] {
            Client::connect_options(url).unwrap();
        }
    }
}
