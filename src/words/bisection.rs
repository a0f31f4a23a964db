//! Bisection: gets a batch done that the database refuses for the sake of some of its items.
//!
//! The batch is split into halves, and each half is tried, down to single items: an item that is refused alone is at
//! fault. Where many items are refused, finding each of them costs two statements. So after [`REFUSED_ALONE`] items in a
//! row were refused alone, only parts of more than [`SMALL_PART`] items are split, until a part is accepted. A smaller
//! part that is refused is left over, for a later try. A batch of `n` items of which none is accepted so costs about
//! `n / 16` statements instead of `2n`.
//!
//! The caller sends each part, and decides which errors are refusals and what becomes of an item that is refused alone.

/// This many items in a row, refused alone, show that more than a few are refused.
const REFUSED_ALONE: u32 = 16;

/// The largest part that is then left over instead of being split.
const SMALL_PART: usize = 64;

/// The parts of a batch that are still to be tried. Parts come in the order of the batch.
#[derive(Debug)]
pub(crate) struct Bisection<T> {
    /// The next part is the last.
    parts: Vec<Vec<T>>,
    left_over: Vec<T>,
    refused_alone: u32,
    /// Splits every part, however many items were refused alone: for a caller that has no later try. Default: no.
    pub(crate) is_exhaustive: bool,
}

impl<T> Bisection<T> {
    /// Begins with the whole batch as the first part.
    pub(crate) fn new(batch: Vec<T>) -> Self {
        Self { parts: vec![batch], left_over: Vec::new(), refused_alone: 0, is_exhaustive: false }
    }

    /// The next part to try. `None`: every part was tried.
    pub(crate) fn next_part(&mut self) -> Option<Vec<T>> {
        self.parts.pop()
    }

    /// Notes that the database accepted a part.
    pub(crate) const fn accepted(&mut self) {
        self.refused_alone = 0;
    }

    /// Notes that the database refused a part, which is split or left over. Returns an item that was refused alone.
    pub(crate) fn refused(&mut self, mut part: Vec<T>) -> Option<T> {
        if part.len() <= 1 {
            self.refused_alone += 1;
            return part.pop();
        }
        if !self.is_exhaustive && self.refused_alone >= REFUSED_ALONE && part.len() <= SMALL_PART {
            self.left_over.append(&mut part);
        } else {
            let second = part.split_off(part.len().div_ceil(2));
            self.parts.extend([second, part]);
        }
        None
    }

    /// Puts a part back, to be tried next.
    pub(crate) fn put_back(&mut self, part: Vec<T>) {
        self.parts.push(part);
    }

    /// The items that were left over or not tried yet, in the order of the batch.
    pub(crate) fn rest(self) -> Vec<T> {
        let Self { parts, mut left_over, .. } = self;
        left_over.extend(parts.into_iter().rev().flatten());
        left_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bisects with a database that refuses some items. Returns the accepted items, those refused alone, the rest, and
    /// the number of statements.
    fn bisect(count: usize, is_refused: impl Fn(usize) -> bool) -> (Vec<usize>, Vec<usize>, Vec<usize>, usize) {
        let mut bisection = Bisection::new((0..count).collect());
        let (mut done, mut alone, mut statements) = (Vec::new(), Vec::new(), 0);
        while let Some(part) = bisection.next_part() {
            statements += 1;
            if part.iter().any(|item| is_refused(*item)) {
                alone.extend(bisection.refused(part));
            } else {
                bisection.accepted();
                done.extend(part);
            }
        }
        (done, alone, bisection.rest(), statements)
    }

    #[test]
    fn an_item_that_is_refused_alone_is_found_and_all_others_are_done() {
        for count in 1..40 {
            for refused in 0..count {
                let (done, alone, rest, statements) = bisect(count, |item| item == refused);
                assert_eq!(done, (0..count).filter(|item| *item != refused).collect::<Vec<_>>());
                assert_eq!((alone, rest), (vec![refused], vec![]));
                assert!(statements <= 2 * count.ilog2() as usize + 3, "{statements} for {count}");
            }
        }
    }

    #[test]
    fn items_that_are_refused_here_and_there_are_all_found() {
        let (done, alone, rest, _) = bisect(2_000, |item| item % 50 == 7);
        assert_eq!((done.len(), alone.len(), rest.len()), (1_960, 40, 0));
    }

    #[test]
    fn a_block_of_refused_items_costs_few_statements_and_leaves_few_others_over() {
        let (done, alone, rest, statements) = bisect(2_000, |item| (700..1_200).contains(&item));
        assert_eq!(alone, (700..716).collect::<Vec<_>>());
        assert_eq!(done.len() + alone.len() + rest.len(), 2_000);
        assert!(rest.is_sorted() && rest.len() - (500 - 16) <= SMALL_PART, "{}", rest.len());
        assert!(statements < 100, "{statements}");
    }

    #[test]
    fn a_batch_that_is_refused_as_a_whole_costs_few_statements() {
        let (done, alone, rest, statements) = bisect(2_000, |_| true);
        assert_eq!((done.len(), alone.len(), rest.len()), (0, 16, 1_984));
        assert!(statements <= 2_000 / 16, "{statements}");
    }

    #[test]
    fn an_exhaustive_bisection_leaves_nothing_over() {
        let mut bisection = Bisection::new((0..200).collect::<Vec<_>>());
        bisection.is_exhaustive = true;
        let mut alone = Vec::new();
        while let Some(part) = bisection.next_part() {
            alone.extend(bisection.refused(part));
        }
        assert_eq!(alone, (0..200).collect::<Vec<_>>());
        assert!(bisection.rest().is_empty());
    }

    #[test]
    fn the_rest_keeps_the_order_of_the_batch_when_the_caller_stops() {
        let mut bisection = Bisection::new((0..100).collect());
        let whole = bisection.next_part().unwrap();
        assert_eq!(bisection.refused(whole), None);
        let first = bisection.next_part().unwrap();
        assert_eq!(first, (0..50).collect::<Vec<_>>());
        bisection.put_back(first);
        assert_eq!(bisection.rest(), (0..100).collect::<Vec<_>>());
    }
}
