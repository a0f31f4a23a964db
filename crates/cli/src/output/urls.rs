//! Database URLs in messages.

use std::borrow::Cow;

/// Replaces each database URL of the command line in a message. A URL that was given in the wrong place, such as
/// `uniqueue migrate postgres://…`, would be printed with its password.
pub(crate) fn without_urls(message: &str) -> Cow<'_, str> {
    without_urls_of(message, std::env::args_os().filter_map(|word| word.into_string().ok()))
}

fn without_urls_of(message: &str, words: impl IntoIterator<Item = String>) -> Cow<'_, str> {
    let mut message = Cow::Borrowed(message);
    for word in words {
        let url = ["postgres://", "postgresql://"].iter().filter_map(|scheme| word.find(scheme)).min();
        // A URL without a user has no password.
        if let Some(url) = url.map(|at| &word[at..]).filter(|url| url.contains('@'))
            && message.contains(url)
        {
            message = Cow::Owned(message.replace(url, "postgres://…"));
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_with_a_user_is_replaced_wherever_it_stands() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let given = words(&["uniqueue", "migrate", "postgres://ada:p@S3/x@db/app", "--url=postgresql://ada:S4@db/app"]);
        let message = "unexpected 'postgres://ada:p@S3/x@db/app', '--url=postgresql://ada:S4@db/app'";
        let said = without_urls_of(message, given);
        assert_eq!(said, "unexpected 'postgres://…', '--url=postgres://…'");
        let given = words(&["uniqueue", "postgres://db/app"]);
        assert_eq!(without_urls_of("unexpected postgres://db/app", given), "unexpected postgres://db/app");
    }
}
