//! Written rows over those of the store below, read as one.

use std::cmp::Ordering;

use super::{Row, Scan, Store, StoreError, Table};

/// The first rows of both in one order, at most `limit`. Of two rows with one key the written one counts, and `None` as
/// its value hides the other. Both must come in ascending order, or both in descending, as `backwards` says.
///
/// # Errors
/// The first error of `below`.
pub fn merge<'a, E>(
    written: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    below: impl Iterator<Item = Result<Row, E>>,
    backwards: bool,
    limit: usize,
) -> Result<Vec<Row>, E> {
    let (mut written, mut below) = (written.peekable(), below.peekable());
    let mut rows = Vec::new();
    // Nothing is asked for beyond the limit: the next row below may cost another look at a store.
    while rows.len() < limit {
        let order = match (written.peek(), below.peek()) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) | (_, Some(Err(_))) => Ordering::Greater,
            (Some((key, _)), Some(Ok((other, _)))) if backwards => other.as_slice().cmp(key),
            (Some((key, _)), Some(Ok((other, _)))) => (*key).cmp(other.as_slice()),
        };
        if order.is_ge()
            && let Some(row) = below.next().transpose()?
            && order.is_gt()
        {
            rows.push(row);
        }
        if order.is_le()
            && let Some((key, Some(value))) = written.next()
        {
            rows.push((key.to_vec(), value.to_vec()));
        }
    }
    Ok(rows)
}

/// The rows of a scan, asked for as many at a time as it wants in all: more only where some of them do not count.
pub(super) struct Pages<'a> {
    store: &'a dyn Store,
    table: Table,
    scan: Scan,
    page: std::vec::IntoIter<Row>,
    over: bool,
}

impl<'a> Pages<'a> {
    pub(super) fn new(store: &'a dyn Store, table: Table, scan: Scan) -> Self {
        Self { store, table, scan, page: Vec::new().into_iter(), over: false }
    }

    /// The next page, and where the one after it begins.
    fn turn(&mut self) -> Result<(), StoreError> {
        let rows = self.store.scan(self.table, &self.scan)?;
        self.over = rows.len() < self.scan.limit;
        if let Some((last, _)) = rows.last() {
            if self.scan.backwards {
                self.scan.to = Some(last.clone());
            } else {
                // The first key after it.
                self.scan.from.clone_from(last);
                self.scan.from.push(0);
            }
        }
        self.page = rows.into_iter();
        Ok(())
    }
}

impl Iterator for Pages<'_> {
    type Item = Result<Row, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.page.as_slice().is_empty()
            && !self.over
            && let Err(error) = self.turn()
        {
            self.over = true;
            return Some(Err(error));
        }
        self.page.next().map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_asked_for_beyond_the_limit() {
        for (backwards, keys) in [(false, [1, 3, 5]), (true, [5, 3, 1])] {
            for limit in 0..=3 {
                let mut asked = 0;
                let below = keys.iter().map(|key| {
                    asked += 1;
                    Ok::<Row, StoreError>((vec![*key], vec![0]))
                });
                let rows = merge(std::iter::empty(), below, backwards, limit).unwrap();
                assert_eq!((rows.len(), asked), (limit, limit));
            }
        }
    }
}
