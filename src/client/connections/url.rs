//! Reading a database URL.

use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;

use crate::client::Client;
use crate::error::{Error, Result};

impl Client {
    /// Reads a database URL as [`Client::connect`] does, for a pool of your own. Its sessions are called `uniqueue`, unless
    /// the URL has an `application_name` or the environment a `PGAPPNAME`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidUrl`] for a URL that cannot be read, names several hosts, or has an `@` behind the host: then the
    /// password may hold a character that must be percent-encoded, and a part of it would be taken for the host.
    pub fn connect_options(url: &str) -> Result<PgConnectOptions> {
        let invalid = |problem: &str| Error::InvalidUrl { problem: problem.to_owned() };
        let Some(rest) = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://")) else {
            return Err(invalid("it must start with postgres:// or postgresql://"));
        };
        if may_split_the_password(rest) {
            return Err(invalid(
                "an @ follows the host: in the user and the password write / as %2F, ? as %3F, # as %23, @ as %40, and in \
                 the database's name @ as %40",
            ));
        }
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

/// Whether a `/`, `?` or `#` of the password may end the host. The `@` that ends the password then comes later. Errors name
/// host, port, user and database, so they would name parts of the password.
fn may_split_the_password(rest: &str) -> bool {
    let Some(end) = rest.find(['/', '?', '#']) else { return false };
    let after = &rest[end..];
    let (path, query) = after.split_once('?').unwrap_or((after, ""));
    path.contains('@')
        || query.split('&').filter(|pair| pair.contains('@')).any(|pair| {
            let (name, _) = pair.split_once('=').unwrap_or((pair, ""));
            // In these values an @ is usual.
            !matches!(name, "application_name" | "dbname" | "options" | "password" | "user")
        })
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
    fn no_part_of_a_password_is_taken_for_another_part_of_the_url() {
        let marks: Vec<char> = (' '..='~').filter(|mark| !mark.is_ascii_alphanumeric()).collect();
        let mut refused = 0;
        for (one, other) in marks.iter().flat_map(|one| marks.iter().map(move |other| (one, other))) {
            for password in [format!("s3cr{one}4567{other}89"), format!("0123{one}4567{other}89")] {
                let url = format!("postgres://ada:{password}@db.example/app");
                match Client::connect_options(&url) {
                    Ok(options) => {
                        let parts = (options.get_host(), options.get_username(), options.get_database());
                        assert_eq!(parts, ("db.example", "ada", Some("app")), "{url}");
                    }
                    Err(error) => {
                        refused += 1;
                        let text = format!("{error} {error:?}");
                        assert!(
                            !["s3cr", "0123", "4567", "89"].iter().any(|part| text.contains(part)),
                            "{url}: {text}"
                        );
                    }
                }
            }
        }
        assert!(refused > 100, "{refused}");
        for url in ["postgres://db/app?user=ada@example.com", "postgres://ada:a@b@db/app", "postgres://db/a%40b"] {
            Client::connect_options(url).unwrap();
        }
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
