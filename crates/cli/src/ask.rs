//! The way of a command that asks a database: open, ask, close, print, verdict.

use uniqueue::Client;

use crate::database::{Database, DatabaseArguments};
use crate::failure::Failure;
use crate::output::{self, Answer, Form};
use crate::places;
use crate::verdict::Verdict;

/// Asks the database of the arguments. Fails unless its schema has the version that this uniqueue needs.
pub(crate) async fn ask<A: Into<Answer>>(
    arguments: &DatabaseArguments,
    question: impl AsyncFnOnce(&Client, Form) -> Result<A, Failure>,
) -> Result<Verdict, Failure> {
    Database::open_migrated(arguments).await?.ask(arguments, question).await
}

/// Asks the database of the arguments, or all places of a map at once. A place that does not answer is named on standard
/// error, and the verdict is not fine.
pub(crate) async fn ask_each<F>(
    arguments: &DatabaseArguments,
    question: impl Fn(Client, Form) -> F,
) -> Result<Verdict, Failure>
where
    F: Future<Output = Result<Answer, Failure>> + Send + 'static,
{
    let checked = |client: Client, form| {
        let answer = question(client.clone(), form);
        async move {
            client.check_schema().await?;
            answer.await
        }
    };
    ask_each_unchecked(arguments, checked).await
}

/// The same whatever the version of the schema.
pub(crate) async fn ask_each_unchecked<F>(
    arguments: &DatabaseArguments,
    question: impl Fn(Client, Form) -> F,
) -> Result<Verdict, Failure>
where
    F: Future<Output = Result<Answer, Failure>> + Send + 'static,
{
    let Some(places) = places::all() else {
        let database = Database::open(arguments, 2).await?;
        return database.ask(arguments, async |client, form| question(client.clone(), form).await).await;
    };
    let asked = |client: Client| {
        let place = client.place().cloned();
        let answer = question(client, Form { json: arguments.json, place });
        async move {
            match answer.await {
                // So that the error names a place that is down.
                Err(Failure::Uniqueue(error)) => Err(error),
                answer => Ok(answer),
            }
        }
    };
    let (mut answers, mut verdict) = (Vec::new(), Verdict::Fine);
    for (place, answer) in places.ask(asked).await {
        match answer.map_err(Failure::from).flatten() {
            Ok(answer) => answers.push((place, answer)),
            Err(failure) => {
                output::print_to_stderr(&format!("place {place}: error: {failure}"));
                verdict = Verdict::NotFine;
            }
        }
    }
    Ok(Answer::of_places(answers).print()?.or_worse(verdict))
}

impl Database {
    /// Asks an open database, closes it and prints the answer.
    pub(crate) async fn ask<A: Into<Answer>>(
        self,
        arguments: &DatabaseArguments,
        question: impl AsyncFnOnce(&Client, Form) -> Result<A, Failure>,
    ) -> Result<Verdict, Failure> {
        let answer = question(&self.client, Form { json: arguments.json, place: None }).await?.into();
        self.close().await?;
        answer.print()
    }
}
