//! Inserting many jobs, each into its place.

use std::collections::{BTreeMap, HashMap};

use super::Places;
use crate::error::{Error, Result};
use crate::words::after::Parent;
use crate::words::ident::PlaceName;
use crate::words::job::{Inserted, NewJob};

/// The answer of one place to its part of a bulk insert over places.
#[derive(Debug)]
#[non_exhaustive]
pub struct PlaceAnswer {
    /// The place.
    pub place: PlaceName,
    /// The inputs that belong to it, as indexes into the call's jobs, in rising order.
    pub inputs: Vec<usize>,
    /// One answer an input, in the order of `inputs`; or the error because of which none of them was inserted.
    pub inserted: Result<Vec<Inserted>>,
}

impl Places {
    /// Inserts jobs, each into the place that it declares, as [`Places::insert`] does. It is all or nothing in each place,
    /// and not over all of them: there is one answer for each place that got jobs, in the order of the map. To send the
    /// jobs of a place that failed again, give them ids: an insert that is sent again meets itself.
    ///
    /// A job and its parents of the same call must belong to one place.
    ///
    /// # Errors
    ///
    /// As for [`Places::insert`], for a job whose place cannot be found. Then nothing was sent to any place.
    pub async fn insert_many<I>(&self, jobs: I) -> Result<Vec<PlaceAnswer>>
    where
        I: IntoIterator,
        I::Item: Into<NewJob>,
    {
        let mut filled = Vec::new();
        let mut kinds = HashMap::new();
        for job in jobs.into_iter().map(Into::into).collect::<Vec<NewJob>>() {
            filled.push(self.fill_in(job, &mut kinds).await?);
        }
        let mut parts: BTreeMap<usize, (Vec<usize>, Vec<NewJob>)> = BTreeMap::new();
        let mut marked = HashMap::new();
        for (input, mut job) in filled.into_iter().enumerate() {
            let index = self.index_of_job(&mut job)?;
            if let Some(mark) = job.mark.get() {
                marked.insert(mark, index);
            }
            for (parent, _) in &job.parents {
                if let Parent::OfCall(mark) = parent
                    && let Some(other) = marked.get(mark).filter(|other| **other != index)
                {
                    let given =
                        format!("job {input} belongs to {}, its parent to {}", self.name(index), self.name(*other));
                    return Err(Error::InvalidOption {
                        option: "after",
                        problem: "a job and its parents must belong to one place",
                        given,
                    });
                }
            }
            let (inputs, jobs) = parts.entry(index).or_default();
            inputs.push(input);
            jobs.push(job);
        }
        let (inputs, asked): (Vec<_>, Vec<_>) = parts
            .into_iter()
            .map(|(index, (inputs, jobs))| {
                let client = self.inner.clients[index].clone();
                (inputs, (index, async move { client.insert_many(jobs).await }))
            })
            .unzip();
        let answers = self.answers(asked).await.into_iter().zip(inputs);
        Ok(answers.map(|((place, inserted), inputs)| PlaceAnswer { place, inputs, inserted }).collect())
    }
}
