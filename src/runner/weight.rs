//! How heavy results are: batches are cut so that each is a message which PostgreSQL reads (at most 1 GB) and nobody waits
//! long for.

use serde_json::Value;

use super::completer::Ended;
use crate::store::{FinishResult, Verdict};

/// The most bytes of outputs, errors and progress in one statement, unless a single result has more. What JSON escapes
/// is sent as six times as many.
const MOST: usize = 16 << 20;

/// Cuts a batch into parts of which none is too heavy. Most are one.
pub(super) fn parts(batch: Vec<Ended>) -> Vec<Vec<Ended>> {
    cut(batch, |ended| of_result(&ended.result))
}

fn cut<T>(batch: Vec<T>, weight: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    if batch.iter().map(&weight).fold(0, usize::saturating_add) <= MOST {
        return vec![batch];
    }
    let (mut parts, mut part, mut sum) = (Vec::new(), Vec::new(), 0_usize);
    for item in batch {
        let weight = weight(&item);
        sum = sum.saturating_add(weight);
        if sum > MOST && !part.is_empty() {
            parts.push(std::mem::take(&mut part));
            sum = weight;
        }
        part.push(item);
    }
    parts.push(part);
    parts
}

fn of_result(result: &FinishResult) -> usize {
    let of_verdict = match &result.verdict {
        Verdict::Complete { output } => output.as_ref().map_or(0, of_json),
        Verdict::Retry { error: text, .. } | Verdict::Cancel { reason: text } | Verdict::Discard { reason: text } => {
            text.len()
        }
        Verdict::Snooze { .. } | Verdict::GiveBack => 0,
    };
    of_verdict + result.progress.as_ref().map_or(0, of_json)
}

/// About as many bytes as the text has, without making it.
fn of_json(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 20,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| of_json(item) + 1).sum::<usize>() + 2,
        Value::Object(members) => {
            members.iter().map(|(name, value)| name.len() + of_json(value) + 4).sum::<usize>() + 2
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_batch_is_cut_before_it_is_too_heavy_and_every_result_is_in_a_part() {
        let cut = |weights: &[usize]| cut(weights.to_vec(), |weight| *weight);
        assert_eq!(cut(&[0; 2_000]), [vec![0; 2_000]]);
        assert_eq!(cut(&[MOST, 1, MOST - 1, 1]), [vec![MOST], vec![1, MOST - 1], vec![1]]);
        assert_eq!(cut(&[MOST + 1, usize::MAX, 1]), [[MOST + 1], [usize::MAX], [1]]);
        assert_eq!(cut(&[540_000; 2_000]).concat(), [540_000; 2_000]);
        assert_eq!(cut(&[540_000; 2_000]).len(), 65);
    }

    #[test]
    fn a_value_weighs_about_what_its_text_has() {
        let value =
            json!({"name": "x".repeat(1_000), "numbers": [1, 2.5, 18446744073709551615_u64], "none": [null, true, {}]});
        let text = value.to_string().len();
        assert!((text..text * 2).contains(&of_json(&value)), "{text}, {}", of_json(&value));
    }
}
